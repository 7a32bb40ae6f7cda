package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/state"
)

// adoptFleet replaces the fleet by that of another policy, and cancels what was scheduled for agents that are
// removed or get another queue.
func (k *kernel) adoptFleet(specs []coordinator.AgentSpec, settings coordinator.Settings) {
	gone, changes := k.Fleet.Adopt(specs, settings, state.Rejoin)
	k.agentsChanged(k.Now, changes)
	for _, a := range k.Fleet.Agents {
		a.Bidding.ID = a.Spec.ID
	}
	for _, a := range gone {
		k.Timers.Cancel(&a.ClaimEnd)
		for i := range a.Timers {
			k.Timers.Cancel(&a.Timers[i])
		}
	}
}

// joinDelay gathers agents that come together: each change of the fleet costs a pass over it.
const joinDelay = 100 * time.Millisecond

// agentsChanged does what follows from a change of the fleet, in its order.
func (k *kernel) agentsChanged(now time.Time, changes []fleet.Change[*state.Agent]) {
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case fleet.Emit:
			k.Emit(c.Effect)
		case fleet.Write:
			k.Commit(c.Record)
		case fleet.SetTimer:
			if t := &c.Agent.Timers[c.Timer]; c.At.IsZero() {
				k.Timers.Cancel(t)
			} else {
				k.Timers.Schedule(t, c.At)
			}
		case fleet.CameOn, fleet.WentOff:
			k.ApplyBreakers(k.Ejections.SetOnline(now, c.Agent.Number, c.Kind == fleet.CameOn))
		case fleet.OffMarket:
			k.outOfMarket(now, c.Agent)
		case fleet.Wake:
			k.wake(now, c.Agent)
		case fleet.Joins:
			if k.joinTurn.Index < 0 {
				k.Timers.Schedule(&k.joinTurn, now.Add(joinDelay))
			}
		}
	}
}

// reported applies one heartbeat.
func (k *kernel) reported(now time.Time, ev *coordinator.AgentReported) {
	a := k.Fleet.ByID[ev.Report.Agent]
	if a == nil {
		k.agentsChanged(now, k.Fleet.Announced(ev))
		return
	}
	v := k.Fleet.Accept(now, a, ev)
	if v.Untracked {
		k.Untrack(a)
	}
	if v.Shared > 0 {
		k.Emit(coordinator.AgentShared{Agent: a.Spec.ID, Instances: v.Shared})
	}
	if v.Kind == fleet.Accepted {
		a.Bidding.Unreachable = false
		if ev.Report.ActiveTasks != nil {
			k.Track(a)
		}
		k.Reconcile(now, a, v.Made)
	}
	k.agentsChanged(now, k.Fleet.Reported(now, a, ev, v.Kind))
	if v.Kind != fleet.Refused && v.Kind != fleet.Ignored {
		k.wake(now, a)
	}
}

// join lets the agents in that wait for it, and hears their reports.
func (k *kernel) join(now time.Time) {
	came, r, changes := k.Fleet.Join()
	k.agentsChanged(now, changes)
	if len(r.Agents)+len(r.Left) > 0 {
		k.Commit(r)
	}
	k.Fleet.Joined(r, k.Policy)
	k.install(now, k.Policy)
	for _, ev := range came {
		if a := k.Fleet.ByID[ev.Report.Agent]; a.Heard.IsZero() {
			a.QueueMissing = true // it may not exist yet
			k.agentsChanged(now, k.Fleet.Due(now, a, fleet.Recheck))
			k.reported(now, &ev)
		}
	}
}
