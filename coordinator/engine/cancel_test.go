package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestCancel: in every state of the task. Each row says what the cancel brings, and
// then what follows.
func TestCancel(t *testing.T) {
	type then struct {
		do   func(r *rig) []string
		want []string
	}
	again := then{func(r *rig) []string { return r.withdraw("t") }, nil}
	with := func(s then, want ...string) then { s.want = want; return s }
	deliver := then{do: func(r *rig) []string { return r.assign(job("t")) }}
	redeliver := then{do: func(r *rig) []string { return r.redeliver(job("t")) }}
	settled := func(o coordinator.PublishOutcome) then {
		return then{do: func(r *rig) []string { return r.settle(r.dispatches[0].Handle, o) }}
	}
	result := func(o coordinator.Outcome) then {
		return then{do: func(r *rig) []string { return r.tell(says("a", "t").of("t.1").but(o)) }}
	}
	returned := func(again bool) then {
		return then{do: func(r *rig) []string { return r.returns(r.dispatches[0], coordinator.ReturnRejected, again) }}
	}
	lost := then{do: func(r *rig) []string {
		return append(r.apply(coordinator.SessionLost{}), r.apply(coordinator.SessionOpened{})...)
	}}
	lists := func(agent coordinator.AgentID) then {
		return then{do: func(r *rig) []string { r.pass(time.Second); return r.hear(beat(agent).running("t")) }}
	}
	wait := func(d time.Duration) then { return then{do: func(r *rig) []string { return r.pass(d) }} }

	waiting := func(r *rig) {
		r.hear(beat("a").running("x"))
		r.hear(beat("b").running("y"))
		r.assign(job("t"))
	}
	dispatching := func(r *rig) { r.assign(lasting("t", 10*time.Second)) }
	leased := func(r *rig) { r.give(lasting("t", 10*time.Second)) }
	tests := []struct {
		name   string
		before func(r *rig)
		want   []string
		then   []then
	}{
		{"pending", waiting, []string{"fail t cancelled", "cancel t: done"}, []then{
			with(again, "cancel t: done"),
			with(deliver, "ack 2", "duplicate t"),
			with(redeliver, "fail t cancelled"), // it is not known whether the failure got through
		}},
		{"back, and waiting to be tried again", func(r *rig) {
			leased(r)
			r.returns(r.latest(), coordinator.ReturnExpired, false)
		}, []string{"fail t cancelled", "cancel t: done"}, []then{with(wait(time.Minute))}},
		{"on its way: told when it has arrived", dispatching, []string{"cancel t: asked"}, []then{
			with(settled(coordinator.PublishConfirmed), "ack 1", "withdraw t.1 a"),
			with(result(coordinator.OutcomeCancelled), "completed t.1 a cancelled"),
			with(again, "cancel t: too late"),
			with(redeliver, "ack 2"), // it has been told: not a second time
		}},
		{"on its way, and nacked", dispatching, []string{"cancel t: asked"}, []then{
			with(settled(coordinator.PublishRejected), "fail t cancelled"),
		}},
		{"on its way, and the session is lost", dispatching, []string{"cancel t: asked"}, []then{
			with(lost, "withdraw t.1 a"), // it may have arrived
			with(redeliver, "withdraw t.1 a", "fail t cancelled"),
		}},
		{"on its way, and never sent", dispatching, []string{"cancel t: asked"}, []then{
			with(settled(coordinator.PublishAbandoned)), with(lost),
			with(redeliver, "fail t cancelled"),
		}},
		{"with its agent, which stops", leased, []string{"withdraw t.1 a", "cancel t: asked"}, []then{
			with(again, "withdraw t.1 a", "cancel t: asked"),
			with(result(coordinator.OutcomeCancelled), "completed t.1 a cancelled"),
			with(returned(false), "ack 2"),
		}},
		{"with its agent, which had done it", leased, []string{"withdraw t.1 a", "cancel t: asked"}, []then{
			with(result(coordinator.OutcomeSucceeded), "completed t.1 a succeeded"),
			with(again, "cancel t: too late"),
		}},
		{"with its agent, which gives it back", leased, []string{"withdraw t.1 a", "cancel t: asked"}, []then{
			with(result(coordinator.OutcomeRejected), "given back t.1 a"),
			with(returned(false), "fail t cancelled"), // to no other agent
			with(returned(false), "ack 3"),
		}},
		{"with its agent, which says nothing", leased, []string{"withdraw t.1 a", "cancel t: asked"}, []then{
			with(wait(11*time.Second), "fail t cancelled"), // not task_timeout, and it has been told already
			with(again, "cancel t: too late"),
			with(redeliver, "ack 2"),
		}},
		{"with a plain agent, that has let go of it", func(r *rig) {
			r.install(policyOf(worker("c")))
			r.hear(beat("c"))
			leased(r)
			r.pass(time.Second)
			r.hear(beat("c").active(1))
		}, []string{"withdraw t.1 c", "cancel t: asked"}, []then{
			with(returned(false), "fail t cancelled"), // it refused it, and no other gets it
		}},
		{"not seen yet", func(*rig) {}, []string{"cancel t: noted"}, []then{
			with(again, "cancel t: noted"),
			with(deliver, "fail t cancelled"),
			with(deliver, "ack 2", "duplicate t"),
		}},
		{"ended", func(r *rig) {
			leased(r)
			r.tell(says("a", "t"))
		}, []string{"cancel t: too late"}, nil},
		{"with its agent, and the session is lost", leased, []string{"withdraw t.1 a", "cancel t: asked"}, []then{
			with(lost, "withdraw t.1 a"), // the first may not have got through
			with(lists("a"), "withdraw t.1 a"),
			with(result(coordinator.OutcomeCancelled), "completed t.1 a cancelled"),
		}},
		{"of an earlier coordinator, and its agent lists it", func(r *rig) { lists("a").do(r) },
			[]string{"withdraw  a", "cancel t: asked"}, []then{
				with(result(coordinator.OutcomeCancelled), "completed t.1 a cancelled"),
				with(redeliver, "ack 1"),
			}},
		{"given up with its session", func(r *rig) {
			waiting(r)
			lost.do(r)
		}, []string{"cancel t: noted"}, []then{with(redeliver, "fail t cancelled")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tracking(t, policyOf(worker("a"), worker("b")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
			tt.before(r)
			want(t, r.withdraw("t"), tt.want...)
			for _, s := range tt.then {
				want(t, s.do(r), s.want...)
				engine.CheckIndexes(t, r.Engine)
			}
		})
	}
}

// TestCancelSays: the answer names the agent that has the task, and the failure says why.
func TestCancelSays(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	r.give(job("t1"))
	r.assign(job("t2"))
	for _, f := range r.Apply(r.now, coordinator.CancelRequested{Task: "t1", Reason: "a typo", Token: 3}, nil) {
		switch f := f.(type) {
		case coordinator.Withdraw:
			if f.Agent != "a" || brief("t1", f.DispatchID) != "t1.1" || f.Reason != "a typo" || f.Token != 3 {
				t.Errorf("withdraw %+v", f)
			}
		case coordinator.CancelAnswered:
			if f.Agent != "a" || f.Token != 3 || f.State != coordinator.CancelAsked {
				t.Errorf("answer %+v", f)
			}
		}
	}
	r.apply(coordinator.CancelRequested{Task: "t2", Reason: "a typo"})
	if f := r.failures[0].Failure; f.Text != "a typo" || f.Reason != coordinator.ReasonCancelled {
		t.Errorf("failure %+v", f)
	}
}

// TestTombstonesAreBounded: cancels of tasks that never come are forgotten like any
// other id.
func TestTombstonesAreBounded(t *testing.T) {
	r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.DedupeMaxIDs = 100 }))
	for i := range 5000 {
		r.withdraw(coordinator.TaskID(rune('A' + i)))
	}
	if n := r.RememberedIDs(); n > 100 {
		t.Errorf("%d ids remembered, want at most 100", n)
	}
}

// TestReasonsOfCancelsAreKept: a cancel of what is not known yet, or what a plain
// agent has been let go with, reads the reason in the failure that follows.
func TestReasonsOfCancelsAreKept(t *testing.T) {
	cancel := func(r *rig, why string) { r.apply(coordinator.CancelRequested{Task: "t", Reason: why}) }
	tests := []struct {
		name string
		do   func(r *rig)
		want string
	}{
		{"before the task", func(r *rig) { cancel(r, "a typo"); r.assign(job("t")) }, "a typo"},
		{"the latest counts", func(r *rig) { cancel(r, "a typo"); cancel(r, "too late"); r.assign(job("t")) }, "too late"},
		{"none given the second time", func(r *rig) { cancel(r, "a typo"); cancel(r, ""); r.assign(job("t")) }, "a typo"},
		{"none given", func(r *rig) { cancel(r, ""); r.assign(job("t")) }, "it was withdrawn"},
		{"while its dispatch is never sent", func(r *rig) {
			r.assign(job("t"))
			cancel(r, "a typo")
			r.settle(1, coordinator.PublishAbandoned)
			r.redeliver(job("t"))
		}, "a typo"},
		{"after it was let go", func(r *rig) {
			d := r.give(job("t"))
			r.pass(time.Second)
			r.hear(beat("a").active(1))
			cancel(r, "a typo")
			r.returns(d, coordinator.ReturnRejected, false)
		}, "a typo"},
		{"before it was let go", func(r *rig) {
			d := r.give(job("t"))
			cancel(r, "a typo")
			r.pass(time.Second)
			r.hear(beat("a").active(1))
			r.returns(d, coordinator.ReturnRejected, false)
		}, "a typo"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a")))
			tt.do(r)
			engine.CheckIndexes(t, r.Engine)
			if len(r.failures) != 1 || r.failures[0].Failure.Text != tt.want ||
				r.failures[0].Failure.Reason != coordinator.ReasonCancelled {
				t.Fatalf("failures %+v, want one cancelled: %q", r.failures, tt.want)
			}
			if n := len(r.CancelReasons()); n != 0 {
				t.Errorf("%d reasons are kept after the end", n)
			}
		})
	}
}

// TestReasonsOfCancelsAreBounded: the oldest goes first, and all go with their
// records. The cancels themselves still count.
func TestReasonsOfCancelsAreBounded(t *testing.T) {
	r := ready(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.DedupeMaxIDs = 10 * engine.MaxReasons }))
	name := func(i int) coordinator.TaskID { return coordinator.TaskID(fmt.Sprint("t", i)) }
	for i := range engine.MaxReasons + 1 {
		r.withdraw(name(i))
	}
	engine.CheckIndexes(t, r.Engine)
	if n := len(r.CancelReasons()); n != engine.MaxReasons {
		t.Errorf("%d reasons kept, want %d", n, engine.MaxReasons)
	}
	want(t, r.assign(job(name(0))), "fail t0 cancelled")
	want(t, r.assign(job(name(1))), "fail t1 cancelled")
	if oldest, next := r.failures[0].Failure.Text, r.failures[1].Failure.Text; oldest != "it was withdrawn" ||
		next != "not wanted" {
		t.Errorf("the oldest says %q, the next %q", oldest, next)
	}
	r.now = r.now.Add(time.Hour)       // the dedupe window
	for i := range engine.MaxReasons { // each new task drops up to EvictStep old ids
		r.withdraw(coordinator.TaskID(fmt.Sprint("later", i)))
	}
	engine.CheckIndexes(t, r.Engine)
	for _, key := range r.CancelReasons() {
		if key == coordinator.KeyOf(name(2)) {
			t.Error("a reason has outlived its record")
		}
	}
}
