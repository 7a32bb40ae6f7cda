package questions

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/state"
)

// Held calls visit with each delivery that is not settled and its task, in no order.
func (q Questions) Held(visit func(coordinator.Handle, coordinator.TaskID)) {
	for h, t := range q.s.Held {
		visit(h, t.Task.ID)
	}
}

// Holds reports whether the engine holds a task by this delivery.
func (q Questions) Holds(h coordinator.Handle) bool { return q.s.Held[h] != nil }

// Waits reports whether the task that it holds by this delivery is pending.
func (q Questions) Waits(h coordinator.Handle) bool {
	t := q.s.Held[h]
	return t != nil && t.Stage < state.Dispatching
}

// Known is what the duplicate check knows of a task id, with its task while that is open; nil: it is
// not in the window.
func (q Questions) Known(now time.Time, id coordinator.TaskID) *coordinator.Remembered {
	r := q.s.Dedupe.Lookup(now, coordinator.KeyOf(id), q.s.Policy.Settings.DedupeWindow)
	if r == nil {
		return nil
	}
	m := q.s.Remembered(r, coordinator.Remembered{})
	if t := q.s.Tasks.Of(r); t != nil {
		m.Task, m.Attempt, m.Agent = t.Task, t.Attempt, ""
		if t.Agent != nil {
			m.Agent = t.Agent.Spec.ID
		}
	}
	return m
}

// HasAgent reports whether the agent is part of the fleet, listed or joined.
func (q Questions) HasAgent(id coordinator.AgentID) bool { return q.s.Fleet.ByID[id] != nil }

// ReportsNearer compares the times that agents wrote into their latest reports with two times. It returns how many
// agents have reported, and for how many of them the time is nearer to other than to now. Relayed reports do not count.
func (q Questions) ReportsNearer(now, other time.Time) (heard, nearer int) {
	return q.s.Fleet.ReportsNearer(now, other)
}

// QuotaControls are the standing controls, in the order in which they were made. The caller owns
// the list.
func (q Questions) QuotaControls() []coordinator.QuotaControl { return q.s.Controls.Standing() }

// PolicyDue reports whether a standby engine must be given the policy with the controls that it has folded
// (FoldPolicy) before it folds the next record, written at that time. next may be nil: then it reports whether that
// is needed even if no record follows.
func (q Questions) PolicyDue(at time.Time, next coordinator.Record) bool {
	l := q.s.Quotas.Ledger
	return q.s.Controls.PolicyDue(l, at, next, l.Fresh() && q.s.Lanes.Empty())
}

// PolicyBehind reports whether controls were folded since the policy was installed, and when the latest
// of them was written: as of when FoldPolicy is to install it.
func (q Questions) PolicyBehind() (at time.Time, behind bool) { return q.s.Controls.PolicyBehind() }

// IsOver reports whether a dispatch that comes back changes nothing: its task has ended, or
// goes on under another dispatch. It asks, and remembers nothing of it.
func (q Questions) IsOver(now time.Time, ev *coordinator.TaskReturned) bool {
	r := q.s.Dedupe.Lookup(now, coordinator.KeyOf(ev.Task.ID), q.s.Policy.Settings.DedupeWindow)
	return q.s.JudgeReturn(r, ev) != state.GoesOn
}

// WaitsForPreferred describes a task that waits for its preferred agents alone: for which of them, and until when.
// ok is false when it does not.
func (q Questions) WaitsForPreferred(id coordinator.TaskID) (agents []coordinator.AgentID, until time.Time, ok bool) {
	t := q.s.FindTask(id)
	if t == nil || !t.Narrow() {
		return nil, time.Time{}, false
	}
	return slices.Clone(t.Needs.Class.Only), t.Task.AcceptedAt.Add(t.Task.WidenAfter), true
}
