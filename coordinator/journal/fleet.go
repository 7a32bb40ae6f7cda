package journal

import "taskbus/coordinator"

func (c *coder) learnt(r *coordinator.Learnt) {
	name(c, &r.Agent)
	name(c, &r.Type)
	member(c, &r.Attribution, coordinator.NumAttributions)
	c.time(&r.At)
	integer(c, &r.Duration)
	c.float(&r.CostUSD)
}

func (c *coder) forgiven(r *coordinator.Forgiven) {
	name(c, &r.Agent)
	name(c, &r.Type)
	c.time(&r.At)
}

const (
	learntFirst = 1 << iota
	learntTyped
)

func (c *coder) learntBefore(r *coordinator.LearntBefore) {
	m := c.mask(on(r.First, learntFirst) | on(r.Typed, learntTyped))
	c.flag(&r.First, m&learntFirst != 0)
	c.time(&r.AsOf)
	name(c, &r.Agent)
	c.flag(&r.Typed, m&learntTyped != 0)
	name(c, &r.Type)
	for i := range r.Sums {
		c.float(&r.Sums[i])
	}
}

const (
	breakerGone = 1 << iota
	breakerFaults
	breakerProbe
	breakerProbing
)

// How many states and causes a breaker has (see coordinator.BreakerChanged).
const breakerStates, breakerCauses = 3, 3

func (c *coder) breakerChanged(r *coordinator.BreakerChanged) {
	m := c.mask(on(r.Gone, breakerGone) |
		on(len(r.Faults) > 0, breakerFaults) |
		on(r.Probe != "", breakerProbe) |
		on(r.Probing, breakerProbing))
	name(c, &r.Agent)
	name(c, &r.Capability)
	c.flag(&r.Gone, m&breakerGone != 0)
	member(c, &r.State, breakerStates)
	member(c, &r.Cause, breakerCauses)
	if m&breakerFaults != 0 {
		texts(c, &r.Faults)
	}
	integer(c, &r.Opened)
	c.time(&r.ClosedAt)
	c.time(&r.Until)
	c.uvarint(&r.Since)
	c.uvarint(&r.Before)
	if m&breakerProbe != 0 {
		text(c, &r.Probe)
	}
	c.flag(&r.Probing, m&breakerProbing != 0)
	c.uvarint(&r.Generation)
}

func (c *coder) ordered(r *coordinator.Ordered) {
	name(c, &r.Agent)
	member(c, &r.Order, int(coordinator.OrderUncordon)+1)
}

func (c *coder) joined(r *coordinator.Joined) {
	list(c, &r.Agents, leastSpec, (*coder).spec)
	names(c, &r.Left)
}

func (c *coder) consumed(r *coordinator.Consumed) {
	m := c.mask(on(r.Ever, 1) | on(!r.Told.IsZero(), 2))
	name(c, &r.Agent)
	c.flag(&r.Ever, m&1 != 0)
	if m&2 != 0 {
		c.time(&r.Told)
	}
}

func (c *coder) doubted(r *coordinator.Doubted) {
	c.key(&r.Key)
	integer(c, &r.Messages)
}

func (c *coder) agentBefore(r *coordinator.AgentBefore) {
	name(c, &r.Agent)
	c.uvarint(&r.Assigned)
	c.uvarint(&r.LastAssigned)
	c.float(&r.Items)
	c.float(&r.BusySeconds)
	integer(c, &r.Samples)
}

func (c *coder) calibrated(r *coordinator.Calibrated) {
	name(c, &r.Agent)
	c.float(&r.Ratio)
	c.float(&r.Brier)
	c.float(&r.Bias)
	integer(c, &r.Timed)
	integer(c, &r.Judged)
}

// leastSpec is how many bytes an AgentSpec takes up at the very least: its length
// and one for each field.
const leastSpec = 14

func (c *coder) spec(s *coordinator.AgentSpec) {
	c.part(func(c *coder) {
		m := c.mask(on(s.SuccessStated, 1))
		name(c, &s.ID)
		name(c, &s.Queue)
		names(c, &s.Capabilities)
		integer(c, &s.MaxConcurrent)
		integer(c, &s.Rank)
		integer(c, &s.HealthCheckInterval)
		integer(c, &s.Timeout)
		integer(c, &s.AcceptTimeout)
		c.float(&s.SuccessRate)
		c.flag(&s.SuccessStated, m&1 != 0)
		c.float(&s.Cost)
		c.labels(&s.Labels)
	})
}
