package journal

import "taskbus/coordinator"

const (
	callKeep = 1 << iota
	callOwnOnly
	callExact
	callNoBorrowing
	callChargeUntold
	callUsage
	callRoutes
	callHeard
	callPart
	callOutput
	callInput
	callAdmitted // at the end, as what follows: earlier versions have not known it
	callAsked
)

// callMeant are the bits for how the usage is meant; none: it is estimated.
var callMeant = [...]struct {
	meant coordinator.UsageMeant
	bit   uint64
}{
	{coordinator.UsageExact, callExact}, {coordinator.UsagePart, callPart}, {coordinator.UsageOutput, callOutput},
	{coordinator.UsageInput, callInput},
}

// leastCall is how many bytes a call takes up at the very least.
const leastCall = 8

func (c *coder) callAsked(ev *coordinator.CallAsked) {
	c.uvarint(&ev.Token)
	list(c, &ev.Calls, leastCall, (*coder).call)
}

func (c *coder) call(call *coordinator.Call) {
	m := c.mask(on(call.Keep, callKeep) |
		on(call.OwnOnly, callOwnOnly) |
		meantBit(call.Meant) |
		on(call.NoBorrowing, callNoBorrowing) |
		on(call.ChargeUntold, callChargeUntold) |
		on(call.Usage != (coordinator.Usage{}), callUsage) |
		on(len(call.Routes) > 0, callRoutes) |
		on(call.Heard != nil, callHeard) |
		on(call.Admitted, callAdmitted) |
		on(call.Asked != 0, callAsked))
	member(c, &call.Op, coordinator.NumCallOps)
	c.key(&call.Key)
	c.flag(&call.Keep, m&callKeep != 0)
	name(c, &call.Agent)
	name(c, &call.Group)
	c.flag(&call.OwnOnly, m&callOwnOnly != 0)
	c.flag(&call.Admitted, m&callAdmitted != 0)
	name(c, &call.Operation)
	if !c.writing {
		for _, one := range callMeant {
			if m&one.bit != 0 {
				call.Meant = one.meant
			}
		}
	}
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
	if m&callRoutes != 0 {
		list(c, &call.Routes, 2, service)
	}
	if m&callHeard != 0 {
		c.providerWord(&call.Heard)
	}
	if m&callAsked != 0 {
		c.uvarint(&call.Asked)
	}
}

// meantBit says how the usage of a call is meant.
func meantBit(meant coordinator.UsageMeant) uint64 {
	for _, one := range callMeant {
		if one.meant == meant {
			return one.bit
		}
	}
	return 0
}

func (c *coder) providerWord(p **coordinator.ProviderWord) {
	if !c.writing {
		*p = new(coordinator.ProviderWord)
	}
	w := *p
	integer(c, &w.Status)
	integer(c, &w.RetryAfter)
	member(c, &w.Told, 256)
	c.amounts(&w.Remains)
	integer(c, &w.Latency)
}
