package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// endedAs tells that an agent has done the task, and gives what its end is announced with.
func (r *rig) endedAs(d coordinator.Dispatch) *coordinator.Task {
	r.t.Helper()
	for _, f := range r.Apply(r.now, coordinator.ResultReported{Live: true, Result: coordinator.Result{
		Task: d.Task.ID, Agent: d.Agent, DispatchID: d.DispatchID, Timestamp: r.now,
	}}, nil) {
		if f, is := f.(*coordinator.Completed); is {
			return f.Task
		}
	}
	r.t.Fatalf("the end of %s is not announced", d.DispatchID)
	return nil
}

// twoThatWait are two agents. In these tests b is busy, and what a gives back waits for it.
func twoThatWait() *policyBuilder {
	p := policyOf(worker("a"), worker("b"))
	p.Settings.AssignmentTimeout = time.Hour
	return p
}

// TestEndOfWhatWaitedLong: a dispatch comes back, and the task waits for so long that the ends of that time
// are not kept any more. The next leader has a snapshot alone, and reads that the agent of that dispatch
// has done the task: its end is as whole as any.
func TestEndOfWhatWaitedLong(t *testing.T) {
	r := leads(t, twoThatWait())
	r.give(job("x").not("a"))
	d := r.give(job("t"))
	r.returns(d, coordinator.ReturnExpired, false)
	r.lives(engine.EndsTold, beat("a").running(), beat("b").running("x"))
	if o := r.open("t"); o == nil || o.State() >= engine.StateDispatching {
		t.Fatalf("it does not wait: %+v", o)
	}
	if heir := r.heirOf(r.now, r.imaged()); heir.endedAs(d) == nil {
		t.Error("it is told without what the task was accepted with")
	}
}

// TestEndOfWhatCameBackUnknown: a dispatch of a leader of which nothing is known comes back, and the session
// ends before the task is given away again. Its agent's word ends it, as whole as any.
func TestEndOfWhatCameBackUnknown(t *testing.T) {
	d := leads(t, twoThatWait()).give(job("t").not("b"))
	r := leads(t, twoThatWait())
	r.give(job("x").not("a"))
	r.returns(d, coordinator.ReturnExpired, false)
	if o := r.open("t"); o == nil || o.State() >= engine.StateDispatching {
		t.Fatalf("it does not wait: %+v", o)
	}
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	if r.endedAs(d) == nil {
		t.Error("it is told without what the task was accepted with")
	}
}
