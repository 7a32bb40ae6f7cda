package main

import (
	"slices"
	"testing"
	"time"

	"taskbus/config"
	"taskbus/messages"
	"taskbus/schemas"
)

func decoder(t *testing.T) *messages.Decoder {
	t.Helper()
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return messages.NewDecoder(set, messages.DefaultLimits())
}

func TestTasksAreValidAndOfTheSizePromised(t *testing.T) {
	d := decoder(t)
	for n := range 3 * len(kinds) {
		p := task(n)
		m, refusal := d.DecodeTaskAssign(p.Body)
		if refusal != nil {
			t.Fatalf("task %d is refused: %s", n, refusal.Text)
		}
		if m.TaskType != kinds[n%len(kinds)].name || string(m.TaskID) != p.MessageId {
			t.Errorf("task %d is %s of type %s", n, m.TaskID, m.TaskType)
		}
		if len(p.Body) < 450 || len(p.Body) > 550 {
			t.Errorf("task %d has %d bytes, want about 500", n, len(p.Body))
		}
	}
}

func TestTaskNumber(t *testing.T) {
	for _, c := range []struct {
		id   string
		want int
		ok   bool
	}{
		{taskID(0), 0, true},
		{taskID(60_000), 60_000, true},
		{taskID(7) + ".1", 7, true}, // the dispatch id of its first attempt
		{taskID(7) + ".12", 7, true},
		{"", 0, false},
		{"000000007", 0, false},
		{"bench-", 0, false},
		{"bench--1", 0, false},
	} {
		if n, ok := taskNumber(c.id); ok != c.ok || ok && n != c.want {
			t.Errorf("taskNumber(%q) = %d, %v; want %d, %v", c.id, n, ok, c.want, c.ok)
		}
	}
}

func TestFleetFile(t *testing.T) {
	for _, c := range []struct {
		name   string
		slots  int
		skills func(int) []string
		choice int // agents at least that can do a task of any kind
	}{
		{"throughput", 100_000, skills, 12},
		{"memory", memorySlots, allSkills, fleetSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Parse(fleetFile(c.slots, c.skills), "agents.yaml")
			if err != nil {
				t.Fatal(err)
			}
			policy := cfg.Policy()
			if len(policy.Agents) != fleetSize || policy.Agents[0].MaxConcurrent != c.slots {
				t.Fatalf("%d agents with %d slots", len(policy.Agents), policy.Agents[0].MaxConcurrent)
			}
			if got := cfg.AgentQueues(); !slices.Equal(slices.Sorted(slices.Values(got)), queues(taskbusQueue)) {
				t.Errorf("the service would use other queues than we count: %q", got)
			}
			for _, k := range kinds {
				able := 0
				for _, a := range policy.Agents {
					if !slices.ContainsFunc(policy.Routes[k.name].Required, func(need string) bool { return !slices.Contains(a.Capabilities, need) }) {
						able++
					}
				}
				if able < c.choice {
					t.Errorf("%d agents can do %s, want at least %d", able, k.name, c.choice)
				}
			}
		})
	}
}

func TestStatus(t *testing.T) {
	d := decoder(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	for _, c := range []struct {
		report report
		load   float64
	}{
		{unlimited(1000), 0},                   // 0 of 1,000,000
		{report{active: 10}, 1},                // 10 of 10
		{report{active: 3, available: 1}, .75}, // 3 of 4
		{report{}, 0},
	} {
		var m messages.AgentStatus
		if refusal := d.DecodeAgentStatus(status(agentID(42), "ready", c.report, now), &m); refusal != nil {
			t.Fatalf("%+v is refused: %s", c.report, refusal.Text)
		}
		if m.AgentID != "bench-042" || m.CurrentLoad != c.load || m.ActiveTasks != c.report.active ||
			m.AvailableCapacity != c.report.available || !m.Timestamp.Equal(now) {
			t.Errorf("%+v became %+v", c.report, m)
		}
	}
}
