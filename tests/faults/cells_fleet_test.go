package faults

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// What happens to agents.

var fleetCells = []cell{
	{name: "no fault but the agents' own refusals", short: true, holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, agentOptions{work: 10 * time.Millisecond, refuse: oneInThree})
		p := r.produce("t", "build", 100, 300)
		r.inFullSwing(100)
		<-p.ended
		r.during("refusals", func() { r.settled() }, func() int { return int(c.status().Counters.Results["rejected"]) })
		r.resumes()
	}},
	// That an agent has not received yet what is in its queue no report shows
	// without ids: S6 holds for those that list their tasks.
	{name: "plain agents, which tell no results", holds: without(s6Capacity, always), play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, agentOptions{work: 20 * time.Millisecond, plain: true, beats: 100 * time.Millisecond})
		p := r.produce("t", "build", 60, 1_000_000)
		r.inFullSwing(30)
		c.kill()
		r.serve()
		r.resumes()
		p.finish()
	}},
	{name: "an agent dies and comes back", short: true, holds: always, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, agentOptions{work: 100 * time.Millisecond})
		p := r.produce("t", "build", 100, 1_000_000)
		r.known()
		r.during("an agent's connection lost", func() {
			r.agents["a1"].fire()
			c.awaitStatus("a1 is gone", func(s view.Status) bool { return state(s, "a1") != "online" })
			r.inFullSwing(30)
			r.hire("a1", 5, agentOptions{work: 100 * time.Millisecond})
			c.awaitStatus("a1 is back", func(s view.Status) bool { return state(s, "a1") == "online" })
		}, func() int { return 1 })
		r.resumes()
		p.finish()
	}},
	{name: "every agent dies and comes back", holds: always, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, agentOptions{work: 100 * time.Millisecond})
		p := r.produce("t", "build", 60, 1_000_000)
		r.known()
		r.during("all agents' connections lost", func() {
			for _, id := range r.agentIDs() {
				r.agents[id].fire()
			}
			c.awaitStatus("nobody is there", func(s view.Status) bool { return count(s.Agents, "online") == 0 })
			r.work(4, 5, agentOptions{work: 20 * time.Millisecond})
		}, func() int { return 1 })
		r.resumes()
		p.finish()
	}},
	{name: "an agent comes and goes twenty times a second", holds: always, play: func(r *rig) {
		c := r.serve()
		r.work(3, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(30)
		flaps := 0
		r.during("flapping", func() {
			conn := r.broker.Dial(r.t)
			defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
			a := &agent{r: r, id: "a4", slots: 5}
			for i := range 100 {
				publish(conn, bus.StreamStatus, a.heartbeat([]string{"ready", "offline"}[i%2]))
				flaps++
				r.pause(50 * time.Millisecond)
			}
		}, func() int { return flaps / 2 })
		// Not each change may be news, or they are not read any more.
		if n := strings.Count(c.log.String(), `"agent_id":"a4","state":"offline"`); n > 60 {
			r.t.Errorf("the log tells of %d ends of one agent", n)
		}
		r.hire("a4", 5, usual) // takes what it was given while it was there
		r.resumes()
		p.finish()
	}},
	{name: "500 agents vanish", config: crowd(500), holds: always, play: func(r *rig) {
		c := r.launch(start{})
		// It declares 500 queues one by one: each takes 20 ms on an idle node, 60 ms and more beside other cells.
		c.awaitStateWithin(patience+backoffCap+500*100*time.Millisecond, "active")
		r.work(4, 5, usual)
		conn := r.broker.Dial(r.t)
		defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
		reports := make([][]byte, 500)
		for i := range reports {
			reports[i] = (&agent{r: r, id: fmt.Sprint("a", i+5), slots: 1}).heartbeat("ready")
		}
		publish(conn, bus.StreamStatus, reports...)
		c.awaitStatus("all are there", func(s view.Status) bool { return count(s.Agents, "online") >= 490 })
		p := r.produce("t", "build", 60, 1_000_000)
		r.during("500 agents fall silent", func() {
			c.awaitStatus("500 are known to be silent", func(s view.Status) bool { return count(s.Agents, "online") <= 4 })
		}, func() int { return 500 - count(c.status().Agents, "online") + 4 })
		// What they were given comes back and is done by those that are there.
		r.resumes()
		p.finish()
	}},
	{name: "an agent's clock jumps an hour, either way", short: true, holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(30)
		jumps := 0
		r.during("clocks jump", func() {
			for _, skew := range []time.Duration{time.Hour, -time.Hour, 0} {
				for _, id := range []string{"a1", "a2"} {
					r.agents[id].set(func(a *agent) { a.skew = skew })
				}
				jumps++
				r.inFullSwing(60)
				if s := c.status(); count(s.Agents, "online") != 4 {
					r.t.Errorf("with clocks %v off %d of 4 agents are online", skew, count(s.Agents, "online"))
				}
			}
		}, func() int { return jumps })
		r.oneSession(c)
		r.resumes()
		p.finish()
	}},
}

// known lets the agents work until the coordinator has looked at their queues, which it
// does once a second: of an agent whose consumer it has never seen it cannot know that
// it has lost it, but for its silence.
func (r *rig) known() {
	r.t.Helper()
	r.inFullSwing(30)
	r.pause(3 * time.Second)
	r.inFullSwing(10)
}

// oneInThree refuses a third of the first attempts.
func oneInThree(m *messages.TaskDispatch) bool { return oneIn(3, m) }

// oneInSix refuses so many that at 60 tasks a second they come back as fast as the budget of retries (a tenth of
// the first dispatches, and ten a second) has them tried again: more would wait for longer the longer it lasts.
func oneInSix(m *messages.TaskDispatch) bool { return oneIn(6, m) }

func oneIn(n uint32, m *messages.TaskDispatch) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.TaskID)) // never fails (hash.Hash)
	return m.Attempt == 1 && h.Sum32()%n == 0
}

// crowd is quartet and n more agents with one slot each, all stale after eight seconds.
func crowd(n int) string {
	var more strings.Builder
	for i := range n {
		fmt.Fprintf(&more,
			"  a%d: {capabilities: [code], max_concurrent_tasks: 1, health_check_interval: 1, accept_timeout_seconds: 600}\n",
			i+5)
	}
	return strings.NewReplacer(
		"task_routing:", more.String()+"task_routing:",
		"stale_agent_threshold_seconds: 60", "stale_agent_threshold_seconds: 8",
	).Replace(quartet)
}

// state is that of one agent.
func state(s view.Status, id string) string {
	for _, a := range s.Agents {
		if a.ID == id {
			return a.State
		}
	}
	return "unknown"
}

// count counts the agents in a state.
func count(agents []view.Agent, state string) (n int) {
	for _, a := range agents {
		if a.State == state {
			n++
		}
	}
	return n
}
