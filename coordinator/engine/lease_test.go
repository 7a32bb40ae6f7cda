package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// lasting is a task that its agent may work on for so long.
func lasting(id coordinator.TaskID, d time.Duration) *taskBuilder {
	b := job(id)
	b.Timeout = d
	return b
}

// tracking is a rig in which every agent says exactly what it runs: nothing.
func tracking(t *testing.T, p *policyBuilder) *rig {
	t.Helper()
	r := boot(t, p)
	for _, a := range p.Agents {
		r.hear(beat(a.ID).running())
	}
	return r
}

// TestLease: the timeout and a second from the broker's confirm, the task's own
// before the agent's.
func TestLease(t *testing.T) {
	for _, tt := range []struct {
		timeout, lease time.Duration
	}{
		{10 * time.Second, 11 * time.Second},
		{0, 301 * time.Second}, // the agent's 5 min + 1 s
	} {
		t.Run(fmt.Sprint(tt.timeout), func(t *testing.T) {
			r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
			want(t, r.assign(lasting("t", tt.timeout)), "dispatch t.1 a")
			r.pass(5 * time.Second) // on its way: this does not count
			want(t, r.confirm(1), "ack 1")
			want(t, r.pass(tt.lease-1))
			want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
			f := r.failures[0]
			if f.Handle != 0 || f.Failure.Attempts != 1 {
				t.Errorf("failure %+v: its agent has it, there is no delivery", f)
			}
			r.slots("a", 1, 0) // until the agent's own report says otherwise
			r.hear(beat("a").running("t"))
			r.slots("a", 1, 0) // it says that it hangs
			r.pass(time.Second)
			r.hear(beat("a").running())
			r.slots("a", 0, 1)
			want(t, r.pass(time.Minute)) // and that was all
		})
	}
}

// TestLeaseBeginsWithTheWork: its time counts from when the dispatch reached the agent's queue, or from the
// latest report that did not list it yet; not from one that does, which may come long after
// the work has begun, nor from every heartbeat: a handler that hangs would never be noticed.
func TestLeaseBeginsWithTheWork(t *testing.T) {
	for _, tt := range []struct {
		name  string
		waits time.Duration // until this report the task waits in the agent's queue
		ends  time.Duration
		text  string
	}{
		{"begun at once", 0, 11 * time.Second,
			"a has not told how it ended: 10s (timeout_seconds), and 1s for its word, have passed since the dispatch reached " +
				"its queue (dispatch t.1)"},
		{"waits in the queue", 4 * time.Second, 15 * time.Second,
			"a has not told how it ended: 10s (timeout_seconds), and 1s for its word, have passed since its latest report " +
				"that did not list the task yet (dispatch t.1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tracking(t, policyOf(worker("a")))
			d := r.give(lasting("t", 10*time.Second))
			if tt.waits > 0 {
				r.pass(tt.waits / 2)
				r.hear(beat("a").running())
				r.pass(tt.waits / 2)
				r.hear(beat("a").running())
			}
			for at := tt.waits + 2*time.Second; at < tt.ends; at += 2 * time.Second {
				want(t, r.pass(2*time.Second))
				r.hear(beat("a").running("t"))
			}
			want(t, r.pass(time.Second-1)) // of 2, 4, 6, 8, 10 s
			want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
			if got := strings.ReplaceAll(r.failures[0].Failure.Text, d.DispatchID, "t.1"); got != tt.text {
				t.Errorf("%s\nwant\n%s", got, tt.text)
			}
		})
	}
}

// TestPlainAgentsNeverTimeOut: one that sends heartbeats only cannot tell.
func TestPlainAgentsNeverTimeOut(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
	r.give(lasting("t", time.Second))
	want(t, r.pass(time.Minute)) // no report speaks for it: its slot is counted
	r.slots("a", 1, 1)
	r.hear(beat("a").active(1))
	want(t, r.pass(time.Minute))
	r.slots("a", 1, 1) // by its report now
	r.hear(beat("a"))
	r.slots("a", 0, 2)
	for _, o := range r.OpenTasks() {
		if o != nil {
			t.Errorf("%s is still expected to end", o.Task().ID)
		}
	}
}

// TestTracked: results are expected of an agent from its first one on, of what it
// has already, too.
func TestTracked(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)))
	r.give(lasting("t1", 10*time.Second))
	r.give(lasting("t2", 10*time.Second))
	r.pass(5 * time.Second)
	r.tell(says("a", "t1"))
	want(t, r.pass(6*time.Second-1))
	want(t, r.pass(1), "fail t2 task_timeout", "withdraw t2.1 a") // 5 + 6 = 11 s
}

// TestNoTimeoutsInTheDark: while there is no session no agent can report anything, and
// after it has opened again the results of that time are read first.
func TestNoTimeoutsInTheDark(t *testing.T) {
	for _, tracked := range []bool{true, false} { // when the outage began
		r := ready(t, policyOf(worker("a")))
		if tracked {
			r = tracking(t, policyOf(worker("a")))
		}
		r.give(lasting("t", 10*time.Second))
		r.apply(coordinator.SessionLost{})
		want(t, r.pass(40*time.Second)) // overdue since 11 s
		r.apply(coordinator.SessionOpened{})
		r.pass(time.Second)
		if !tracked {
			r.hear(beat("a").running("other")) // only now it is known to tell
		}
		want(t, r.pass(interval-time.Second-1)) // the grace of 30 s
		want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
	}
}

// TestUnansweredIsGivenUp: a dispatch of which it is not known whether it arrived, and
// whose task the broker does not bring again, does not count for ever.
func TestUnansweredIsGivenUp(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	r.assign(lasting("t", 40*time.Second))
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	want(t, r.pass(41*time.Second)) // in silence: should it come, it is as good as new
	if got := r.seen("a").Leased; got != 0 {
		t.Errorf("%d leased, want 0", got)
	}
	want(t, r.redeliver(lasting("t", 40*time.Second)))                     // waits: its slot is only the agent's to free
	want(t, r.hear(beat("a").running()), "dispatch t.2 a again?")          // never t.1: that may have arrived
	want(t, r.tell(says("a", "t").of("t.1")), "result of t by a: late")    // the copy that was not counted on
	want(t, r.tell(says("a", "t").of("t.2")), "completed t.2 a succeeded") // the one that counts
	want(t, r.confirm(r.last), fmt.Sprint("ack ", r.last))                 // its confirm comes last
	r.slots("a", 0, 1)
}

// TestLeasesOutliveTheirAgent: an agent that the policy no longer lists may still
// tell how its dispatches end; those without reports are let go.
func TestLeasesOutliveTheirAgent(t *testing.T) {
	r := tracking(t, policyOf(worker("a").slots(2), worker("b")))
	r.hear(beat("b").running("x"))
	r.give(lasting("t1", 10*time.Second))
	r.give(lasting("t2", 10*time.Second))
	r.install(policyOf(worker("b")))
	engine.CheckIndexes(t, r.Engine)
	want(t, r.tell(says("a", "t1")), "completed t1.1 a succeeded")
	want(t, r.pass(11*time.Second), "fail t2 task_timeout", "withdraw t2.1 a")
	r.install(policyOf(worker("b")))
	if n := r.AgentsLeft(); n != 0 {
		t.Errorf("%d agents remembered, want none", n)
	}
}

// TestLeasesAndTheBoundOfIDs: dedupe.max_ids does not make the engine forget what
// agents still have, and goes on bounding the rest.
func TestLeasesAndTheBoundOfIDs(t *testing.T) {
	const leases, most = 50, 20
	r := boot(t, policyOf(worker("a").slots(leases), worker("b").slots(5000)).
		set(func(s *coordinator.Settings) { s.DedupeMaxIDs = most }))
	r.hear(beat("a").available(leases).running())
	for i := range leases {
		r.give(job(coordinator.TaskID(fmt.Sprint("kept", i))))
	}
	r.hear(beat("b").available(5000).running())
	for i := range 2000 {
		id := coordinator.TaskID(fmt.Sprint("x", i))
		r.give(job(id))
		r.tell(says("b", id))
		if n := r.RememberedIDs(); n > leases+most {
			t.Fatalf("%d ids remembered, want at most %d", n, leases+most)
		}
	}
	engine.CheckIndexes(t, r.Engine)
	for i := range leases {
		id := coordinator.TaskID(fmt.Sprint("kept", i))
		want(t, r.tell(says("a", id)), fmt.Sprintf("completed %s.1 a succeeded", id))
	}
}
