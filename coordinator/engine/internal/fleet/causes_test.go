package fleet

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// An agent with 4 slots that is online with nothing in hand, and each time one thing more: the cause that comes first
// among the constants counts, KeptFree before NotReady.
func TestFirstCauseCounts(t *testing.T) {
	s := coordinator.Settings{MaxLoad: 0.9}
	a := Agent{State: coordinator.AgentOnline, Spec: coordinator.AgentSpec{MaxConcurrent: 4}}
	a.Report = coordinator.AgentReport{Available: 4}
	last := coordinator.Pulling
	for _, step := range []struct {
		change func()
		want   coordinator.Ineligibility
	}{
		{func() {}, coordinator.Eligible},
		{func() { a.Spec.Pull = coordinator.PullLiteral }, coordinator.Pulling},
		{func() { a.Spec.Pull = coordinator.PullOff; a.QueueFull = true }, coordinator.QueueFull},
		{func() { a.QueueMissing = true }, coordinator.QueueMissing},
		{func() { s.RefuseBacklogged = true; a.stated, a.pending, a.pendingAt = 1, 60, time.Unix(1, 0) },
			coordinator.Backlogged},
		{func() { a.Report.Load = 0.9 }, coordinator.Overloaded},
		{func() { a.held = 3; a.Uncovered = 1 }, coordinator.Full},
		{func() { s.BusyIsEligible = true; a.Report.Status = coordinator.StatusBusy }, coordinator.Full},
		{func() { s.BusyIsEligible = false }, coordinator.NotReady},
		{func() { a.kept = true }, coordinator.KeptFree},
		{func() { a.Suspect = true }, coordinator.Suspect},
		{func() { a.unsteady = true }, coordinator.Unsteady},
		{func() { a.Cordoned = true }, coordinator.Cordoned},
		{func() { a.Unattended = true }, coordinator.WentGone},
		{func() { a.State = coordinator.AgentGone }, coordinator.WentGone},
		{func() { a.State = coordinator.AgentStale }, coordinator.WentStale},
		{func() { a.State = coordinator.AgentOffline }, coordinator.WentOffline},
		{func() { a.State = coordinator.AgentNeverSeen }, coordinator.NotSeen},
	} {
		step.change()
		if why := a.cause(&s, a.Free()); why != step.want {
			t.Errorf("it is %v, want %v", why, step.want)
		}
		if step.want == coordinator.KeptFree {
			continue
		}
		if step.want > last {
			t.Errorf("%v comes before %v among the constants", last, step.want)
		}
		if step.want != coordinator.Eligible {
			last = step.want
		}
	}
}
