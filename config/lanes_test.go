package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Lanes are there where they are asked for and can be; without them a task is not held for
// longer than a minute, whatever is written.
func TestLanes(t *testing.T) {
	tests := []struct {
		name, settings, more string
		lanes                []string
		on                   bool
		room                 int
		waits                time.Duration
		notes                []string
	}{
		{name: "none", settings: "{}", waits: 30 * time.Second},
		{name: "one for all", settings: "{lanes: [], assignment_timeout_seconds: 86400}", on: true, room: 2000, waits: 24 * time.Hour},
		{name: "for two groups", settings: "{lanes: [b, a, b], window: 10}", lanes: []string{"a", "b"}, on: true, room: 5, waits: 30 * time.Second},
		{name: "not said", settings: "{lanes: }", waits: 30 * time.Second},
		{name: "a long wait without lanes", settings: "{assignment_timeout_seconds: 300}", waits: time.Minute, notes: []string{"300 counts as 60"}},
		{name: "classic queues", settings: "{lanes: [a]}", more: "queues: classic", waits: 30 * time.Second, notes: []string{"lanes are off: they are quorum queues"}},
		{name: "nothing declared", settings: "{lanes: [a], assignment_timeout_seconds: 120}", more: "topology: verify", waits: time.Minute,
			notes: []string{"lanes are off: their queues", "120 counts as 60"}},
		{name: "without the journal", settings: "{lanes: [a]}", more: "journal: {enabled: false}", waits: 30 * time.Second, notes: []string{"lanes are off: the journal"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse(fmt.Appendf(nil, "agents: {}\nglobal_settings: %s\n%s\n", tt.settings, tt.more), "agents.yaml")
			if err != nil {
				t.Fatal(err)
			}
			p, notes := c.Policy(), c.Notes()
			if !slices.Equal(p.Lanes, tt.lanes) || (p.Lanes != nil) != tt.on || p.LaneRoom != tt.room || p.Settings.AssignmentTimeout != tt.waits {
				t.Errorf("lanes %#v, room %d, a task waits %v", p.Lanes, p.LaneRoom, p.Settings.AssignmentTimeout)
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

// With quotas the groups have lanes of their own, unless agents.yaml says which do.
func TestLanesOfQuotas(t *testing.T) {
	q, err := ParseQuotas([]byte("groups: [{id: b}, {id: a, parent: b}]"), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, agents string
		lanes        []string
		waits        time.Duration
	}{
		{"not said", "agents: {}\nglobal_settings: {assignment_timeout_seconds: 7200}", []string{"a", "b"}, 2 * time.Hour},
		{"said", "agents: {}\nglobal_settings: {assignment_timeout_seconds: 7200, lanes: [a]}", []string{"a"}, 2 * time.Hour},
		{"cannot be", "agents: {}\nqueues: classic\nglobal_settings: {assignment_timeout_seconds: 7200}", nil, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse([]byte(tt.agents), "agents.yaml")
			if err != nil {
				t.Fatal(err)
			}
			c = c.WithQuotas(q)
			if p := c.Policy(); !slices.Equal(p.Lanes, tt.lanes) || p.Settings.AssignmentTimeout != tt.waits || (p.LaneRoom > 0) != (tt.lanes != nil) {
				t.Errorf("lanes %q, room %d, a task waits %v", p.Lanes, p.LaneRoom, p.Settings.AssignmentTimeout)
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
	q, err := ParseQuotas([]byte(text.String()), "quotas.yaml")
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
		if got := [3]string{p.LaneOf("org7"), p.LaneOf("team7"), p.LaneOf("nobody's")}; got != [3]string{tt.org, tt.team7, tt.others} {
			t.Errorf("%s: lanes %q", tt.settings, got)
		}
		if p := c.WithQuotas(q).WithQuotas(nil).Policy(); p.LanesAbove != nil {
			t.Errorf("%s: without quotas there is nobody above: %v", tt.settings, p.LanesAbove)
		}
	}
}
