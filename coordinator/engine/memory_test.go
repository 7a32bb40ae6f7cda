package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestDuplicates: a second copy of a known task, in every fate of the first.
// Handle 1 is the first copy, handle 2 the second.
func TestDuplicates(t *testing.T) {
	one := func() *policyBuilder { return policyOf(worker("a")) }
	waiting := func(t *testing.T) *rig {
		r := full(t, func(*coordinator.Settings) {})
		r.assign(job("t"))
		return r
	}
	dispatching := func(t *testing.T) *rig {
		r := ready(t, one())
		r.assign(job("t"))
		return r
	}
	dispatched := func(t *testing.T) *rig {
		r := dispatching(t)
		r.confirm(1)
		return r
	}
	failed := func(t *testing.T) *rig {
		r := full(t, func(s *coordinator.Settings) { s.AssignmentTimeout = 0 })
		r.assign(job("t"))
		return r
	}
	unsettled := func(t *testing.T) *rig {
		r := dispatching(t)
		r.settle(1, coordinator.PublishUnknown)
		return r
	}
	tests := []struct {
		name  string
		first func(t *testing.T) *rig
		again bool // redelivered
		want  []string
	}{
		{"waiting", waiting, false, []string{"ack 2", "duplicate t"}},
		{"dispatching", dispatching, false, []string{"ack 2", "duplicate t"}},
		{"dispatching, redelivered", dispatching, true, []string{"ack 2", "duplicate t"}},
		{"dispatched", dispatched, false, []string{"ack 2", "duplicate t"}},
		// Its acknowledgement was lost with a session: it was not sent twice.
		{"dispatched, redelivered", dispatched, true, []string{"ack 2"}},
		{"failed", failed, false, []string{"fail t all_agents_at_capacity"}}, // judged as if new
		{"unsettled", unsettled, true, []string{"dispatch t.1 a again?"}},    // the open decision again, marked
		{"unsettled, a producer's copy", unsettled, false, []string{"dispatch t.1 a again?"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want(t, tt.first(t).deliver(job("t"), tt.again), tt.want...)
		})
		if tt.name != "failed" {
			t.Run(tt.name+", other content", func(t *testing.T) {
				r := tt.first(t)
				want(t, r.deliver(job("t").content(2), tt.again), "fail t duplicate_task")
				// The first is unharmed: a true copy meets the same fate as before.
				want(t, r.deliver(job("t"), tt.again), func() (w []string) {
					for _, line := range tt.want {
						if line == "ack 2" {
							line = "ack 3"
						}
						w = append(w, line)
					}
					return w
				}()...)
			})
		}
	}
}

// TestReturnedCopies: dead-lettering is at-least-once. A copy of a return that
// has been decided again is acknowledged, not dispatched twice.
func TestReturnedCopies(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")))
	r.assign(job("t"))
	first := r.latest()
	r.confirm(1)
	want(t, r.giveBack(first))          // handle 2, waits for its back-off
	want(t, r.giveBack(first), "ack 3") // being decided
	want(t, r.pass(time.Second), "dispatch t.2 b")
	want(t, r.giveBack(first), "ack 4")
	r.confirm(2)
	want(t, r.giveBack(first), "ack 5") // decided: attempt 2 > 1
}

// TestSessionLost: what was held comes again and goes the same way.
func TestSessionLost(t *testing.T) {
	t.Run("to the same agent under the same dispatch id, marked", func(t *testing.T) {
		r := ready(t, policyOf(worker("a"), worker("b")))
		want(t, r.assign(job("t")), "dispatch t.1 a")
		r.apply(coordinator.SessionLost{})
		want(t, r.confirm(1)) // too late: of a session that has ended
		if got := r.whyNot("a"); got != coordinator.Full {
			t.Errorf("%v: the dispatch may have arrived, it must count", got)
		}
		r.apply(coordinator.SessionOpened{})
		want(t, r.redeliver(job("t")), "dispatch t.1 a again?") // its own slot is not in its way
		want(t, r.confirm(2), "ack 2")
	})
	t.Run("waiting tasks are forgotten and wait again", func(t *testing.T) {
		r := full(t, func(*coordinator.Settings) {})
		r.assign(job("t"))
		r.apply(coordinator.SessionLost{})
		if _, ok := r.NextDeadline(); len(r.HeldTasks()) > 0 || !ok || r.PendingTotal() > 0 {
			t.Error("something is left of the task")
		}
		want(t, r.redeliver(job("t")))
		want(t, r.hear(beat("a")), "dispatch t.1 a again?") // redelivered: a copy cannot be ruled out
	})
	t.Run("the agent may be busy with it: it is asked all the same", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		r.assign(job("t"))
		r.apply(coordinator.SessionLost{})
		r.pass(time.Second)
		r.hear(beat("a").active(1).status(coordinator.StatusBusy))
		want(t, r.redeliver(job("t")), "dispatch t.1 a again?")
	})
	t.Run("never handed over: as good as new", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		r.assign(job("t"))
		want(t, r.settle(1, coordinator.PublishAbandoned))
		if got := r.Snapshot(r.now).Agents[0].Uncovered; got != 0 {
			t.Errorf("%d uncovered, want 0: it is nowhere", got)
		}
		r.apply(coordinator.SessionLost{})
		want(t, r.redeliver(job("t")), "dispatch t.1 a again?") // redelivered: that alone marks it
	})
	t.Run("the agent is gone: another, next attempt", func(t *testing.T) {
		r := ready(t, policyOf(worker("a").slots(2), worker("b")))
		r.assign(job("t"))
		r.apply(coordinator.SessionLost{})
		r.pass(time.Second)
		r.hear(beat("a").status(coordinator.StatusOffline).stamped(epoch.Add(interval))) // not from after the loss
		want(t, r.redeliver(job("t")), "dispatch t.2 b again?")
		if d := r.latest(); len(d.Tried) != 0 {
			t.Errorf("tried %v: nothing came back from anybody", d.Tried)
		}
		if got := r.Snapshot(r.now).Agents[0].Uncovered; got != 0 {
			t.Errorf("%d uncovered at a, want 0: it is gone, and speaks for itself when it is back", got)
		}
	})
	t.Run("the agent is gone: another, next attempt", func(t *testing.T) {
		r := ready(t, policyOf(worker("a"), worker("b")))
		r.assign(job("t"))
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("b")).Policy})
		want(t, r.redeliver(job("t")), "dispatch t.2 b again?")
	})
	t.Run("the deadline has passed", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		task := job("t")
		task.Deadline = r.now.Add(time.Second)
		r.assign(task)
		r.apply(coordinator.SessionLost{})
		r.pass(time.Second)
		want(t, r.redeliver(task), "fail t deadline_exceeded")
	})
	t.Run("a returned task in its second attempt", func(t *testing.T) {
		r := ready(t, policyOf(worker("a"), worker("b"), worker("c")))
		r.assign(job("t"))
		first := r.latest()
		r.confirm(1)
		r.giveBack(first)
		want(t, r.pass(time.Second), "dispatch t.2 b")
		r.apply(coordinator.SessionLost{})
		want(t, r.giveBack(first), "dispatch t.2 b again?")
	})
}

// TestDispatchIDsAreNeverUsedTwice: a task that failed after a dispatch and comes
// again as if new goes on counting, so that an agent which knows the dispatch id
// of the former life does not take the new one for a copy.
func TestDispatchIDsAreNeverUsedTwice(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)))
	task := job("t")
	task.Deadline = r.now.Add(time.Second)
	r.assign(task)
	r.apply(coordinator.SessionLost{})
	r.pass(time.Second)
	want(t, r.redeliver(task), "fail t deadline_exceeded")
	want(t, r.assign(job("t")), "dispatch t.2 a")
	r.confirm(3)
	r.pass(time.Second)
	r.hear(beat("a"))
	if got := r.Snapshot(r.now).Agents[0].Uncovered; got != 0 {
		t.Errorf("%d dispatches uncovered for ever", got)
	}
}

// TestDedupeWindow: an id is known until the window has passed, with or without
// other traffic, or until max_ids newer ones have come.
func TestDedupeWindow(t *testing.T) {
	start := func(set func(*coordinator.Settings)) *rig {
		r := ready(t, policyOf(worker("a").slots(5000)).set(set))
		r.hear(beat("a").available(5000))
		r.assign(job("t"))
		r.confirm(1)
		return r
	}
	t.Run("time", func(t *testing.T) {
		r := start(func(s *coordinator.Settings) { s.DedupeWindow, s.StaleAfter = time.Minute, time.Hour })
		r.pass(time.Minute - 1)
		want(t, r.assign(job("t")), "ack 2", "duplicate t")
		r.pass(1)
		want(t, r.assign(job("t")), "dispatch t.1 a")
	})
	t.Run("time, behind more than EvictStep others", func(t *testing.T) {
		r := start(func(s *coordinator.Settings) { s.DedupeWindow, s.StaleAfter = time.Minute, time.Hour })
		for i := range 3 * engine.EvictStep {
			r.assign(job(coordinator.TaskID(fmt.Sprint("x", i))))
			r.confirm(r.last)
		}
		r.pass(time.Minute)
		want(t, r.assign(job("x20")), "dispatch x20.2 a") // still in the ring: it goes on counting
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("number", func(t *testing.T) {
		r := start(func(s *coordinator.Settings) { s.DedupeMaxIDs = 3 })
		for i := range 2000 { // more than the ring's first size, so that it turns over
			r.assign(job(coordinator.TaskID(fmt.Sprint("x", i))))
			r.confirm(r.last)
			if r.RememberedIDs() > 3 {
				t.Fatalf("%d ids are remembered, want at most 3", r.RememberedIDs())
			}
		}
		want(t, r.assign(job("t")), "dispatch t.1 a")
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("open tasks are kept", func(t *testing.T) {
		r := full(t, func(s *coordinator.Settings) {
			s.DedupeMaxIDs, s.DedupeWindow, s.AssignmentTimeout = 2, time.Second, time.Minute
		})
		for i := range 5 {
			r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))))
		}
		r.pass(10 * time.Second)
		want(t, r.assign(job("t0")), "ack 6", "duplicate t0")
		engine.CheckIndexes(t, r.Engine)
	})
	t.Run("the ring grows", func(t *testing.T) {
		r := start(func(s *coordinator.Settings) { s.DedupeMaxIDs = 3000 })
		for i := range 2500 {
			r.assign(job(coordinator.TaskID(fmt.Sprint("x", i))))
			r.confirm(r.last)
		}
		want(t, r.assign(job("t")), fmt.Sprintf("ack %d", r.last), "duplicate t")
		engine.CheckIndexes(t, r.Engine)
	})
}

// TestReturnsUseNoPlaces: the window holds so many ids, however often their tasks came
// back.
func TestReturnsUseNoPlaces(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b"), worker("c"), worker("d")).
		set(func(s *coordinator.Settings) { s.DedupeMaxIDs = 4 }))
	for _, id := range []coordinator.TaskID{"t1", "t2", "t3"} {
		d := r.give(job(id))
		for range 2 {
			r.returns(d, coordinator.ReturnRejected, false)
			r.pass(time.Second)
			d = r.latest()
			r.confirm(d.Handle)
		}
		r.tell(says(d.Agent, id))
	}
	if n := r.Snapshot(r.now).Remembered; n != 3 {
		t.Errorf("%d ids are remembered, want 3", n)
	}
	want(t, r.assign(job("t1")), fmt.Sprintf("ack %d", r.last), "duplicate t1")
}
