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
	inTurn(&e.audited.agent, len(e.fleet.agents), auditAgents, func(n int) int {
		a := e.fleet.agents[n]
		x.account(a)
		x.member(n, a)
		return agentWeight + len(a.open)
	})
	for _, id := range slices.Sorted(maps.Keys(e.fleet.left)) {
		a := e.fleet.left[id]
		x.account(a)
		if a.number >= 0 || a.spec.ID != id || a.takenQueue != "" {
			x.agent(coordinator.InvariantFleetIndex, a, "it has left as %s, and has number %d and %q taken back", id, a.number,
				a.takenQueue)
		}
	}
	if len(e.fleet.agents) > auditFleet {
		return
	}
	taken := 0
	for _, a := range e.fleet.agents {
		if a.takenQueue != "" {
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
	for i, t := range a.open {
		if !t.covered {
			uncovered++
		}
		switch {
		case t.place != i || t.agent != a:
			x.task(coordinator.InvariantAgentAccount, t, "it is at %d of the account of %s, and says %d", i, a.spec.ID, t.place)
		case t.state != stateDispatching && t.state != stateLeased || t.over && t.expire.index >= 0:
			x.task(coordinator.InvariantAgentAccount, t, "it is on the account of %s in state %d, its outcome told %v",
				a.spec.ID, t.state, t.over)
		case !t.over && (int(t.number) >= len(x.e.tasks.all) || x.e.tasks.all[t.number] != t):
			x.task(coordinator.InvariantAgentAccount, t, "it is on the account of %s and not among the open tasks", a.spec.ID)
		}
	}
	if uncovered != a.uncovered || a.credit < 0 || a.credit > len(a.recent) {
		x.agent(coordinator.InvariantAgentAccount, a,
			"%d of its %d dispatches are covered by no report, counted are %d; it has credit for %d of %d tasks",
			uncovered, len(a.open), a.uncovered, a.credit, len(a.recent))
	}
}

// member looks at what is kept of an agent of the fleet in several places.
func (x *inspection) member(n int, a *agent) {
	e, f := x.e, &x.e.fleet
	if a.number != n || f.byID[a.spec.ID] != a || f.byQueue[a.spec.Queue] != a || n > 0 &&
		f.agents[n-1].spec.ID >= a.spec.ID {
		x.agent(coordinator.InvariantFleetIndex, a, "it is number %d at place %d; found by its id %v, by its queue %v",
			a.number, n, f.byID[a.spec.ID] == a, f.byQueue[a.spec.Queue] == a)
		return // what follows would ask for another
	}
	v := &f.views[n]
	again := coordinator.AgentView{ID: a.spec.ID, Load: a.load(), InFlight: a.inFlight(), Max: a.maximum(), Free: a.free(),
		Capacity: a.itemsPerSecond(), Pending: a.items(), ReportedLoad: a.report.Load, Cost: cmp.Or(a.spec.Cost, a.meanCost)}
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
	if why := f.eligibility(a); f.ready.Has(n) != (why == coordinator.Eligible) {
		x.agent(coordinator.InvariantAgentReady, a, "it is marked as ready %v, and is %s", f.ready.Has(n), why)
	}
	if x.set(&a.stale) != (a.state == coordinator.AgentOnline) {
		x.agent(coordinator.InvariantTimers, a, "it is %s, its silence is watched: %v", a.state, x.set(&a.stale))
	}
	if text := e.ejections.Check(n, a.state == coordinator.AgentOnline); text != "" {
		x.agent(coordinator.InvariantAgentReady, a, "%s", text)
	}
}
