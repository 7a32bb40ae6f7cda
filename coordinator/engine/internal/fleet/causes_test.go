package fleet

import (
	"testing"

	"taskbus/coordinator"
)

// The causes are tested in the order of the constants, KeptFree before NotReady, and each of them is one that an agent
// can bring about by itself.
func TestCausesAreInOrder(t *testing.T) {
	last := coordinator.Eligible
	for i, row := range causes {
		if i == keptFree {
			if row.why != coordinator.KeptFree {
				t.Errorf("row %d is %v, want KeptFree", i, row.why)
			}
			continue
		}
		if row.why <= last {
			t.Errorf("row %d, %v, is behind %v", i, row.why, last)
		}
		last = row.why
	}
	if causes[ofOnline].why != coordinator.WentGone || causes[ofPresence].why != coordinator.NotReady {
		t.Errorf("online begins with %v, what is not presence with %v", causes[ofOnline].why, causes[ofPresence].why)
	}
}

// An agent with 4 slots that is online with nothing in hand, and each time one thing more: the one that is tested
// first counts.
func TestFirstCauseCounts(t *testing.T) {
	s := coordinator.Settings{MaxLoad: 0.9}
	a := Agent{State: coordinator.AgentOnline, Spec: coordinator.AgentSpec{MaxConcurrent: 4}}
	a.Report = coordinator.AgentReport{Available: 4}
	for _, step := range []struct {
		change func()
		want   coordinator.Ineligibility
	}{
		{func() {}, coordinator.Eligible},
		{func() { a.Spec.Pull = coordinator.PullLiteral }, coordinator.Pulling},
		{func() { a.Spec.Pull = coordinator.PullOff; a.QueueFull = true }, coordinator.QueueFull},
		{func() { a.QueueMissing = true }, coordinator.QueueMissing},
		{func() { a.Report.Load = 0.9 }, coordinator.Overloaded},
		{func() { a.held = 3; a.Uncovered = 1 }, coordinator.Full},
		{func() { a.Report.Status = coordinator.StatusBusy }, coordinator.NotReady},
		{func() { s.BusyIsEligible = true }, coordinator.Full},
		{func() { a.kept = true }, coordinator.KeptFree},
		{func() { a.Suspect = true }, coordinator.Suspect},
		{func() { a.Unsteady = true }, coordinator.Unsteady},
		{func() { a.Cordoned = true }, coordinator.Cordoned},
		{func() { a.Unattended = true }, coordinator.WentGone},
		{func() { a.State = coordinator.AgentStale }, coordinator.WentStale},
		{func() { a.State = coordinator.AgentOffline }, coordinator.WentOffline},
		{func() { a.State = coordinator.AgentNeverSeen }, coordinator.NotSeen},
	} {
		if step.change(); a.cause(&s, 0, len(causes)) != step.want {
			t.Errorf("it is %v, want %v", a.cause(&s, 0, len(causes)), step.want)
		}
	}
}
