package state

import (
	"time"

	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/fleet"
)

// Agent is one agent: what is known of it, what it has, and what else the kernel keeps of it.
type Agent struct {
	fleet.Account[*Task]
	Bidding  Bidder
	Seat     Seat // of its claim
	Timers   [fleet.NumTimers]Timer
	ClaimEnd Timer // of the wait of its claim
}

// agents are all of the policy.
type agents struct {
	fleet.Fleet[*Task, *Agent]
}

// Held returns how many slots the agent's bids hold.
func (a *Agent) Held() int { return a.Bidding.Held() }

// Waits reports whether a claim of the agent has not been answered.
func (a *Agent) Waits() bool { return a.Seat.Waits() }

// received notes that the agent's queue has a dispatch.
func (a *Agent) received(at time.Time) {
	a.Assigned++
	a.Given, a.Moved = at, at
}

// Rejoin makes an agent of which nothing is known but, if it was in the fleet
// before, the dispatches that it has or may have.
func Rejoin(before *Agent) *Agent {
	a := before
	if a == nil {
		a = &Agent{}
	}
	a.Rejoin()
	*a = Agent{Account: a.Account, Bidding: Bidder{Agent: a, Calibration: a.Bidding.Calibration}}
	for i := range a.Timers {
		a.Timers[i] = NewTimer(DutyAgent, nil, a)
		a.Timers[i].Of = fleet.Timer(i)
	}
	a.Timers[fleet.Silence].Duty = DutyStale
	a.ClaimEnd = NewTimer(DutyClaim, nil, a)
	return a
}

// ForgetAgents frees the serials of agents that have left and that no record refers to any more, when there are
// twice as many as the last time. An agent may use a new name each time that it starts.
func (s *State) ForgetAgents() {
	serials := &s.Fleet.Serials
	if !serials.Sweeps() {
		return
	}
	used := agentset.New(len(serials.Names()))
	for _, a := range s.Fleet.ByID { // order does not matter: it is a set
		used.Add(int(a.Serial))
	}
	for _, a := range s.Fleet.Left {
		used.Add(int(a.Serial))
	}
	for r := range s.Dedupe.Latest() {
		if !r.Fate.IsOpen() {
			used.Add(int(r.Ref))
		}
	}
	for _, t := range s.Tasks.All {
		if t != nil && t.Agent != nil {
			used.Add(int(t.Agent.Serial))
		}
	}
	for _, t := range s.Held {
		if t.Agent != nil {
			used.Add(int(t.Agent.Serial))
		}
	}
	serials.Sweep(used)
}
