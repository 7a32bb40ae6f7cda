package service

import (
	"fmt"
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
  max_agents: 10
  max_concurrent_tasks: 2
`

func (r *rig) announce(agent, queue, capability string) {
	r.t.Helper()
	r.publish(bus.StreamStatus, fmt.Sprintf(
		`{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":0,"active_tasks":0,"available_capacity":2,"timestamp":%q,"queue":%q,"capabilities":[%q],"active_task_ids":[]}`,
		agent, time.Now().Format(time.RFC3339Nano), queue, capability))
	r.pass(time.Second)
}

// An agent that announces itself gets a queue, work with an expiration, and a
// place among those whose queues are nobody else's.
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
