package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestResultFreesTheSlot: at once, not with the next heartbeat; and the task that
// waits for it goes out.
func TestResultFreesTheSlot(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)))
	r.give(job("t1"))
	r.give(job("t2"))
	r.slots("a", 2, 0) // 0 reported + 2 uncovered; 2 − 2
	want(t, r.assign(job("t3")))
	want(t, r.tell(says("a", "t1")), "completed t1.1 a succeeded", "dispatch t3.1 a")
	r.slots("a", 2, 0) // t2 and t3
	want(t, r.tell(says("a", "t2").but(coordinator.OutcomeFailed)), "completed t2.1 a failed")
	r.slots("a", 1, 1)
}

// TestResultsAndReportsByTheAgentsStamps: what a report counts as active is taken
// off again when the agent tells its end afterwards, and only then; what was told
// before the report was made is in its numbers already. Whatever arrives first.
func TestResultsAndReportsByTheAgentsStamps(t *testing.T) {
	for _, exact := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "exact"}[exact]
		start := func(t *testing.T) (*rig, func(at time.Time, ids ...coordinator.TaskID) *reportBuilder) {
			r := ready(t, policyOf(worker("a").slots(4)))
			r.give(job("t1"))
			r.give(job("t2"))
			r.pass(time.Second)
			return r, func(at time.Time, ids ...coordinator.TaskID) *reportBuilder {
				if exact {
					return beat("a").stamped(at).running(ids...)
				}
				return beat("a").stamped(at).active(len(ids))
			}
		}
		t.Run(name+": report, then result", func(t *testing.T) {
			r, runs := start(t)
			at := r.now
			r.hear(runs(at, "t1", "t2"))
			r.slots("a", 2, 2)
			r.pass(time.Second)
			r.tell(says("a", "t1").of("t1.1"))
			r.slots("a", 1, 3) // 2 active − 1 credited
			r.tell(says("a", "t2").of("t2.1"))
			r.slots("a", 0, 4) // 2 − 2
			r.pass(time.Second)
			r.hear(runs(r.now)) // made after both: nothing to credit
			r.slots("a", 0, 4)
		})
		t.Run(name+": result, then the report that was made before it", func(t *testing.T) {
			r, runs := start(t)
			made := r.now
			r.pass(time.Second)
			r.tell(says("a", "t1").of("t1.1"))
			r.slots("a", 1, 3) // t2 is uncovered
			r.hear(runs(made, "t1", "t2"))
			r.slots("a", 1, 3) // 2 active − 1, not 2: t1 must not come back
		})
		t.Run(name+": result, then a report made after it that has a slot less", func(t *testing.T) {
			r, runs := start(t)
			r.tell(says("a", "t1").of("t1.1"))
			r.pass(time.Second)
			r.hear(runs(r.now, "t1", "t2")) // it told the end of t1, and is busy with it all the same
			r.slots("a", 2, 2)              // a handler that hangs keeps its slot
		})
		t.Run(name+": a stamp from the future credits nothing for ever", func(t *testing.T) {
			r, runs := start(t)
			r.hear(runs(r.now, "t1", "t2"))
			r.tell(says("a", "t1").of("t1.1").stamped(r.now.Add(time.Hour)))
			r.slots("a", 1, 3)
			r.pass(time.Second)
			r.hear(runs(r.now, "t1", "t2")) // made a second after the result arrived, whatever that says
			r.slots("a", 2, 2)
		})
	}
}

// TestCreditedLoad: with 1 of 4 tasks ended, a reported load of 0.9 is 0.675.
func TestCreditedLoad(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(5)))
	for _, id := range []coordinator.TaskID{"t1", "t2", "t3", "t4"} {
		r.give(job(id))
	}
	r.pass(time.Second)
	r.hear(beat("a").running("t1", "t2", "t3", "t4").load(0.9))
	if got := r.whyNot("a"); got != coordinator.Overloaded { // 0.9 ≥ 0.9
		t.Errorf("%v, want overloaded", got)
	}
	r.tell(says("a", "t1"))
	// max(0.9 × 3/4, 3/5)
	if got := r.seen("a"); got.Eligibility != coordinator.Eligible || got.Load < 0.674 || got.Load > 0.676 {
		t.Errorf("%v with load %v, want eligible with 0.675", got.Eligibility, got.Load)
	}
}

// TestFirstResultWins: what comes after the first result, or from an agent that never
// had the task, changes nothing.
func TestFirstResultWins(t *testing.T) {
	start := func(t *testing.T) *rig {
		r := ready(t, policyOf(worker("a"), worker("b")))
		r.give(job("t"))
		return r
	}
	tests := []struct {
		name   string
		before []*resultBuilder
		result *resultBuilder
		want   string
	}{
		{"by dispatch id", nil, says("a", "t").of("t.1"), "completed t.1 a succeeded"},
		{"by task and agent", nil, says("a", "t"), "completed t.1 a succeeded"},
		{"a second one", []*resultBuilder{says("a", "t")}, says("a", "t").of("t.1"), "result of t by a: duplicate"},
		{"a second, different one", []*resultBuilder{says("a", "t")}, says("a", "t").but(coordinator.OutcomeFailed),
			"result of t by a: duplicate"},
		{"after it was given back", []*resultBuilder{says("a", "t").gaveUp()}, says("a", "t").gaveUp(),
			"result of t by a: duplicate"},
		{"another agent", nil, says("b", "t"), "result of t by b: wrong_agent"},
		{"another agent, by its dispatch id", nil, says("b", "t").of("t.1"), "result of t by b: wrong_agent"},
		{"an agent that nobody knows", nil, says("zoe", "t").of("t.1"), "result of t by zoe: wrong_agent"},
		{"an attempt that was never made", nil, says("a", "t").of("t.2"), "result of t by a: wrong_agent"},
		{"a task that nobody knows", nil, says("a", "x"), "result of x by a: unknown"},
		{"a dispatch id of another task", nil, says("a", "t").of("x.1"), "result of t by a: unknown"},
		{"not a dispatch id", nil, says("a", "t").of("t.01"), "result of t by a: unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t)
			for _, b := range tt.before {
				r.tell(b)
			}
			was := r.seen("a").InFlight
			want(t, r.tell(tt.result), tt.want)
			if now := r.seen("a").InFlight; tt.name[0] != 'b' && now != was { // "by …": these count
				t.Errorf("%d in flight, want %d: it changed nothing", now, was)
			}
			engine.CheckIndexes(t, r.Engine)
		})
	}
	t.Run("1,000 copies", func(t *testing.T) {
		r := start(t)
		r.tell(says("a", "t"))
		for range 1000 {
			want(t, r.tell(says("a", "t")), "result of t by a: duplicate")
		}
		r.slots("a", 0, 1)
	})
	t.Run("what the stream's past repeats is no news", func(t *testing.T) {
		r := start(t)
		r.tell(says("a", "t"))
		want(t, r.apply(coordinator.ResultReported{Result: says("a", "t").Result}))
		want(t, r.apply(coordinator.ResultReported{Result: says("a", "x").Result}))
	})
	t.Run("but what is news there counts", func(t *testing.T) {
		r := start(t)
		want(t, r.apply(coordinator.ResultReported{Result: says("a", "t").Result}), "completed t.1 a succeeded")
	})
}

// TestResultBeforeTheConfirm: an agent may be faster than the broker's answer.
func TestResultBeforeTheConfirm(t *testing.T) {
	t.Run("then the confirm", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		r.assign(job("t"))
		want(t, r.tell(says("a", "t").of("t.1")), "completed t.1 a succeeded")
		r.slots("a", 0, 1)
		want(t, r.confirm(1), "ack 1") // not before: the broker must not deliver it again
		r.slots("a", 0, 1)
	})
	t.Run("then the session is lost: the copy is dropped", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		r.assign(job("t"))
		r.tell(says("a", "t"))
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		want(t, r.redeliver(job("t")), "ack 2")
	})
	t.Run("given back before the confirm, and comes back before it", func(t *testing.T) {
		r := ready(t, policyOf(worker("a"), worker("b")))
		r.assign(job("t"))
		d := r.latest()
		want(t, r.tell(says("a", "t").but(coordinator.OutcomeRejected)), "given back t.1 a")
		want(t, r.returns(d, coordinator.ReturnRejected, false)) // handle 2 waits for its back-off
		want(t, r.confirm(1), "ack 1")
		want(t, r.pass(time.Second), "dispatch t.2 b")
	})
}

// TestLateResults: results of an agent after its dispatch has come back, when another agent has the task
// or is about to. A success ends the task; any other outcome changes nothing.
func TestLateResults(t *testing.T) {
	start := func(t *testing.T) *rig { // a is silent with t; it expires and waits for its back-off
		r := ready(t, policyOf(worker("a"), worker("b")))
		d := r.give(job("t"))
		want(t, r.returns(d, coordinator.ReturnExpired, false))
		return r
	}
	t.Run("success while it waits: nobody else gets it", func(t *testing.T) {
		r := start(t)
		want(t, r.tell(says("a", "t").of("t.1")), "completed t.1 a succeeded late", "ack 2")
		want(t, r.pass(time.Minute))
	})
	t.Run("success while it is on its way: withdrawn when it has arrived", func(t *testing.T) {
		r := start(t)
		want(t, r.pass(time.Second), "dispatch t.2 b again?")
		want(t, r.tell(says("a", "t").of("t.1")), "completed t.1 a succeeded late")
		want(t, r.confirm(2), "ack 2", "withdraw t.2 b")
		want(t, r.tell(says("b", "t").of("t.2")), "result of t by b: late") // it did it all the same
		r.slots("b", 0, 1)
	})
	t.Run("success while another has it: the other is told to stop", func(t *testing.T) {
		r := start(t)
		r.pass(time.Second)
		r.confirm(2)
		want(t, r.tell(says("a", "t").of("t.1")), "completed t.1 a succeeded late", "withdraw t.2 b")
		r.slots("b", 1, 0) // until its own report says otherwise
		r.pass(time.Second)
		r.hear(beat("b").running())
		r.slots("b", 0, 1)
		want(t, r.returns(r.latest(), coordinator.ReturnRejected, false), "ack 3") // it drops it: it is done
	})
	for _, o := range []coordinator.Outcome{coordinator.OutcomeFailed, coordinator.OutcomeCancelled,
		coordinator.OutcomeRejected} {
		t.Run(o.String()+" while another has it", func(t *testing.T) {
			r := start(t)
			r.pass(time.Second)
			r.confirm(2)
			want(t, r.tell(says("a", "t").of("t.1").but(o)), "result of t by a: late")
			want(t, r.tell(says("b", "t").of("t.2")), "completed t.2 b succeeded")
		})
	}
	t.Run("after task_timeout", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")))
		r.hear(beat("a").running())
		task := job("t")
		task.Timeout = 10 * time.Second
		r.give(task)
		want(t, r.pass(11*time.Second), "fail t task_timeout", "withdraw t.1 a")
		r.slots("a", 1, 0)
		want(t, r.tell(says("a", "t").of("t.1")), "result of t by a: late")
		r.slots("a", 0, 1) // its own word that it has stopped
	})
	t.Run("after the next life of the task has begun", func(t *testing.T) {
		r := ready(t, policyOf(worker("a"), worker("b")))
		r.give(job("t"))
		r.tell(says("a", "t").but(coordinator.OutcomeFailed))
		r.hear(beat("a").load(0.5))
		r.give(job("t")) // its producer sends it anew: t.2 to b
		want(t, r.tell(says("a", "t").of("t.1")), "result of t by a: late")
		want(t, r.tell(says("b", "t").of("t.2")), "completed t.2 b succeeded")
	})
}

// TestResultOfAPlainAgent: one of which heartbeats are all that is known is let go
// once a heartbeat speaks for the dispatch; if it sends a result all the same, that
// counts.
func TestResultOfAPlainAgent(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2)))
	r.give(job("t"))
	r.pass(time.Second)
	r.hear(beat("a").active(1))
	if got := r.seen("a"); got.Leased != 0 {
		t.Errorf("%d leased, want 0: nobody expects to be told", got.Leased)
	}
	want(t, r.assign(job("t")), "ack 2", "duplicate t") // it is known all the same
	r.pass(time.Second)
	want(t, r.tell(says("a", "t")), "completed t.1 a succeeded")
	r.slots("a", 0, 2) // 1 active − 1
	want(t, r.tell(says("a", "t")), "result of t by a: duplicate")
	r.give(job("u")) // and from its first result on its dispatches have deadlines
	if got := r.seen("a"); got.Leased != 1 {
		t.Errorf("%d leased, want 1", got.Leased)
	}
}

// TestResultOfAFormerLife: what is told of a task that had the id before ends nothing, whether its
// dispatch id says so or its age. A task that may have been accepted before, by a coordinator
// whose journal is lost, is ended by what was told of it then.
func TestResultOfAFormerLife(t *testing.T) {
	begin := func(t *testing.T, again bool) (*rig, string) {
		r := tracking(t, policyOf(worker("a")))
		yesterday := coordinator.DispatchID(&coordinator.Task{ID: "t", AcceptedAt: r.now}, 1)
		r.pass(24 * time.Hour)
		r.hear(beat("a").running())
		r.deliver(job("t"), again)
		r.confirm(r.latest().Handle)
		return r, yesterday
	}
	for _, again := range []bool{false, true} {
		r, yesterday := begin(t, again)
		today := r.latest().DispatchID
		if today == yesterday {
			t.Fatalf("both are called %s", today)
		}
		want(t, r.tell(says("a", "t").of(yesterday)), "result of t by a: unknown")
		want(t, r.tell(says("a", "t").stamped(r.now.Add(-2*time.Hour))), "result of t by a: unknown")
		want(t, r.tell(says("a", "t").of(today).stamped(r.now.Add(-2*time.Hour))), "result of t by a: unknown")
		want(t, r.tell(says("a", "t").of(today)), "completed t.1 a succeeded")
	}
	r, _ := begin(t, true)
	before := coordinator.DispatchID(&coordinator.Task{ID: "t", AcceptedAt: r.now.Add(-time.Minute)}, 1)
	want(t, r.tell(says("a", "t").of(before).stamped(r.now.Add(-time.Second))), "completed t.1 a succeeded")
}
