package coordinator

import (
	"testing"

	"pgregory.net/rapid"
)

// The messages in an agent's queue are taken away when the agent goes: the queue that it may announce
// decides which messages these can be.
func TestAdmitsQueue(t *testing.T) {
	tests := []struct {
		name   string
		queues []string
		id     AgentID
		queue  string
		want   bool
	}{
		{"its own, by its name", nil, "w-1", "agent.w-1", true},
		{"any other, when nothing is listed", nil, "w-1", "billing.invoices", false},
		{"listed", []string{"jobs"}, "w-1", "jobs", true},
		{"its own beside what is listed", []string{"jobs"}, "w-1", "agent.w-1", true},
		{"listed by a pattern", []string{"jobs", "work.*"}, "w-1", "work.any", true},
		{"a pattern is the whole name", []string{"work.*"}, "w-1", "my.work.any", false},
		{"with its id", []string{"work.{id}"}, "w-1", "work.w-1", true},
		{"with the id of another", []string{"work.{id}"}, "w-1", "work.w-2", false},
		{"with an id that begins like its own", []string{"work.{id}"}, "w-1", "work.w-11", false},
		{"its id and more", []string{"lab.{id}.*"}, "w-1", "lab.w-1.fast", true},
		{"its id twice", []string{"{id}.{id}"}, "w-1", "w-1.w-1", true},
		{"the queue of another agent by its name", []string{"*"}, "w-1", "agent.w-2", false},
		{"one of Taskbus's own", []string{"*"}, "w-1", "task.dead", false},
		{"a control queue", []string{"*"}, "w-1", "agent.w-1.control", false},
		{"the control queue of an agent so named", []string{"*"}, "w-1.control", "agent.w-1.control", false},
		{"one of RabbitMQ's own", []string{"*"}, "w-1", "amq.gen-x", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &Discovery{Agents: []string{"*"}, Capabilities: []string{"go"}, Queues: tt.queues, MaxConcurrent: 1}
			if got := d.AdmitsQueue(tt.id, tt.queue); got != tt.want {
				t.Errorf("AdmitsQueue(%s, %s) = %v with %q", tt.id, tt.queue, got, tt.queues)
			}
			r := &AgentReport{Agent: tt.id, Queue: tt.queue, Capabilities: []string{"go"}}
			if spec, ok := d.Admit(r); ok != tt.want || spec.Queue != tt.queue {
				t.Errorf("Admit = %+v, %v; want %v", spec, ok, tt.want)
			}
		})
	}
}

// TestNoQueueOfAnother: whatever is listed, no agent gets a queue that bears another agent's name or is
// Taskbus's own; and a pattern that ends in {id} gives every agent a queue that is no other agent's.
func TestNoQueueOfAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[a-c][a-c.:-]{0,3}`)
		d := &Discovery{Queues: rapid.SliceOf(rapid.SampledFrom([]string{"*", "a*", "agent.*", "task.*", "work.{id}",
			"agent.{id}", "*.{id}"})).Draw(t, "queues")}
		mine, other := AgentID(id.Draw(t, "mine")), AgentID(id.Draw(t, "other"))
		if d.AdmitsQueue(mine, "agent."+string(other)) && mine != other {
			t.Fatalf("%s may have the queue of %s with %q", mine, other, d.Queues)
		}
		for _, queue := range reservedQueues {
			if d.AdmitsQueue(mine, queue) {
				t.Fatalf("%s may have %s with %q", mine, queue, d.Queues)
			}
		}
		d.Queues = []string{"work.{id}"}
		if got := d.AdmitsQueue(mine, "work."+string(other)); got != (mine == other) {
			t.Fatalf("%s may have the queue of %s: %v", mine, other, got)
		}
	})
}
