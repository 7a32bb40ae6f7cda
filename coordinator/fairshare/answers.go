package fairshare

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

// Observe counts how a call went that was charged so. by is the agent that reported it itself; empty: a
// gateway did.
func (l *Ledger) Observe(c *Charge, failed bool, latency time.Duration, by coordinator.AgentID) {
	n, ok := l.serviceNode(c.Provider, c.Model)
	if !ok {
		return
	}
	h := &l.nodes[n].health
	if by != h.teller || h.calls == 0 {
		h.begin(by)
	}
	h.calls = min(h.calls+1, manyCalls)
	won := int64(1_000_000)
	if failed {
		won = 0
	}
	h.success += (won - h.success) / h.calls
	if latency > 0 && !failed {
		h.timed = min(h.timed+1, manyCalls)
		h.latency += (int64(latency) - h.latency) / h.timed
	}
	if by == "" {
		return
	}
	h.success = max(h.success, h.beganSuccess/ownChange)
	if was := h.beganLatency; was > 0 {
		h.latency = min(max(h.latency, was/ownChange), was*ownChange)
	}
}

// begin starts a row of reports of another agent, or of a gateway.
func (h *health) begin(by coordinator.AgentID) {
	switch {
	case h.latency == 0:
		h.beganLatency = 0
	case h.beganLatency == 0 && h.teller != "":
		h.beganLatency = aloneSaid
	default:
		h.beganLatency = h.latency
	}
	if h.teller, h.beganSuccess = by, h.success; h.calls == 0 {
		h.beganSuccess = 1_000_000
	}
}
