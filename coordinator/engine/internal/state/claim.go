package state

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/claims"
)

// The line's objects, by the kernel's agents and classes.
type (
	Seat  = claims.Seat[*Class]
	reach = claims.Reach[*Class]
)

// ClaimView is what the line of claims reads of the engine.
type claimView State

func (s *State) ClaimView() *claimView { return (*claimView)(s) }

func (v *claimView) Class(c *Class) (key string, usable agentset.Set) { return c.Key, c.Usable }

func (v *claimView) Agent(a *Agent) claims.Agent[*Class] {
	present := v.Fleet.PresenceOf(a) == coordinator.Eligible
	return claims.Agent[*Class]{
		Seat: &a.Seat, Number: a.Number, Mode: a.Spec.Pull, InHand: a.InFlight(), Free: a.Free(), Present: present,
		Reachable: present && v.Fleet.Connected && !a.QueueMissing && !a.QueueFull,
	}
}

func (v *claimView) Measured(now time.Time, a *Agent) float64 {
	if a.Capacity.WarmUp() {
		return 0
	}
	return a.Capacity.Estimate(now)
}

func (v *claimView) Ejected(a *Agent) bool {
	return slices.ContainsFunc(v.Pending.Active(), func(c *WaitingClass) bool {
		return c.Of.Criteria.Set.Has(a.Number) && !c.Usable.Has(a.Number)
	})
}

// Affords looks at the first task of each class. Only where agents have quota of their own does it depend on the agent.
func (v *claimView) Affords(now time.Time, a *Agent, other reach) bool {
	return !v.Quotas.AgentsDiffer("") || slices.ContainsFunc(other.Classes, func(c *Class) bool {
		t := c.First()
		return t != nil && c.Usable.Has(a.Number) &&
			v.Quotas.Affords(now, t.Task, (*State)(v).QuotaDemand(t), a.Spec.ID)
	})
}

// Reach is what waits that the agent of that number could have. It is good until the next call.
func (s *State) Reach(number int) reach {
	of, tasks := s.Pending.Reach(number)
	return reach{Classes: of, Tasks: tasks}
}
