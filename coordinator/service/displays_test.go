package service

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

// TestHeartbeatsOfThePastAreOld: what a session reads of the past was not heard when it began.
func TestHeartbeatsOfThePastAreOld(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.reportTasks("a1")
		sent := time.Now()
		r.pass(40 * time.Second)
		r.broker.Cut()
		r.pass(backoffMax + time.Second)
		for _, a := range r.status().Agents {
			if a.ID == "a1" && a.LastHeartbeat.Sub(sent).Abs() > time.Second {
				t.Errorf("last heartbeat %s after it was sent", a.LastHeartbeat.Sub(sent))
			}
		}
	})
}

// TestNobodyIsEligibleWithoutASession: what was known of agents a while ago gives them no task.
func TestNobodyIsEligibleWithoutASession(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.worker("a1", true)
		r.broker.SetOpenError(bus.ErrAccess)
		r.broker.Cut()
		r.pass(time.Second)
		for _, a := range r.status().Agents {
			if a.Eligible || a.WhyNot != whyNoSession { // whether it was eligible (a1), or not seen yet (a2)
				t.Errorf("%s: eligible %v, why not %q", a.ID, a.Eligible, a.WhyNot)
			}
		}
		for name, c := range r.service.Health(context.Background()).Checks {
			if c.Status == view.Healthy && name != "config" {
				t.Errorf("%s is healthy, and nothing is known of it: %s", name, c.Detail)
			}
		}
		r.broker.SetOpenError(nil)
		r.pass(backoffMax + time.Second)
		r.connect()
	})
}

// TestWhatTheJournalSaysOfTasks: the newest go first however they became known, a decision of
// which nothing is known is none, and an attempt has the end that its task has.
func TestWhatTheJournalSaysOfTasks(t *testing.T) {
	at := time.Now()
	task := func(id string, age time.Duration) *coordinator.Task {
		return &coordinator.Task{ID: coordinator.TaskID(id), AcceptedAt: at.Add(-age)}
	}
	s := newRig(t, fleet).service
	s.history.Accepted(task("new", 0), true)
	assigned := &coordinator.Assigned{Task: task("old", time.Hour), Agent: "a1", Attempt: 1, At: at.Add(-time.Hour)}
	s.history.Follow(at, []coordinator.Record{assigned, &coordinator.Remembered{Key: coordinator.KeyOf("old"), ID: "old",
		Fate: coordinator.FateTimedOut, Attempt: 1, Agent: "a1", Seen: at}})
	if list := s.Tasks(context.Background(), view.TaskFilter{}); len(list) != 2 || list[0].ID != "new" {
		t.Errorf("%+v, want the newest first", list)
	}
	x, _ := s.Explain(context.Background(), "old")
	if x.Explanation != nil || len(x.Attempts) != 1 || x.Attempts[0].Outcome != recent.TimedOut {
		t.Errorf("%+v %+v, want no decision, and an attempt that timed out", x.Explanation, x.Attempts)
	}

	d := &coordinator.Dispatch{
		Task: task("ours", time.Minute), Agent: "a1", DispatchID: "ours.1", Attempt: 1, At: at,
		Decision: &coordinator.Decision{Strategy: "least_loaded", Agent: "a1", Candidates: make([]coordinator.Candidate, 2)},
	}
	s.history.Dispatching(d)
	s.history.Follow(at, []coordinator.Record{&coordinator.Assigned{Task: d.Task, Agent: "a1", Attempt: 1, At: at}})
	if x, _ := s.Explain(context.Background(), "ours"); x.Explanation == nil || len(x.Explanation.Candidates) != 2 {
		t.Errorf("%+v, want the decision as it was made here", x.Explanation)
	}
}

// stateOf is what people see of a task; empty: nothing.
func (r *rig) stateOf(id string) string {
	task, _ := r.service.Task(context.Background(), id)
	return task.State
}

// TestCopiesOfEndedTasksAreNotPending: whatever is known of the story of a task that has ended, a
// copy of its message, or another task of its id, changes nothing of it.
func TestCopiesOfEndedTasksAreNotPending(t *testing.T) {
	for _, outcome := range []string{"succeeded", "cancelled"} {
		inRig(t, fleet, func(r *rig) {
			a1 := r.worker("a1", true)
			r.task("t-1", "build", "")
			a1.finish(outcome, "")
			for _, extra := range []string{"", `,"priority":3`} {
				r.task("t-1", "build", extra)
				if got := r.stateOf("t-1"); got != outcome {
					t.Errorf("%s, and after a copy %q", outcome, got)
				}
			}
			r.forgets() // so many tasks came since, or another led before
			for _, extra := range []string{"", `,"priority":3`} {
				r.task("t-1", "build", extra)
				if got := r.stateOf("t-1"); got != outcome { // as the duplicate check knows
					t.Errorf("%s and forgotten, and after a copy %q", outcome, got)
				}
			}
		})
	}
}

// TestCopyOfWhatHasFailedIsNotPending: the message of a task that has failed comes again because its
// acknowledgement was lost with the session. It is no new submission.
func TestCopyOfWhatHasFailedIsNotPending(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		if _, err := r.service.Order(context.Background(), "a2", orderCordon); err != nil {
			t.Fatal(err)
		}
		var lost atomic.Bool
		r.broker.SetBetween(func(step string) {
			if step == "ack" && len(a1.has()) > 0 && lost.CompareAndSwap(false, true) { // that of the task's own message
				r.broker.Cut()
			}
		})
		r.send(bus.QueueAssign, taskBody("t-1", "build", ""))
		for range 1000 {
			if r.pass(time.Millisecond); lost.Load() {
				break
			}
		}
		r.connect()
		r.send(bus.StreamResult, resultBody("a1", "t-1", "failed", "")) // before the coordinator is back
		r.pass(backoffMax + time.Second)
		if got := r.stateOf("t-1"); got != recent.Failed {
			t.Errorf("%q, want it failed: its message came again", got)
		}
		if n := r.service.observe.Redelivered(); n == 0 {
			t.Error("its message did not come again")
		}
	})
}

// TestIDUsedAgainIsPending: a task whose id was that of another, which has ended long ago, is not
// shown as ended while it waits.
func TestIDUsedAgainIsPending(t *testing.T) {
	for _, outcome := range []string{"succeeded", "failed", "cancelled"} {
		inRig(t, fleet+"dedupe: {window_seconds: 20}\n", func(r *rig) {
			a1 := r.worker("a1", true)
			r.task("t-1", "build", "")
			a1.finish(outcome, "")
			r.pass(21 * time.Second)
			a1.report()
			if _, err := r.service.Order(context.Background(), "a1", orderCordon); err != nil {
				t.Fatal(err)
			}
			r.task("t-1", "build", "")
			if got := r.stateOf("t-1"); got != recent.Pending {
				t.Errorf("%q, want it pending", got)
			}
		})
	}
}

// TestStandbyShowsTheSame: whatever becomes of a task that was let go of, a standby shows the same of it.
func TestStandbyShowsTheSame(t *testing.T) {
	for _, outcome := range []string{"succeeded", "failed", "cancelled"} {
		withStandby(t, fleet, func(first, second *rig) {
			same := func(want string) {
				t.Helper()
				if here, there := first.stateOf("t-1"), second.stateOf("t-1"); here != want || there != want {
					t.Errorf("the leader says %q, the one that stands by %q, want %q", here, there, want)
				}
			}
			a2 := first.consumerOf("a2", 100) // says how many it runs, and no more
			first.heartbeat("a2", 0)
			first.task("t-1", "build", "")
			first.pass(time.Second)
			first.heartbeat("a2", 1)
			same(recent.Dispatched)
			a2.finish(outcome, "")
			first.pass(time.Second)
			same(outcome)
			first.close()
			second.pass(time.Second)
			second.close()
		})
	}
}

// TestRejectedDispatchWaits: a task of which no dispatch gets through waits, at the leader as at a standby, and has
// been given away when one does.
func TestRejectedDispatchWaits(t *testing.T) {
	withStandby(t, fleet, func(first, second *rig) {
		same := func(want string) {
			t.Helper()
			if here, there := first.stateOf("t-1"), second.stateOf("t-1"); here != want || there != want {
				t.Errorf("the leader says %q, the one that stands by %q, want %q", here, there, want)
			}
		}
		first.worker("a1", true)
		var full atomic.Bool
		full.Store(true)
		first.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Key == "agent.a1" && full.Load() {
				return membus.Nack
			}
			return membus.Answer
		})
		first.task("t-1", "build", "")
		same(recent.Pending)
		first.pass(1500 * time.Millisecond) // it has been tried again
		same(recent.Pending)
		full.Store(false)
		first.pass(time.Second)
		same(recent.Dispatched)
		first.close()
		second.pass(time.Second)
		if got := second.stateOf("t-1"); got != recent.Dispatched {
			t.Errorf("after the take-over %q", got)
		}
		second.close()
	})
}

// TestStandbyShowsTheSameEnd: how a task ended, and what became of its attempt, is the same at the
// leader and at a standby, and at a standby that reads it in the journal later.
func TestStandbyShowsTheSameEnd(t *testing.T) {
	type end struct {
		state, reason, outcome, words string
		completed                     bool
	}
	shown := func(r *rig) end {
		task, _ := r.service.Task(context.Background(), "t-1")
		e := end{state: task.State, reason: task.ReasonCode, completed: !task.CompletedAt.IsZero()}
		if x := r.explained("t-1"); len(x.Attempts) > 0 {
			e.outcome = x.Attempts[0].Outcome
			if e.outcome == "rejected" || e.outcome == "lost" { // the words of an end go with its event alone
				e.words = x.Attempts[0].Detail
			}
		}
		return e
	}
	hangs := func(first *rig, a1 *worker) {
		for range 7 { // a lease is timeout_seconds + 1 s
			a1.report(a1.has()...)
			first.pass(time.Second)
		}
	}
	for name, c := range map[string]struct {
		happens func(first *rig, a1 *worker)
		want    end
	}{
		"overdue": {hangs, end{"failed", "task_timeout", "timed_out", "", false}},
		"withdrawn, and its agent does not say that it stopped": {func(first *rig, a1 *worker) {
			first.cancel("t-1", "")
			hangs(first, a1)
		}, end{"cancelled", "cancelled", "timed_out", "", false}},
		"withdrawn, and its agent stops": {func(first *rig, a1 *worker) {
			first.cancel("t-1", "")
			a1.finish("cancelled", "")
		}, end{"cancelled", "", "cancelled", "", true}},
		"withdrawn after it came back": {func(first *rig, a1 *worker) {
			if _, err := first.service.Order(context.Background(), "a2", orderCordon); err != nil {
				first.t.Fatal(err)
			}
			a1.finish("rejected", `,"error":"too hot"`)
			first.pass(time.Second)
			first.cancel("t-1", "")
		}, end{"cancelled", "cancelled", "rejected", "too hot", false}},
		"failed": {func(_ *rig, a1 *worker) { a1.finish("failed", "") }, end{"failed", "", "failed", "", true}},
	} {
		t.Run(name, func(t *testing.T) {
			withStandby(t, fleet, func(first, second *rig) {
				a1 := first.worker("a1", true)
				first.task("t-1", "build", `,"timeout_seconds":5`)
				c.happens(first, a1)
				first.pass(time.Second)
				here, there := shown(first), shown(second)
				if here != c.want || there != c.want {
					t.Errorf("the leader shows %+v, the one that stands by %+v, want %+v", here, there, c.want)
				}
				first.close()
				second.pass(time.Second)
				second.close()
			})
		})
	}
}
