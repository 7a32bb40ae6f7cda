package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"taskbus/config/quotas"
)

// Lanes are there where they can be, unless they are switched off; where they were asked for and
// cannot be, or a wait that is longer than the broker lets a message be held, people are told.
func TestLanes(t *testing.T) {
	tests := []struct {
		name, settings, more string
		lanes                []string
		on                   bool
		room                 int
		notes                []string
	}{
		{name: "nothing is said", settings: "{}", on: true, room: 2000}, // half of the window of 4,000
		{name: "null", settings: "{lanes: }", on: true, room: 2000},
		{name: "on", settings: "{lanes: true, window: 10}", on: true, room: 5},
		{name: "off", settings: "{lanes: false}"},
		{name: "none of its own", settings: "{lanes: []}", on: true, room: 2000},
		{name: "for two groups", settings: "{lanes: [b, a, b], window: 10}", lanes: []string{"a", "b"}, on: true, room: 5},
		{name: "a long wait", settings: "{assignment_timeout_seconds: 86400}", on: true, room: 2000},
		{name: "two minutes without lanes", settings: "{assignment_timeout_seconds: 120, lanes: false}"},
		// 1800 s − 120 s
		{name: "a long wait without lanes", settings: "{assignment_timeout_seconds: 1681, lanes: false}",
			notes: []string{"1681 counts as 1680"}},
		{name: "classic queues", settings: "{}", more: "queues: classic"},
		{name: "asked for with classic queues", settings: "{lanes: true}", more: "queues: classic",
			notes: []string{"lanes are off: they are quorum queues"}},
		{name: "nothing declared", settings: "{}", more: "topology: verify"},
		{name: "asked for where nothing is declared", settings: "{lanes: [a], assignment_timeout_seconds: 1700}",
			more:  "topology: verify",
			notes: []string{"lanes are off: their queues", "1700 counts as 1680"}},
		{name: "without the journal", settings: "{}", more: "journal: {enabled: false}"},
		{name: "asked for without the journal", settings: "{lanes: [a]}", more: "journal: {enabled: false}",
			notes: []string{"lanes are off: the journal"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse(fmt.Appendf(nil, "agents: {}\nglobal_settings: %s\n%s\n", tt.settings, tt.more), "agents.yaml")
			if err != nil {
				t.Fatal(err)
			}
			p, notes := c.Policy(), c.Notes()
			if !slices.Equal(p.Lanes, tt.lanes) || (p.Lanes != nil) != tt.on || p.LaneRoom != tt.room {
				t.Errorf("lanes %#v, room %d", p.Lanes, p.LaneRoom)
			}
			if len(notes) != len(tt.notes) {
				t.Fatalf("notes %q, want %q", notes, tt.notes)
			}
			for i, want := range tt.notes {
				if !strings.Contains(notes[i], want) {
					t.Errorf("note %q, want %q in it", notes[i], want)
				}
			}
		})
	}
}

// With quotas the groups have lanes of their own, unless agents.yaml says which do, or that none does.
func TestLanesOfQuotas(t *testing.T) {
	q, err := quotas.Parse([]byte("groups: [{id: b}, {id: a, parent: b}]"), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, agents string
		lanes        []string
	}{
		{"not said", "agents: {}", []string{"a", "b"}},
		{"on", "agents: {}\nglobal_settings: {lanes: true}", []string{"a", "b"}},
		{"which", "agents: {}\nglobal_settings: {lanes: [a]}", []string{"a"}},
		{"off", "agents: {}\nglobal_settings: {lanes: false}", nil},
		{"cannot be", "agents: {}\nqueues: classic", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse([]byte(tt.agents), "agents.yaml")
			if err != nil {
				t.Fatal(err)
			}
			c = c.WithQuotas(q)
			if p := c.Policy(); !slices.Equal(p.Lanes, tt.lanes) || (p.LaneRoom > 0) != (tt.lanes != nil) {
				t.Errorf("lanes %q, room %d", p.Lanes, p.LaneRoom)
			}
		})
	}
}

// Of more groups than may have lanes those at the top do, and what is below them uses theirs:
// 501 with one below each are 1,002. With a list in agents.yaml the same goes for its groups.
func TestLanesAbove(t *testing.T) {
	var text strings.Builder
	text.WriteString("groups:\n")
	for i := range 501 {
		fmt.Fprintf(&text, "- {id: org%d}\n- {id: team%d, parent: org%d}\n", i, i, i)
	}
	q, err := quotas.Parse([]byte(text.String()), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		settings           string
		org, team7, others string
	}{
		{"{}", "org7", "org7", "other"},
		{"{lanes: [org7]}", "org7", "org7", "other"},
		{"{lanes: [team7]}", "other", "team7", "other"},
		{"{lanes: []}", "other", "other", "other"},
	} {
		c, err := Parse([]byte("agents: {}\nglobal_settings: "+tt.settings), "agents.yaml")
		if err != nil {
			t.Fatal(err)
		}
		p := c.WithQuotas(q).Policy()
		if got := [3]string{p.LaneOf("org7"), p.LaneOf("team7"), p.LaneOf("nobody's")}; got != [3]string{tt.org, tt.team7,
			tt.others} {
			t.Errorf("%s: lanes %q", tt.settings, got)
		}
		if p := c.WithQuotas(q).WithQuotas(nil).Policy(); p.LanesAbove != nil {
			t.Errorf("%s: without quotas there is nobody above: %v", tt.settings, p.LanesAbove)
		}
	}
}
