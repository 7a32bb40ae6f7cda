package service

import (
	"context"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
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
			if a.Eligible || a.ID == "a1" && a.WhyNot != whyNoSession {
				t.Errorf("%s: eligible %v, why not %q", a.ID, a.Eligible, a.WhyNot)
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
	s.history.accepted(task("new", 0))
	assigned := &coordinator.Assigned{Task: task("old", time.Hour), Agent: "a1", Attempt: 1, At: at.Add(-time.Hour)}
	s.history.follow([]coordinator.Record{assigned, &coordinator.Remembered{ID: "old", Fate: coordinator.FateTimedOut, Attempt: 1, Agent: "a1", Seen: at}})
	if list := s.Tasks(context.Background(), httpapi.TaskFilter{}); len(list) != 2 || list[0].ID != "new" {
		t.Errorf("%+v, want the newest first", list)
	}
	x, _ := s.Explain(context.Background(), "old")
	if x.Explanation != nil || len(x.Attempts) != 1 || x.Attempts[0].Outcome != attemptTimedOut {
		t.Errorf("%+v %+v, want no decision, and an attempt that timed out", x.Explanation, x.Attempts)
	}

	d := &coordinator.Dispatch{
		Task: task("ours", time.Minute), Agent: "a1", DispatchID: "ours.1", Attempt: 1, At: at,
		Decision: &coordinator.Decision{Strategy: "least_loaded", Agent: "a1", Candidates: make([]coordinator.Candidate, 2)},
	}
	s.history.dispatching(d)
	s.history.follow([]coordinator.Record{&coordinator.Assigned{Task: d.Task, Agent: "a1", Attempt: 1, At: at}})
	if x, _ := s.Explain(context.Background(), "ours"); x.Explanation == nil || len(x.Explanation.Candidates) != 2 {
		t.Errorf("%+v, want the decision as it was made here", x.Explanation)
	}
}
