package simulator

import (
	"strings"
	"testing"
	"time"
)

const goodPulling = `about: agents that pull
duration_seconds: 100
warm_up_seconds: 10
seeds: [3, 4]
pulling:
  agents:
    - {name: a, capacity_items_per_second: 16}
    - {name: b, capacity_items_per_second: 0.5, slots: 3}
  loads:
    - {items: 49}
    - {label: more and more, arrivals_per_second: 2.5, death: {agent: b, at_seconds: 50}}
    - {arrivals_per_second: 2.5}
  controllers:
    - {mode: fixed, max_claim_items: 8, base_discovery_interval_ms: 500}
    - {mode: literal, label: as written, grants: fair_part}
    - {mode: equal, label: freely, grants: all}
    - equal
`

func TestReadPulling(t *testing.T) {
	s, err := Read("good.yaml", "good", []byte(goodPulling))
	if err != nil {
		t.Fatal(err)
	}
	if s.About != "agents that pull" || s.Duration != 100*time.Second || s.WarmUp != 10*time.Second || len(s.Seeds) != 2 {
		t.Errorf("%+v", s)
	}
	p := s.Pulling
	if p.Agents[0] != (Puller{"a", 16, 10_000}) || p.Agents[1] != (Puller{"b", 0.5, 3}) {
		t.Errorf("agents %+v", p.Agents)
	}
	for i, want := range []PullLoad{
		{Label: "49 items at any time", Items: 49},
		{Label: "more and more", Rate: 2.5, Death: Death{"b", 50 * time.Second}},
		{Label: "2.5 items arrive per second", Rate: 2.5},
	} {
		if p.Loads[i] != want {
			t.Errorf("load %+v, want %+v", p.Loads[i], want)
		}
	}
	// Only equal has its fair part granted where the file does not say.
	for i, want := range []PullController{
		{PullFixed, "fixed", 8, 500 * time.Millisecond, false},
		{PullLiteral, "as written", 100, time.Second, true},
		{PullEqual, "freely", 100, time.Second, false},
		{PullEqual, "equal", 100, time.Second, true},
	} {
		if p.Controllers[i] != want {
			t.Errorf("controller %+v, want %+v", p.Controllers[i], want)
		}
	}
}

func TestReadPullingFaults(t *testing.T) {
	tests := []struct {
		name, old, changed string
		line               int
		want               string
	}{
		{"a fleet beside it", "seeds: [3, 4]", "fleet: []", 4, "fleet: unknown key"},
		{"no loads", "  loads:\n", "  loads: []\n  load:\n", 10, "pulling.load: unknown key; did you mean loads?"},
		{"misspelt mode", "mode: literal,", "mode: literally,", 15,
			"pulling.controllers[1].mode: must be one of fixed, literal, literal-share, equal"},
		{"misspelt name of a mode", "    - equal\n", "    - equality\n", 17, "pulling.controllers[3]: must be one of"},
		{"no capacity", ", capacity_items_per_second: 16", "", 7, "pulling.agents[0].capacity_items_per_second: is missing"},
		{"capacity 0", "second: 16", "second: 0", 7, "must be a number from 0.001 to 100000"},
		{"neither", "{items: 49}", "{label: x}", 10, "must have either items"},
		{"both", "{items: 49}", "{items: 49, arrivals_per_second: 1}", 10, "must have either items"},
		{"a death of nobody", "agent: b", "agent: c", 11, `pulling.loads[1]: the agent "c" that dies is none of the agents`},
		{"a death too late", "at_seconds: 50", "at_seconds: 100", 11, "dies after duration_seconds (100)"},
		{"twice the same agent", "name: b", "name: a", 8, `pulling.agents[1]: another one is called "a" already`},
		{"twice the same load", "label: more and more", "label: 49 items at any time", 11, "another one is called"},
		{"twice the same controller", "label: freely, ", "", 17, `pulling.controllers[3]: another one is called "equal"`},
		{"too fast", "ms: 500", "ms: 100", 14, "must be a whole number from 200 to 10000"},
		{"too many at once", "items: 8,", "items: 10001,", 14, "must be a whole number from 1 to 10000"},
		{"warm-up too long", "warm_up_seconds: 10", "warm_up_seconds: 100", 3, "nothing is left to measure"},
		// (16.5 items + 2·5 claims)·3 loads + 5 arrivals are 84.5 a second, 2.26e8 in 31
		// days; times 2 seeds · 4 controllers · 2 agents 3.6e9, and 1.8e12 with 1000 seeds.
		{"a month", "duration_seconds: 100\n", "duration_seconds: 2678400\n# 100", 2, ""},
		{"a month, with all seeds", "duration_seconds: 100\nwarm_up_seconds: 10\nseeds: [3, 4]",
			"duration_seconds: 2678400\nwarm_up_seconds: 10\nseeds: 1000", 2, "have fewer seeds, controllers"},
		{"nothing in it", goodPulling[strings.Index(goodPulling, "\n  agents"):], " {}\n", 5, "pulling.agents: is missing"},
		{"empty lists", goodPulling[strings.Index(goodPulling, "\n  agents"):], " {agents: [], loads: [], controllers: []}\n",
			5, "must be a list of 1 to 256, not of 0"},
		{"a list", goodPulling[strings.Index(goodPulling, "\n  agents"):], " []\n", 5, "pulling: must be a mapping"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(goodPulling, tt.old, tt.changed, 1)
			if text == goodPulling {
				t.Fatal("the test changes nothing")
			}
			_, err := Read("bad.yaml", "bad", []byte(text))
			if tt.want == "" {
				if err != nil {
					t.Errorf("error %v, want none", err)
				}
				return
			}
			faults, ok := err.(*Faults)
			if !ok {
				t.Fatalf("error %v, want faults", err)
			}
			if f := faults.List[0]; f.Line != tt.line || !strings.Contains(f.String(), tt.want) {
				t.Errorf("%v, want line %d with %q", err, tt.line, tt.want)
			}
		})
	}
}
