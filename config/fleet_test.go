package config

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

// exampleTask is what this test needs of a line of examples/tasks.jsonl.
type exampleTask struct {
	ID        string                `json:"task_id"`
	Type      string                `json:"task_type"`
	Payload   json.RawMessage       `json:"payload"`
	Priority  int                   `json:"priority"`
	Required  []string              `json:"required_capabilities"`
	Preferred []coordinator.AgentID `json:"preferred_agents"`
	Excluded  []coordinator.AgentID `json:"excluded_agents"`
	Strategy  string                `json:"strategy"`
}

// The example fleet and the example tasks belong together: what the example's
// README says of each line follows from the two files.
func TestExampleTasksFitTheExampleFleet(t *testing.T) {
	c, err := Load("agents.yaml", Environment{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../examples/tasks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	// By line, counted from 1. Every other line is a task for an agent.
	want := map[int]string{
		16: "unknown_task_type", 17: "no_eligible_agents", 18: "no_agents_online", 19: "invalid_message",
		20: "invalid_message", 22: "duplicate", 23: "duplicate_task",
	}
	seen := map[string][]byte{}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	for i, line := range lines {
		if got := fate(t, c.Policy(), seen, line); got != want[i+1] {
			t.Errorf("line %d: got %q, want %q: %s", i+1, got, want[i+1], line)
		}
	}
	if len(lines) != 30 {
		t.Errorf("%d tasks, the README counts 30", len(lines))
	}
}

// fate is what becomes of a task when all agents but archivist-1 run and none is
// ever full; "" means that an agent gets it.
func fate(t *testing.T, p *coordinator.Policy, seen map[string][]byte, line []byte) string {
	t.Helper()
	var task exampleTask
	if err := json.Unmarshal(line, &task); err != nil {
		t.Fatal(err)
	}
	if len(task.Payload) == 0 || task.Priority > 3 {
		return "invalid_message"
	}
	if before, repeated := seen[task.ID]; repeated {
		if bytes.Equal(before, line) {
			return "duplicate"
		}
		return "duplicate_task"
	}
	seen[task.ID] = line
	route, known := p.Routes[task.Type]
	if !known && len(task.Required) == 0 {
		return "unknown_task_type"
	}
	if task.Strategy != "" && !slices.Contains(p.StrategyNames(), task.Strategy) {
		return "invalid_message"
	}
	required := coordinator.MergeSorted(route.Required, task.Required)
	var able []coordinator.AgentID
	for _, agent := range p.Agents {
		lacks := func(capability string) bool { return !slices.Contains(agent.Capabilities, capability) }
		if !slices.ContainsFunc(required, lacks) && !slices.Contains(task.Excluded, agent.ID) {
			able = append(able, agent.ID)
		}
	}
	for _, id := range task.Preferred {
		if !slices.Contains(able, id) {
			t.Errorf("%s prefers %s, which cannot do it", task.ID, id)
		}
	}
	able = slices.DeleteFunc(able, func(id coordinator.AgentID) bool { return id == "archivist-1" })
	switch {
	case len(able) > 0:
		return ""
	case slices.Equal(required, []string{"tape-archive"}):
		return "no_agents_online"
	default:
		return "no_eligible_agents"
	}
}

func TestExampleFleetSuitsADemo(t *testing.T) {
	c, err := Load("agents.yaml", Environment{})
	if err != nil {
		t.Fatal(err)
	}
	p := c.Policy()
	if len(p.Agents) != 7 || p.Settings.AssignmentTimeout != 10*time.Second {
		t.Errorf("%d agents, assignment timeout %v; a demo counts on 7 and 10 s", len(p.Agents), p.Settings.AssignmentTimeout)
	}
	for _, scene := range []struct {
		taskType, strategy string
		pulls              coordinator.PullMode
		atLeast            int
	}{
		{"caption-images", "market", coordinator.PullOff, 2},
		{"transcribe", "", coordinator.PullShared, 1},
	} {
		route, able := p.Routes[scene.taskType], 0
		for _, a := range p.Agents {
			lacks := func(capability string) bool { return !slices.Contains(a.Capabilities, capability) }
			if slices.ContainsFunc(route.Required, lacks) {
				continue
			}
			if able++; a.Pull != scene.pulls {
				t.Errorf("%s has mode %s; a demo counts on %s for %s", a.ID, a.Pull, scene.pulls, scene.taskType)
			}
		}
		if route.Strategy != scene.strategy || able < scene.atLeast {
			t.Errorf("%s is decided by %q among %d agents; a demo counts on %q and %d", scene.taskType, route.Strategy, able,
				scene.strategy, scene.atLeast)
		}
	}
	for _, a := range p.Agents {
		if a.HealthCheckInterval != 5*time.Second {
			t.Errorf("%s reports every %v; a demo counts on 5 s", a.ID, a.HealthCheckInterval)
		}
	}
	data, err := os.ReadFile("agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte("# yaml-language-server: $schema=./agents.schema.json\n")) {
		t.Error("the first line does not name the schema for editors")
	}
}
