package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
)

const open = `
agents: {}
task_routing:
  build: {required_capabilities: [go]}
discovery:
  enabled: true
  agents: ["worker-*"]
  capabilities: [go]
  queues: ["work.*"]
  max_agents: 10
  max_concurrent_tasks: 2
`

func (r *rig) announce(agent, queue, capability string) {
	r.t.Helper()
	r.publish(bus.StreamStatus, fmt.Sprintf(
		`{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":0,"active_tasks":0,`+
			`"available_capacity":2,"timestamp":%q,"queue":%q,"capabilities":[%q],"active_task_ids":[]}`,
		agent, time.Now().Format(time.RFC3339Nano), queue, capability))
	r.pass(time.Second)
}

// An agent that announces itself gets a queue, work with an expiration, and a
// place among those whose queues are their own.
func TestDiscoveredAgentGetsWork(t *testing.T) {
	inRig(t, open, func(r *rig) {
		r.announce("worker-1", "work.one", "go")
		r.announce("worker-2", "work.two", "cobol") // not admitted
		r.announce("stranger", "work.three", "go")  // nor this
		if a := r.agent("worker-1"); !a.Discovered || a.Queue != "work.one" || !a.Eligible {
			t.Errorf("worker-1: %+v", a)
		}
		if st := r.status(); len(st.Agents) != 1 || st.Counters.StatusRefused["not_admitted"] != 2 {
			t.Errorf("%d agents, refused %v; want worker-1 alone and 2 not admitted", len(st.Agents), st.Counters.StatusRefused)
		}
		r.task("t-1", "build", "")
		if m := r.only("work.one"); m.text("task_id") != "t-1" || m.Expiration <= 0 {
			t.Errorf("in its queue: %s, expiration %s; want t-1, which comes back if it is not taken", m.Body, m.Expiration)
		}
		r.task("t-2", "paint", "", func(p *bus.Properties) { p.ReplyTo = "work.one" })
		if n := len(r.in("work.one")); n != 1 {
			t.Errorf("its queue holds %d messages: a producer had its copy sent there", n)
		}
	})
}

// foreignQueue declares a queue that is none of Taskbus's and holds these bodies.
func (r *rig) foreignQueue(name string, bodies ...string) {
	r.t.Helper()
	s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "its owner", Topology: bus.Topology{
		Mode: bus.Declare, Queues: []bus.Queue{{Name: name, Kind: bus.Quorum}},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.others = append(r.others, s)
	for _, body := range bodies {
		r.publish(name, body)
	}
}

// leaves says that an agent that joined has gone.
func (r *rig) leaves(agent string) {
	r.t.Helper()
	r.publish(bus.StreamStatus, fmt.Sprintf(
		`{"message_type":"agent.status","agent_id":%q,"status":"offline","current_load":0,"active_tasks":0,`+
			`"available_capacity":0,"timestamp":%q}`,
		agent, time.Now().Format(time.RFC3339Nano)))
}

func bodies(messages []message) string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Body))
	}
	return strings.Join(all, " ")
}

// An agent that announces another's queue and goes must not get it drained: what it may announce is its own
// queue, and what is listed.
func TestAnnouncedQueueOfSomebodyElse(t *testing.T) {
	const invoices = `{"invoice":1} {"invoice":2}`
	for _, queue := range []string{"billing.invoices", "agent.worker-2", bus.QueueFailed, "my.work.one"} {
		t.Run(queue, func(t *testing.T) {
			inRig(t, open, func(r *rig) {
				r.foreignQueue(queue, strings.Fields(invoices)...)
				r.announce("worker-1", queue, "go")
				r.leaves("worker-1")
				r.pass(time.Hour)
				if st := r.status(); len(st.Agents) != 0 || st.Counters.StatusRefused["not_admitted"] != 1 {
					t.Errorf("%d agents, refused %v; want none, and one not admitted", len(st.Agents), st.Counters.StatusRefused)
				}
				if got := bodies(r.in(queue)); got != invoices || r.broker.Unacked(queue) != 0 {
					t.Errorf("the queue holds %s, and %d unacknowledged", got, r.broker.Unacked(queue))
				}
				r.empty(bus.QueueDead)
			})
		})
	}
}

// A queue that may be announced and holds what is no dispatch, too: dispatches are
// taken back, the rest stays as it was, in its order, and is left alone for longer
// each time.
func TestForeignMessagesAreLeftAlone(t *testing.T) {
	inRig(t, open, func(r *rig) {
		const invoices = `{"invoice":1} {"invoice":2} {"invoice":3}`
		r.foreignQueue("work.one", strings.Fields(invoices)...)
		r.announce("worker-1", "work.one", "go")
		r.announce("worker-2", "work.two", "go")
		r.task("t-1", "build", "") // to worker-1, behind the invoices
		if n := len(r.in("work.one")); n != 4 {
			t.Fatalf("%d messages in the queue, want the invoices and t-1", n)
		}
		r.leaves("worker-1")
		begun := func() int { return strings.Count(r.log.String(), `"queue":"work.one","message":"taking back`) }
		r.pass(10 * time.Second)
		if got := bodies(r.in("work.one")); got != invoices || r.broker.Unacked("work.one") != 0 {
			t.Errorf("the queue holds %s, and %d unacknowledged", got, r.broker.Unacked("work.one"))
		}
		if n := len(r.in("work.two")); n != 1 {
			t.Errorf("worker-2 has %d tasks, want t-1", n)
		}
		if d, err := r.outside.Depth(context.Background(), "work.one"); err != nil || d.Consumers != 0 {
			t.Errorf("%d consumers (%v), want none: nothing there is ours", d.Consumers, err)
		}
		if c := r.status().Counters; c.TakenBack != 1 || c.Returned != 1 || c.Parked != 0 {
			t.Errorf("%d taken back, %d returned, %d parked; want t-1 alone", c.TakenBack, c.Returned, c.Parked)
		}
		// A minute after the first time, two after the second, four after the third
		// (and up to five seconds until the next look): the fourth after 1 + 2 + 4 = 7.
		r.pass(6 * time.Minute)
		if n := begun(); n != 3 {
			t.Errorf("begun %d times within 6 minutes, want 3; log:\n%s", n, r.log)
		}
		r.pass(2 * time.Minute)
		if n := begun(); n != 4 {
			t.Errorf("begun %d times within 8 minutes, want 4", n)
		}
		if got := bodies(r.in("work.one")); got != invoices {
			t.Errorf("the queue holds %s", got)
		}
		r.empty(bus.QueueDead)
		if n := strings.Count(r.log.String(), "are no dispatches"); n != 1 {
			t.Errorf("%d warnings, want one", n)
		}
	})
}

// An agent that is back while a message that is not ours is held gets its queue at
// once, and everything is in it.
func TestForeignMessageAndTheAgentIsBack(t *testing.T) {
	inRig(t, open, func(r *rig) {
		r.announce("worker-1", "work.one", "go")
		r.task("t-1", "build", "")
		r.publish("work.one", "foreign")
		r.leaves("worker-1")
		r.announce("worker-1", "work.one", "go")
		r.pass(5 * time.Second)
		if d, err := r.outside.Depth(context.Background(), "work.one"); err != nil || d != (bus.Depth{Ready: 2}) {
			t.Errorf("work.one: %+v, %v; want t-1 and the foreign message ready", d, err)
		}
	})
}
