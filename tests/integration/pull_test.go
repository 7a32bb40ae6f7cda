package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/agent/balance"
	"taskbus/coordinator"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// pullers is a fleet of n agents that claim their tasks, with so many slots each.
func pullers(n, slots int) (config string, ids []string) {
	var s strings.Builder
	s.WriteString("agents:\n")
	for i := range n {
		ids = append(ids, fmt.Sprintf("a%d", i+1))
		fmt.Fprintf(&s, "  %s: {mode: pull, capabilities: [code], max_concurrent_tasks: %d, health_check_interval: 1}\n",
			ids[i], slots)
	}
	s.WriteString(`task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 60
`)
	return s.String(), ids
}

// claiming is how the members of these tests claim: often, and measured after few tasks,
// so that a test takes seconds.
func claiming() *balance.Config {
	return &balance.Config{
		LoadBalancing: balance.LoadBalancing{
			Enabled: true, BaseDiscoveryIntervalMS: 200, MaxDiscoveryIntervalMS: 1000, CapacityWindowSize: 10,
		},
		Registry: balance.Registry{ConnectionTimeoutMS: 1000},
	}
}

// puller is a member that claims.
func (r *rig) puller(b *books, id string, slots int, work agent.Handler) *member {
	r.t.Helper()
	return r.member(b, agent.Config{ID: id, Slots: slots, Pull: claiming()}, work)
}

// claimed waits until the coordinator has answered so many claims.
func (o *overheard) claimed(t *testing.T, from string, n int) (last *messages.TaskGranted) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("%s has had %d answers", from, n), func() (bool, string) {
		got := 0
		for _, m := range of[*messages.TaskGranted](o) {
			if string(m.AgentID) == from {
				got, last = got+1, m
			}
		}
		return got >= n, plural(got, "answer")
	})
	return last
}

// claim sends a claim of an agent of bare AMQP.
func (h *hand) claim(id string, items int, wait time.Duration) {
	h.t.Helper()
	h.asked(h.id, "task.claim", "", messages.AppendTaskClaim(nil, &messages.TaskClaim{
		AgentID: coordinator.AgentID(h.id), ClaimID: id, MaxItems: items, WaitSeconds: wait.Seconds(),
	}))
}

// granted waits for the answer to a claim.
func (h *hand) granted(control, id string) *messages.TaskGranted {
	h.r.t.Helper()
	m, refusal := newDecoder(h.t).DecodeTaskGranted(receive(h.r.t, h.client, control).Body)
	if refusal != nil || m.ClaimID != id || string(m.AgentID) != h.id {
		h.t.Fatalf("%s was answered %+v, %+v; want an answer to %s", h.id, m, refusal, id)
	}
	return m
}

// An agent that pulls gets nothing that it did not ask for, and all that it asks for
// within its slots; a claim may wait for work.
func TestPullNothingWithoutAClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, replaced(t, fleet, "a2: {", "a2: {mode: pull, "), "assignment_timeout_seconds: 1",
		"assignment_timeout_seconds: 60"))
	b := r.open()
	c := r.start()
	r.reported(c, beat("a1", 0, 2))
	r.reported(c, beat("a2", 0, 3))
	a1, a2 := r.hand("a1", 2), r.hand("a2", 3)
	control := a2.control()
	b.offer(r.client, task("t-1", "train")) // a2 alone has a GPU
	b.offer(r.client, task("t-2", "build")) // either could do it
	d := a1.take()
	b.enter(d)
	a1.complete(d)
	b.end(t, "t-2")
	for range 2 { // heartbeats push nothing either
		r.reported(c, beat("a2", 0, 3))
	}
	if v := c.task("t-1"); v.State == "dispatched" || c.agent("a2").Assigned != 0 || c.status().Pending.Total != 1 {
		t.Errorf("t-1 without a claim: %+v, pending %+v", v, c.status().Pending)
	}

	t.Log("a claim")
	a2.claim("c-1", 5, 0)
	if g := a2.granted(control, "c-1"); g.Granted != 1 || g.Reason == "" || g.Fleet.Agents != 1 {
		t.Errorf("answered: %+v", g)
	}
	d = a2.take()
	b.enter(d)
	if attemptID(d.DispatchID) != "t-1.1" {
		t.Errorf("dispatched: %s", d.amqp.Body)
	}
	a2.complete(d)
	b.end(t, "t-1")

	t.Log("a claim for which there is nothing")
	a2.claim("c-2", 1, 0)
	if g := a2.granted(control, "c-2"); g.Granted != 0 || g.Reason != "no_unclaimed_items" {
		t.Errorf("answered: %+v", g)
	}

	t.Log("a claim that waits: it is answered when there is work, 60 s before it would be over")
	a2.claim("c-3", 1, time.Minute)
	r.reported(c, beat("a2", 0, 3))
	if n := len(r.broker.Drain(t, "agent.a2")); n != 0 {
		t.Errorf("%d dispatches before there was work", n)
	}
	offered := time.Now()
	b.offer(r.client, task("t-3", "train"))
	if g := a2.granted(control, "c-3"); g.Granted != 1 || g.Reason != "" {
		t.Errorf("answered: %+v", g)
	}
	if took := time.Since(offered); took > atOnceThere {
		t.Errorf("a claim that could wait for a minute was answered %v after the work had come", took)
	}
	d = a2.take()
	b.enter(d)
	a2.complete(d)
	b.end(t, "t-3")
	if n := c.metric("taskbus_granted_items_total"); n != 2 {
		t.Errorf("%v granted items counted, want 2", n)
	}
	r.close(c, b, nil)
}

// SIGKILL of the leader while claims wait with it: the agents claim from the next one,
// and no task is lost.
func TestPullLeaderKilled(t *testing.T) {
	t.Parallel()
	const tasks, agents, slots = 40, 3, 4
	config, ids := pullers(agents, slots)
	r := newRig(t, config)
	b := r.open()
	first := r.start()
	second := r.launch(r.broker.URL)
	second.awaitState("standby")
	o := r.overhear(ids...)
	var all []*member
	for _, id := range ids {
		all = append(all, r.puller(b, id, slots, lasting(20*time.Millisecond)))
	}
	work := numbered(3 * tasks)
	b.offer(r.client, work[:tasks]...)
	b.allEnd(t, patience)
	// All have claimed, and have nothing: when no claim is answered for longer than two
	// claims are apart, which is 1.1 s, their next claims wait.
	answered, since := -1, time.Now()
	eventually(t, patience, "all claims wait", func() (bool, string) {
		if n := len(of[*messages.TaskGranted](o)); n != answered {
			answered, since = n, time.Now()
		}
		return time.Since(since) > 2*time.Second, plural(answered, "answer")
	})
	for _, id := range ids {
		o.claimed(t, id, 1)
	}
	first.kill()
	died := time.Now()
	if n := b.offer(r.client, work[tasks:2*tasks]...); n != tasks {
		t.Fatalf("%d of %d tasks were confirmed", n, tasks)
	}
	second.awaitReady()
	// They do not wait out their claims, which is 15 s: the new leader has them ask again.
	b.allEnd(t, 10*time.Second)
	t.Logf("done %v after SIGKILL", time.Since(died))

	t.Log("and in the middle of a stream, while others are granted")
	third := r.launch(r.broker.URL)
	third.awaitState("standby")
	b.offer(r.client, work[2*tasks:]...)
	second.awaitStatus("some have been given away", func(s view.Status) bool { return s.Counters.Dispatched > tasks })
	second.kill()
	if done, all := b.accounted(); done == all {
		t.Fatal("all tasks were begun before the kill: too few of them for this machine")
	}
	third.awaitReady()
	b.allEnd(t, 60*time.Second)
	for _, m := range all {
		m.retire()
		if _, most := m.count(); most > slots {
			t.Errorf("%s had %d tasks at once in %d slots", m.id, most, slots)
		}
	}
	r.finish(third)
	r.upToDate(b)
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.acknowledged {
		for _, e := range b.ends[id] { // announced twice, perhaps, around a kill; and the same then
			if e.What != "succeeded" || e.Dispatch != b.ends[id][0].Dispatch || e.Agent != b.ends[id][0].Agent {
				t.Errorf("%s ended %+v", id, b.ends[id])
				break
			}
		}
		unmarked := 0
		for _, begun := range b.dispatched[id] {
			if !begun.marked {
				unmarked++
			}
		}
		if unmarked > 1 {
			t.Errorf("%s was begun %+v: more than once without a mark", id, b.dispatched[id])
		}
	}
}
