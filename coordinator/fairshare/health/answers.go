package health

import (
	"time"

	"taskbus/coordinator"
)

// manyCalls is after how many calls an older one counts for less than the latest.
const manyCalls = 16

// An agent that reports with its own token may be mistaken about how a provider answers, or lie: by its
// reports in a row, with no other agent's in between, success falls by half at most, and latency changes by
// a factor of ownChange at most. aloneSaid stands for a latency that one agent alone has reported.
const (
	ownChange = 2
	aloneSaid = -1
)

// answers is how calls have gone of late.
type answers struct {
	// calls is how many there were, up to manyCalls, success how many in a million went well, latency what timed of
	// them took in the mean, in ns.
	calls, success, timed, latency int64
	// teller reported the latest of them with its own token, empty: a gateway did; and what success and
	// latency were when its reports in a row began; of latency 0: it was not known, aloneSaid: by one agent
	// alone, so that the second one is not bounded.
	teller                     coordinator.AgentID
	beganSuccess, beganLatency int64
}

// Observe counts how a call went. by is the agent that reported it itself; empty: a gateway did.
func (h *State) Observe(failed bool, latency time.Duration, by coordinator.AgentID) {
	a := &h.answers
	if by != a.teller || a.calls == 0 {
		a.begin(by)
	}
	a.calls = min(a.calls+1, manyCalls)
	won := int64(1_000_000)
	if failed {
		won = 0
	}
	a.success += (won - a.success) / a.calls
	if latency > 0 && !failed {
		a.timed = min(a.timed+1, manyCalls)
		a.latency += (int64(latency) - a.latency) / a.timed
	}
	if by == "" {
		return
	}
	a.success = max(a.success, a.beganSuccess/ownChange)
	if was := a.beganLatency; was > 0 {
		a.latency = min(max(a.latency, was/ownChange), was*ownChange)
	}
}

// begin starts a row of reports of another agent, or of a gateway.
func (a *answers) begin(by coordinator.AgentID) {
	switch {
	case a.latency == 0:
		a.beganLatency = 0
	case a.beganLatency == 0 && a.teller != "":
		a.beganLatency = aloneSaid
	default:
		a.beganLatency = a.latency
	}
	if a.teller, a.beganSuccess = by, a.success; a.calls == 0 {
		a.beganSuccess = 1_000_000
	}
}

// fold sets it to what a record of a snapshot says, within its bounds.
func (a *answers) fold(r *coordinator.PoolHeard) {
	a.calls, a.success, a.latency = min(max(r.Calls, 0), manyCalls), min(max(r.Success, 0), 1_000_000),
		max(int64(r.Latency), 0)
	a.teller, a.beganSuccess, a.beganLatency = r.Teller, r.BeganSuccess, int64(r.BeganLatency)
	if a.latency > 0 {
		a.timed = a.calls
	}
}
