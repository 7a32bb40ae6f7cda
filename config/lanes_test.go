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
