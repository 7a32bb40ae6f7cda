package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestMarkOnEveryWayBack: whatever way a dispatch comes back, the next one is marked if the agent
// of the first may run it, and so is every one after that, also by the next leader.
func TestMarkOnEveryWayBack(t *testing.T) {
	const (
		rejected = coordinator.ReturnRejected
		expired  = coordinator.ReturnExpired
		limit    = coordinator.ReturnDeliveryLimit
		taken    = coordinator.ReturnTakenBack
	)
	lists := func(ids ...coordinator.TaskID) func(*rig) {
		return func(r *rig) {
			r.pass(time.Second)
			r.hear(beat("a").running(ids...))
		}
	}
	drained := func(r *rig) { r.order("a", coordinator.OrderDrain) }
	tests := []struct {
		name   string
		before []func(*rig)
		cause  coordinator.ReturnCause
		again  bool
		marked bool
	}{
		{"refused", nil, rejected, false, false},
		{"refused, and perhaps not for the first time", nil, rejected, true, true},
		// its channel may have ended a moment after it took it
		{"not known to have been taken in time", nil, expired, false, true},
		{"the same, and its heartbeats do not list it", []func(*rig){lists()}, expired, false, true},
		{"begun, and ended since by its own account", []func(*rig){lists("t"), lists()}, expired, false, false},
		{"begun at an agent that is drained", []func(*rig){lists("t"), drained}, expired, false, true},
		{"delivered too often", nil, limit, false, true},
		{"drained before it was taken", []func(*rig){drained}, taken, false, true},
		{"drained and taken", []func(*rig){drained}, taken, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := leader(t)
			p := policyOf(worker("a"), worker("b"), worker("c"), worker("d"), worker("e")).
				set(func(s *coordinator.Settings) { s.MaxRetryAttempts = 9 })
			r.install(p)
			for _, a := range p.Agents {
				r.hear(beat(a.ID).running())
			}
			r.assign(job("t"))
			d := r.latest()
			if r.confirm(d.Handle); d.Agent != "a" {
				t.Fatalf("%s has it", d.Agent)
			}
			for _, happens := range tt.before {
				happens(r)
			}
			r.returns(d, tt.cause, tt.again)
			marked, journal := tt.marked, r.Records(nil)
			for attempt, cause := range []coordinator.ReturnCause{rejected, expired, rejected} {
				r.pass(5 * time.Second)
				d = r.latest()
				if d.Attempt != attempt+2 || d.MaybeDuplicate != marked {
					t.Fatalf("attempt %d to %s, marked %v; want %d, %v", d.Attempt, d.Agent, d.MaybeDuplicate, attempt+2, marked)
				}
				r.confirm(d.Handle)
				journal = append(journal, r.Records(nil)...)
				for how, heir := range map[string]*rig{"by its records": r.heirOf(r.now, journal),
					"by a snapshot": r.heirOf(r.now, r.imaged())} {
					heir.returns(d, rejected, false)
					heir.pass(10 * time.Second)
					if next := heir.latest(); next.Attempt != d.Attempt+1 || next.MaybeDuplicate != marked {
						t.Errorf("%s: attempt %d, marked %v; want %d, %v", how, next.Attempt, next.MaybeDuplicate, d.Attempt+1, marked)
					}
				}
				r.returns(d, cause, false)
				marked = marked || cause == expired
			}
		})
	}
}

// What comes back when its id is forgotten, or was never known here, may have ended.
func TestReturnOfWhatIsForgottenIsMarked(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b")))
	d := r.give(lasting("t", time.Minute))
	want(t, r.pass(61*time.Second), "fail t task_timeout", "withdraw t.1 a")
	for range 61 { // its handler hangs for longer than ids are remembered
		r.pass(time.Minute)
		r.hear(beat("a").running())
		r.hear(beat("b").running())
	}
	want(t, r.returns(d, coordinator.ReturnRejected, false))
	want(t, r.pass(time.Second), "dispatch t.2 b again?")
}

// A dispatch of a coordinator before this one, which left no journal, is at work still: its agent
// keeps it under its id, or is told to stop if it cannot.
func TestLostChannelWithoutAJournal(t *testing.T) {
	for _, cause := range []coordinator.ReturnCause{coordinator.ReturnExpired, coordinator.ReturnDeliveryLimit} {
		start := func() (*rig, coordinator.Dispatch) {
			r := tracking(t, policyOf(worker("a"), worker("b")).
				set(func(s *coordinator.Settings) { s.StaleAfter = 9 * time.Hour }))
			task := lasting("t", 8*time.Hour).Task
			task.AcceptedAt = epoch.Add(-time.Hour)
			r.hear(beat("a").running("t"))
			return r, coordinator.Dispatch{Task: &task, Agent: "a", Attempt: 2, Tried: []coordinator.AgentID{"a", "c"}}
		}
		t.Run(fmt.Sprint("it goes on after ", cause), func(t *testing.T) {
			r, d := start()
			want(t, r.returns(d, cause, false), "dispatch t.2 a again?")
			again := r.latest()
			if again.DispatchID != coordinator.DispatchID(d.Task, 2) {
				t.Errorf("it is called %s", again.DispatchID)
			}
			r.slots("a", 1, 0)
			want(t, r.confirm(again.Handle), "ack 1")
			want(t, r.pass(8*time.Hour+engine.LeaseMargin-1))
			want(t, r.tell(says("a", "t").of(again.DispatchID)), "completed t.2 a succeeded")
			r.slots("a", 0, 1)
		})
		t.Run(fmt.Sprint("it cannot after ", cause), func(t *testing.T) {
			r, d := start()
			r.order("a", coordinator.OrderDrain)
			want(t, r.returns(d, cause, false), "withdraw t.2 a")
			want(t, r.pass(time.Second), "dispatch t.3 b again?")
		})
	}
}
