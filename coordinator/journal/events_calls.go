package journal

import "taskbus/coordinator"

const (
	callKeep = 1 << iota
	callOwnOnly
	callExact
	callNoBorrowing
	callChargeUntold
	callUsage
	callNoRequest
)

// leastCall is how many bytes a call takes up at the very least.
const leastCall = 8

func (c *coder) callAsked(ev *coordinator.CallAsked) {
	c.uvarint(&ev.Token)
	list(c, &ev.Calls, leastCall, (*coder).call)
}

func (c *coder) call(call *coordinator.Call) {
	m := c.mask(on(call.Keep, callKeep) |
		on(call.OwnOnly, callOwnOnly) |
		on(call.Exact, callExact) |
		on(call.NoBorrowing, callNoBorrowing) |
		on(call.ChargeUntold, callChargeUntold) |
		on(call.Usage != (coordinator.Usage{}), callUsage) |
		on(call.NoRequest, callNoRequest))
	member(c, &call.Op, coordinator.NumCallOps)
	c.key(&call.Key)
	c.flag(&call.Keep, m&callKeep != 0)
	name(c, &call.Agent)
	name(c, &call.Group)
	c.flag(&call.OwnOnly, m&callOwnOnly != 0)
	name(c, &call.Operation)
	c.flag(&call.Exact, m&callExact != 0)
	c.flag(&call.NoRequest, m&callNoRequest != 0)
	integer(c, &call.Seats)
	c.flag(&call.NoBorrowing, m&callNoBorrowing != 0)
	member(c, &call.Priority, int(coordinator.PriorityCritical)+1)
	integer(c, &call.TTL)
	c.flag(&call.ChargeUntold, m&callChargeUntold != 0)
	if m&callUsage != 0 {
		usage := &call.Usage
		if c.usage(&usage); !c.writing {
			call.Usage = *usage
		}
	}
}
