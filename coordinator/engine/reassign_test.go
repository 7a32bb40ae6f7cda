package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestWhoCountsAsTried: and where a task has failed, for every way back. a had
// it; b gets it next.
func TestWhoCountsAsTried(t *testing.T) {
	const (
		rejected = coordinator.ReturnRejected
		expired  = coordinator.ReturnExpired
		limit    = coordinator.ReturnDeliveryLimit
		taken    = coordinator.ReturnTakenBack
	)
	type agents = []coordinator.AgentID
	had := agents{"a"}
	tests := []struct {
		name          string
		before        func(r *rig)
		cause         coordinator.ReturnCause
		again         bool
		tried, failed agents
	}{
		{"refused", func(r *rig) { r.tell(says("a", "t").but(coordinator.OutcomeRejected)) }, rejected, false, had, nil},
		{"refused without a word", nil, rejected, false, had, nil},
		{"had begun and gave it up", func(r *rig) { r.tell(says("a", "t").gaveUp()) }, rejected, false, had, had},
		{"not taken in time", nil, expired, false, had, nil},
		{"it was running when the channel was lost, and it does not say that it goes on", func(r *rig) {
			r.hear(beat("a").running("t"))
			r.pass(time.Second)
			r.hear(beat("a").running())
		}, expired, false, had, had},
		{"handed out too often", nil, limit, false, had, had},
		{"taken out of its queue", nil, taken, false, nil, nil}, // no agent had it in hand
		{"taken out of its queue, and it had had it in hand", nil, taken, true, had, had},
		{"taken out of its queue, and it had said that it runs it", func(r *rig) { r.hear(beat("a").running("t")) }, taken,
			false, had, had},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tracking(t, policyOf(worker("a"), worker("b")))
			d := r.give(job("t"))
			r.pass(time.Second)
			if tt.before != nil {
				tt.before(r)
			}
			r.hear(beat("a").running().status(coordinator.StatusOffline))
			r.returns(d, tt.cause, tt.again)
			r.pass(250 * time.Millisecond) // the longest first back-off
			d = r.latest()
			if d.Agent != "b" || d.Attempt != 2 || !slices.Equal(d.Tried, tt.tried) || !slices.Equal(d.Failed, tt.failed) {
				t.Errorf("attempt %d to %s, tried %v, failed %v; want 2 to b, %v, %v", d.Attempt, d.Agent, d.Tried, d.Failed,
					tt.tried, tt.failed)
			}
			engine.CheckIndexes(t, r.Engine)
		})
	}
}

// TestTakenBackGoesOutAtOnce: to any agent, the one it was taken from included if
// that is back, and it spends none of the attempts that it may come back.
func TestTakenBackGoesOutAtOnce(t *testing.T) {
	r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.MaxRetryAttempts = 1 }))
	d := r.give(job("t"))
	want(t, r.returns(d, coordinator.ReturnTakenBack, false), "dispatch t.2 a again?")
}

// TestExpiredButStillRunning: the agent has lost its channel, not its work. It gets
// the same dispatch again, and neither slots nor time are counted twice.
func TestExpiredButStillRunning(t *testing.T) {
	start := func(t *testing.T) (*rig, coordinator.Dispatch) {
		r := tracking(t, policyOf(worker("a"), worker("b")))
		d := r.give(lasting("t", 10*time.Second))
		r.pass(2 * time.Second)
		r.hear(beat("a").running("t")) // begun: due at 11 s
		r.slots("a", 1, 0)
		return r, d
	}
	t.Run("same agent, same dispatch id", func(t *testing.T) {
		r, d := start(t)
		r.pass(3 * time.Second)
		want(t, r.returns(d, coordinator.ReturnExpired, false), "dispatch t.1 a again?")
		r.slots("a", 1, 0)
		r.confirm(r.last)
		r.slots("a", 1, 0)                                                  // not 2
		want(t, r.pass(6*time.Second-1))                                    // 5 + 6 = 11 s
		want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")         // not later for the detour
		want(t, r.returns(d, coordinator.ReturnExpired, false), "ack 3")    // it drops the second copy
		want(t, r.tell(says("a", "t").of("t.1")), "result of t by a: late") // and is late
		r.hear(beat("a").running())
		r.slots("a", 0, 1)
	})
	t.Run("before its confirm, and agents have more time by now", func(t *testing.T) {
		short, longer := worker("a"), worker("a")
		short.Timeout, longer.Timeout = 10*time.Second, 20*time.Second
		r := tracking(t, policyOf(short))
		r.assign(job("t"))
		first := r.last
		r.hear(beat("a").running("t"))
		r.install(policyOf(longer))
		want(t, r.returns(r.latest(), coordinator.ReturnExpired, false), "dispatch t.1 a again?")
		again := r.last
		r.confirm(first)
		r.confirm(again)
		want(t, r.pass(20*time.Second+engine.LeaseMargin-1)) // from its confirm
		want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
	})
	t.Run("and its result counts once", func(t *testing.T) {
		r, d := start(t)
		r.returns(d, coordinator.ReturnExpired, false)
		want(t, r.tell(says("a", "t").of("t.1")), "completed t.1 a succeeded")
		want(t, r.confirm(r.last), "ack 2")
		r.slots("a", 0, 1)
	})
	t.Run("but it does not say so any more: somebody else", func(t *testing.T) {
		r, d := start(t)
		r.pass(time.Second)
		r.hear(beat("a").running())
		want(t, r.returns(d, coordinator.ReturnExpired, false))
		want(t, r.pass(250*time.Millisecond), "dispatch t.2 b")
	})
	t.Run("but it is gone: somebody else", func(t *testing.T) {
		r, d := start(t)
		r.look("a", 0, 1)
		r.miss("a", 0)
		want(t, r.returns(d, coordinator.ReturnExpired, false))
		want(t, r.pass(250*time.Millisecond), "dispatch t.2 b again?") // it said that it runs it, and may go on
	})
}

// TestLastWord: the third agent's message comes back before its word, which says that
// the task failed there, too. The word decides; without it the attempts do.
func TestLastWord(t *testing.T) {
	start := func(t *testing.T) *rig {
		r := tracking(t, policyOf(worker("a"), worker("b"), worker("c"), worker("d")))
		d := r.give(job("t"))
		for range 2 {
			r.tell(says(d.Agent, "t").gaveUp())
			r.returns(d, coordinator.ReturnRejected, false)
			r.pass(time.Second)
			d = r.latest()
			r.confirm(d.Handle)
		}
		want(t, r.returns(d, coordinator.ReturnRejected, false)) // max_retry_attempts: 3
		return r
	}
	t.Run("it failed", func(t *testing.T) {
		r := start(t)
		d := r.latest()
		want(t, r.tell(says(d.Agent, "t").gaveUp()), "given back t.3 "+string(d.Agent), "fail t poisoned")
		want(t, r.pass(time.Minute))
	})
	t.Run("it declined", func(t *testing.T) {
		r := start(t)
		d := r.latest()
		want(t, r.tell(says(d.Agent, "t").but(coordinator.OutcomeRejected)), "given back t.3 "+string(d.Agent))
		want(t, r.pass(time.Second), "fail t retries_exhausted")
	})
	t.Run("it says nothing", func(t *testing.T) {
		want(t, start(t).pass(time.Second), "fail t retries_exhausted")
	})
}

// TestLeavingIsNoRefusal: what an agent gives back because it goes is not held up by
// the retry budget, which is for those that refuse.
func TestLeavingIsNoRefusal(t *testing.T) {
	const n = 2 * engine.RetryBurst // twice what a full budget affords
	start := func(t *testing.T) *rig {
		r := tracking(t, policyOf(worker("a").slots(n), worker("b").slots(n)).
			set(func(s *coordinator.Settings) { s.MaxQueueSize = n }))
		r.hear(beat("a").running().available(n))
		r.hear(beat("b").running().available(n))
		for i := range n {
			r.give(job(coordinator.TaskID(fmt.Sprint("t", i))).prefers("a"))
		}
		return r
	}
	placed := func(r *rig) int {
		for _, d := range slices.Clone(r.dispatches) {
			r.returns(d, coordinator.ReturnRejected, false)
		}
		r.pass(engine.BackoffFirst)
		return len(r.dispatches) - n
	}
	r := start(t)
	r.pass(time.Second)
	r.hear(beat("a").running().status(coordinator.StatusOffline))
	if got := placed(r); got != n {
		t.Errorf("%d of %d tasks are placed again, want all: their agent said that it goes", got, n)
	}
	if got := placed(start(t)); got >= n {
		t.Errorf("all %d tasks are placed again although their agent refuses everything", got)
	}
}

// TestTimeForTheBudgetIsNotItsOwn: an agent refuses far more than the retry budget affords within the time in
// which a task has to find an agent. That begins when the task may be tried again: none fails that another
// agent could have. What finds none fails in that time, and nothing waits for longer than it may be held.
func TestTimeForTheBudgetIsNotItsOwn(t *testing.T) {
	const n = 6 * engine.RetryBurst // 100 at once, then 10 a second
	const patience, held = 30 * time.Second, 45 * time.Second
	for name, c := range map[string]struct {
		longest time.Duration // for which a message may be held
		other   bool          // there is an agent that takes them
		after   time.Duration
		placed  int
		failed  int
	}{
		"another takes them": {time.Hour, true, 51 * time.Second, n, 0},
		"nobody does": {time.Hour, false, patience + engine.BackoffSameFirst, 0,
			100 + engine.RetryFloor},
		"nobody does, until all have been tried": {time.Hour, false, 52*time.Second + patience, 0, n},
		"until they may not be held": {held, true, 51 * time.Second,
			100 + int(held/time.Second)*engine.RetryFloor, n - 100 - int(held/time.Second)*engine.RetryFloor},
	} {
		t.Run(name, func(t *testing.T) {
			p := policyOf(worker("a").slots(n), worker("b").slots(n)).set(func(s *coordinator.Settings) {
				s.MaxQueueSize, s.DedupeMaxIDs, s.AssignmentTimeout, s.MaxTimeout = n, 2*n, patience, c.longest
			})
			for i := range p.Agents {
				p.Agents[i].Timeout = c.longest
			}
			r := tracking(t, p)
			r.hear(beat("a").running().available(n))
			r.hear(beat("b").running().available(n))
			for i := range n {
				r.give(job(numbered(i)).prefers("a"))
			}
			if !c.other {
				r.hear(beat("b").running().status(coordinator.StatusOffline))
			}
			for _, d := range slices.Clone(r.dispatches) {
				r.returns(d, coordinator.ReturnRejected, false)
			}
			if !c.other {
				r.hear(beat("a").running().status(coordinator.StatusOffline))
			}
			failed := 0
			for _, line := range r.pass(c.after) {
				if strings.HasPrefix(line, "fail ") {
					failed++
				}
			}
			is := func(got, want int) bool { // but for the spread of the back-off
				return got == want || want > 0 && want < n && max(got-want, want-got) <= 3
			}
			if placed := len(r.dispatches) - n; !is(placed, c.placed) || !is(failed, c.failed) {
				t.Errorf("%d of %d placed again, %d failed; want %d and %d", placed, n, failed, c.placed, c.failed)
			}
		})
	}
}

// TestPoisoned: a task that fails on three different agents (poisoned_after_agents)
// is parked, however many more there are and whatever max_retry_attempts says.
func TestPoisoned(t *testing.T) {
	start := func(t *testing.T) *rig {
		p := policyOf(worker("a"), worker("b"), worker("c"), worker("d")).
			set(func(s *coordinator.Settings) { s.MaxRetryAttempts = 10 })
		return tracking(t, p)
	}
	t.Run("three agents", func(t *testing.T) {
		r := start(t)
		d := r.give(job("t"))
		for range 2 {
			r.tell(says(d.Agent, "t").gaveUp())
			r.returns(d, coordinator.ReturnRejected, false)
			r.pass(engine.BackoffMax)
			d = r.latest()
			r.confirm(d.Handle)
		}
		if !slices.Equal(d.Failed, []coordinator.AgentID{"a", "b"}) || d.Agent != "c" {
			t.Fatalf("third dispatch to %s, failed on %v", d.Agent, d.Failed)
		}
		r.tell(says("c", "t").gaveUp())
		want(t, r.returns(d, coordinator.ReturnRejected, false), "fail t poisoned")
	})
	t.Run("the word that explains comes after the message", func(t *testing.T) {
		r := start(t)
		r.install(policyOf(worker("a"), worker("b")).set(func(s *coordinator.Settings) { s.PoisonedAfter = 1 }))
		d := r.give(job("t"))
		want(t, r.returns(d, coordinator.ReturnRejected, false)) // waits
		want(t, r.tell(says("a", "t").of("t.1").gaveUp()), "given back t.1 a", "fail t poisoned")
	})
	t.Run("mere refusals are no failures", func(t *testing.T) {
		r := start(t)
		d := r.give(job("t"))
		for range 3 {
			r.tell(says(d.Agent, "t").but(coordinator.OutcomeRejected))
			r.returns(d, coordinator.ReturnRejected, false)
			r.pass(engine.BackoffMax)
			d = r.latest()
			r.confirm(d.Handle)
		}
		if d.Agent != "d" || len(d.Failed) != 0 {
			t.Errorf("fourth dispatch to %s, failed on %v", d.Agent, d.Failed)
		}
	})
	t.Run("what the headers say counts", func(t *testing.T) { // another coordinator made it
		r := start(t)
		d := coordinator.Dispatch{
			Task: &job("t").Task, Agent: "c", Attempt: 3,
			Tried: []coordinator.AgentID{"a", "b"}, Failed: []coordinator.AgentID{"a", "b"},
		}
		want(t, r.returns(d, coordinator.ReturnDeliveryLimit, false), "fail t poisoned")
	})
}

// TestMaxRetryAttempts: so many dispatches may come back, then it fails.
func TestMaxRetryAttempts(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b"), worker("c")).
		set(func(s *coordinator.Settings) { s.MaxRetryAttempts = 2 }))
	d := r.give(job("t"))
	r.returns(d, coordinator.ReturnExpired, false)
	want(t, r.pass(time.Second), "dispatch t.2 b again?")
	r.confirm(r.last)
	want(t, r.returns(r.latest(), coordinator.ReturnExpired, false), "fail t retries_exhausted")
}

// TestReturnOfWhatEnded: whatever its end, what comes back afterwards is dropped, and
// what is another's by now is not disturbed.
func TestReturnOfWhatEnded(t *testing.T) {
	for _, o := range []coordinator.Outcome{coordinator.OutcomeSucceeded, coordinator.OutcomeFailed,
		coordinator.OutcomeCancelled} {
		t.Run(o.String(), func(t *testing.T) {
			r := tracking(t, policyOf(worker("a"), worker("b")))
			d := r.give(job("t"))
			r.tell(says("a", "t").but(o))
			want(t, r.returns(d, coordinator.ReturnExpired, true), "ack 2")
		})
	}
	t.Run("with another agent by now", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a"), worker("b")))
		d := r.give(job("t"))
		r.returns(d, coordinator.ReturnExpired, false)
		r.pass(time.Second)
		r.confirm(2)
		want(t, r.returns(d, coordinator.ReturnExpired, false), "ack 3")
		r.slots("b", 1, 0)
	})
	t.Run("failed, and only a copy", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.MaxRetryAttempts = 1 }))
		d := r.give(job("t"))
		want(t, r.returns(d, coordinator.ReturnExpired, false), "fail t retries_exhausted")
		want(t, r.returns(d, coordinator.ReturnExpired, false), "ack 3")
		// it is not known whether the failure got through
		want(t, r.returns(d, coordinator.ReturnExpired, true), "fail t retries_exhausted")
	})
	t.Run("its id is another task's by now", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a").slots(2)))
		d := r.give(job("t"))
		r.ForgetIDs() // the window has passed
		r.give(job("t").content(2))
		want(t, r.returns(d, coordinator.ReturnRejected, false), "fail t duplicate_task")
		want(t, r.tell(says("a", "t")), "completed t.1 a succeeded") // the other is unharmed
	})
}

// TestReturnBeforeTheConfirm: an agent may refuse faster than the broker answers.
func TestReturnBeforeTheConfirm(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b")))
	r.assign(job("t"))
	want(t, r.returns(r.latest(), coordinator.ReturnRejected, false))
	r.slots("a", 0, 1)
	want(t, r.confirm(1), "ack 1")
	want(t, r.pass(time.Second), "dispatch t.2 b")
}

// The warning that another agent may run the task stays with it: a is presumed gone and may go on,
// b turns the task away, and c must hear of a, too.
func TestMaybeDuplicateStays(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b"), worker("c")))
	d := r.give(job("t"))
	r.pass(2 * time.Second)
	r.hear(beat("a").running("t"))
	r.hear(beat("a").running("t").status(coordinator.StatusOffline))
	r.returns(d, coordinator.ReturnTakenBack, true)
	r.pass(time.Second)
	d = r.latest()
	if d.Attempt != 2 || !d.MaybeDuplicate {
		t.Fatalf("attempt %d, marked %v", d.Attempt, d.MaybeDuplicate)
	}
	r.tell(says(d.Agent, "t").but(coordinator.OutcomeRejected))
	r.returns(d, coordinator.ReturnRejected, false)
	r.pass(5 * time.Second)
	if d = r.latest(); d.Attempt != 3 || !d.MaybeDuplicate {
		t.Errorf("attempt %d to %s, marked %v; want 3, true", d.Attempt, d.Agent, d.MaybeDuplicate)
	}
}

// An agent that loses its connection more often than its queue delivers a message works on: it keeps
// the task, as after a single loss.
func TestDeliveryLimitOfWhatStillRuns(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b")))
	d := r.give(lasting("t", 8*time.Hour))
	r.pass(2 * time.Second)
	r.hear(beat("a").running("t"))
	r.returns(d, coordinator.ReturnDeliveryLimit, false)
	again := r.latest()
	if again.Agent != "a" || again.DispatchID != d.DispatchID || !again.MaybeDuplicate || len(again.Failed) != 0 {
		t.Errorf("%s to %s, marked %v, failed %v; want %s to a, marked, on none", again.DispatchID, again.Agent,
			again.MaybeDuplicate, again.Failed, d.DispatchID)
	}
}

// Where it cannot keep the task, the one that gets it is warned, and the first is told to stop.
func TestDeliveryLimitOfWhatCannotGoOn(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b")))
	d := r.give(lasting("t", 8*time.Hour))
	r.pass(2 * time.Second)
	r.hear(beat("a").running("t"))
	r.order("a", coordinator.OrderDrain)
	effects := r.returns(d, coordinator.ReturnDeliveryLimit, false)
	if !slices.Contains(effects, "withdraw "+brief(d.Task.ID, d.DispatchID)+" a") {
		t.Errorf("a is not told to stop: %q", effects)
	}
	r.pass(time.Second)
	if d = r.latest(); d.Agent != "b" || !d.MaybeDuplicate {
		t.Errorf("to %s, marked %v; want b, marked", d.Agent, d.MaybeDuplicate)
	}
}
