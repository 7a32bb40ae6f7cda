package engine

import (
	"cmp"
	"maps"
	"slices"

	"taskbus/coordinator"
)

// fleet looks at agents and their accounts. Those that have left are few, and seen in
// each Audit.
func (x *inspection) fleet() {
	e := x.e
	inTurn(&e.audited.agent, len(e.fleet.Agents), auditAgents, func(n int) int {
		a := e.fleet.Agents[n]
		x.account(a)
		x.member(n, a)
		return agentWeight + len(a.Open)
	})
	for _, id := range slices.Sorted(maps.Keys(e.fleet.Left)) {
		a := e.fleet.Left[id]
		x.account(a)
		if a.Number >= 0 || a.Spec.ID != id || a.TakenQueue != "" {
			x.agent(coordinator.InvariantFleetIndex, a, "it has left as %s, and has number %d and %q taken back", id, a.Number,
				a.TakenQueue)
		}
	}
	if len(e.fleet.Agents) > auditFleet {
		return
	}
	taken := 0
	for _, a := range e.fleet.Agents {
		if a.TakenQueue != "" {
			taken++
		}
	}
	if taken != e.takeBacks {
		x.note(coordinator.InvariantTakeBacks, "", "%d queues are taken back, counted are %d", taken, e.takeBacks)
	}
}

// account looks at the dispatches that an agent has.
func (x *inspection) account(a *agent) {
	uncovered := 0
	for i, t := range a.Open {
		if !t.Covered {
			uncovered++
		}
		switch {
		case t.At() != i || t.agent != a:
			x.task(coordinator.InvariantAgentAccount, t, "it is at %d of the account of %s, and says %d", i, a.Spec.ID, t.At())
		case t.state != stateDispatching && t.state != stateLeased || t.Over && t.expire.index >= 0:
			x.task(coordinator.InvariantAgentAccount, t, "it is on the account of %s in state %d, its outcome told %v",
				a.Spec.ID, t.state, t.Over)
		case !t.Over && !x.e.tasks.has(t):
			x.task(coordinator.InvariantAgentAccount, t, "it is on the account of %s and not among the open tasks", a.Spec.ID)
		}
	}
	if uncovered != a.Uncovered || a.Credit < 0 || a.Credit > len(a.Recent) {
		x.agent(coordinator.InvariantAgentAccount, a,
			"%d of its %d dispatches are covered by no report, counted are %d; it has credit for %d of %d tasks",
			uncovered, len(a.Open), a.Uncovered, a.Credit, len(a.Recent))
	}
}

// member looks at what is kept of an agent of the fleet in several places.
func (x *inspection) member(n int, a *agent) {
	e, f := x.e, &x.e.fleet
	if a.Number != n || f.ByID[a.Spec.ID] != a || f.ByQueue[a.Spec.Queue] != a || n > 0 &&
		f.Agents[n-1].Spec.ID >= a.Spec.ID {
		x.agent(coordinator.InvariantFleetIndex, a, "it is number %d at place %d; found by its id %v, by its queue %v",
			a.Number, n, f.ByID[a.Spec.ID] == a, f.ByQueue[a.Spec.Queue] == a)
		return // what follows would ask for another
	}
	v := &f.Views[n]
	again := coordinator.AgentView{ID: a.Spec.ID, Load: a.Load(), InFlight: a.InFlight(), Max: a.Maximum(), Free: a.Free(),
		Capacity: a.ItemsPerSecond(), Pending: a.Items(), ReportedLoad: a.Report.Load, Cost: cmp.Or(a.Spec.Cost, a.MeanCost)}
	if v.ID != again.ID || v.Load != again.Load || v.InFlight != again.InFlight || v.Max != again.Max ||
		v.Free != again.Free ||
		v.Capacity != again.Capacity || v.Pending != again.Pending || v.ReportedLoad != again.ReportedLoad ||
		v.Cost != again.Cost {
		x.agent(coordinator.InvariantAgentSlots, a,
			"strategies see %d in flight, %d of %d slots free, load %.3f; it has %d, %d of %d, %.3f",
			v.InFlight, v.Free, v.Max, v.Load, again.InFlight, again.Free, again.Max, again.Load)
	}
	if again.InFlight < 0 || again.Free < 0 || again.InFlight+again.Free > max(again.Max, again.InFlight) {
		x.agent(coordinator.InvariantAgentSlots, a, "%d of its %d slots are free with %d tasks in flight", again.Free,
			again.Max, again.InFlight)
	}
	if why := f.Eligibility(a); f.Ready.Has(n) != (why == coordinator.Eligible) {
		x.agent(coordinator.InvariantAgentReady, a, "it is marked as ready %v, and is %s", f.Ready.Has(n), why)
	}
	if x.set(&a.stale) != (a.State == coordinator.AgentOnline) {
		x.agent(coordinator.InvariantTimers, a, "it is %s, its silence is watched: %v", a.State, x.set(&a.stale))
	}
	if text := e.ejections.Check(n, a.State == coordinator.AgentOnline); text != "" {
		x.agent(coordinator.InvariantAgentReady, a, "%s", text)
	}
}
