package engine

import (
	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
)

// agent is one agent: what is known of it, what it has, and what else the kernel keeps of it.
type agent struct {
	fleet.Account[*openTask]
	bidding bidder
	claiming
	stale, recheck, cool, steady, forget, ramping timer
}

// agents are all of the policy.
type agents struct {
	fleet.Fleet[*openTask, *agent]
}

// Held returns how many slots the agent's bids hold.
func (a *agent) Held() int { return a.bidding.Held() }

// Waits reports whether a claim of the agent has not been answered.
func (a *agent) Waits() bool { return a.seat.Waits() }

// rejoin makes an agent of which nothing is known but, if it was in the fleet
// before, the dispatches that it has or may have.
func rejoin(before *agent) *agent {
	a := before
	if a == nil {
		a = &agent{}
	}
	a.Rejoin()
	*a = agent{Account: a.Account, bidding: bidder{Agent: a, Calibration: a.bidding.Calibration}}
	a.stale = newTimer(dutyStale, nil, a)
	a.recheck = newTimer(dutyRecheck, nil, a)
	a.cool = newTimer(dutyCool, nil, a)
	a.steady = newTimer(dutySteady, nil, a)
	a.forget = newTimer(dutyForget, nil, a)
	a.ramping = newTimer(dutyRamp, nil, a)
	a.claimEnd = newTimer(dutyClaim, nil, a)
	return a
}

// adoptFleet replaces the fleet by that of another policy, and cancels what was scheduled for agents that go, or whose
// queue is another.
func (e *Engine) adoptFleet(specs []coordinator.AgentSpec, settings coordinator.Settings) {
	moved, gone := e.fleet.Adopt(specs, settings, rejoin)
	for _, a := range e.fleet.Agents {
		a.bidding.ID = a.Spec.ID
	}
	for _, a := range moved {
		e.timers.cancel(&a.recheck)
		e.timers.cancel(&a.cool)
	}
	for _, a := range gone {
		for _, t := range []*timer{&a.stale, &a.recheck, &a.cool, &a.steady, &a.forget, &a.ramping, &a.claimEnd} {
			e.timers.cancel(t)
		}
	}
}
