package fleet

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/capacity"
)

// Throughput is what BALANCING's registry knows of an agent: how many items a
// second it completes, and how many it has pending.
type Throughput struct {
	Capacity capacity.Estimator
	// measured is the estimate when it was last taken.
	measured float64
	// What the agent itself said last: items a second (heard at statedAt, 0: never)
	// and items pending (at pendingAt; zero: never).
	stated              float64
	pending             int
	statedAt, pendingAt time.Time
	// meanCost of its tasks as measured, in US dollars; 0: not known.
	MeanCost float64
	// relayedAt is the timestamp of the newest report that was relayed for it.
	relayedAt time.Time
}

// An agent's report of capacity and pending items counts for wordTTL, BALANCING's time to live of what is reported
// every 10 s, or for wordLasts of its health check intervals, if that is longer.
const (
	wordTTL   = 30 * time.Second
	wordLasts = 3
)

// heardOf takes over what a report says of capacity and pending items. One that
// says nothing of them leaves what was said before.
func (p *Throughput) heardOf(now time.Time, r *coordinator.AgentReport) {
	if r.HasCapacity {
		p.stated, p.statedAt = r.Capacity, now
	}
	if r.HasPending {
		p.pending, p.pendingAt = r.Pending, now
	}
}

// Measure takes the estimate of how many items the agent does a second, and passes to it
// whether the agent has anything in hand.
func (a *Account[T]) Measure(now time.Time) {
	a.Capacity.InHand(now, len(a.Open))
	a.measured = a.Capacity.Estimate(now)
	old := now.Add(-max(wordTTL, wordLasts*a.Spec.HealthCheckInterval))
	if a.statedAt.Before(old) {
		a.stated = 0
	}
	if a.pendingAt.Before(old) {
		a.pendingAt = time.Time{}
	}
}

// ItemsPerSecond returns how many items the agent does a second: as it reports, else as measured.
func (a *Agent) ItemsPerSecond() float64 {
	switch {
	case a.stated > 0:
		return a.stated
	case a.measured > 0:
		return a.measured
	default:
		return capacity.Default
	}
}

// Items returns how many items the agent has pending: as it reports, less those that it has reported as ended since
// its latest report, and with those dispatched since; or what it has in hand.
func (a *Agent) Items() int {
	if a.pendingAt.IsZero() {
		return a.InFlight()
	}
	return max(0, a.pending-min(a.Credit, a.Report.Active)) + a.Uncovered
}

// drain returns how long the agent's pending items will take it.
func (a *Agent) drain() time.Duration {
	return DurationOf(float64(a.Items()) / a.ItemsPerSecond())
}

// backlogged reports whether the agent has a minute of work pending, as far as that is known: a rate or a number of
// items that was neither reported nor measured does not keep work from an agent.
func (a *Agent) backlogged() bool {
	return (a.stated > 0 || !a.Capacity.WarmUp()) && coordinator.HealthOf(a.drain()) == coordinator.OverloadedHealth
}

// CapacitySnapshot returns the throughput as readers see it.
func (a *Agent) CapacitySnapshot() coordinator.CapacitySnapshot {
	s := coordinator.CapacitySnapshot{
		ItemsPerSecond: a.ItemsPerSecond(), Reported: a.stated > 0,
		Measured: a.measured, WarmUp: a.Capacity.WarmUp(),
		Pending: a.Items(), Drain: a.drain(),
	}
	if s.Measured == 0 {
		s.Measured = capacity.Default
	}
	s.Health = coordinator.HealthOf(s.Drain)
	return s
}

// DurationOf returns that many seconds as a duration, however large: a year is as good as a century.
func DurationOf(n float64) time.Duration {
	const most = 365 * 24 * time.Hour
	if !(n < most.Seconds()) {
		return most
	}
	return time.Duration(n * float64(time.Second))
}
