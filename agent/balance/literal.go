package balance

import (
	"math"
	"time"
)

// Imbalance is BALANCING's step 3: how the agent's load factor differs from the one it
// should have. Of the margins at most one is not 0; they are rounded to hundredths, half
// upwards, as BALANCING's own test needs (5/16 − 16/28 is −0.2589, and it expects
// 1.26 times the base interval), and at most 1, as its example has it.
type Imbalance struct {
	Load, Target        float64
	Underload, Overload float64
}

// OfCapacity is the imbalance of BALANCING's pseudocode, pending/capacity against
// capacity/total: seconds against a part, with its floors of 1.0 for both capacities.
func OfCapacity(pending int, capacity, total float64) Imbalance {
	return imbalance(float64(pending)/max(capacity, 1), capacity/max(total, 1))
}

// OfShare is the imbalance of BALANCING's text, the agent's part of all pending items
// against its part of the capacity. items is all there are, held or not.
func OfShare(pending, items int, capacity, total float64) Imbalance {
	return imbalance(float64(pending)/float64(max(items, 1)), capacity/max(total, 1))
}

func imbalance(load, target float64) Imbalance {
	i := Imbalance{Load: load, Target: target}
	i.Underload, i.Overload = margin(target-load), margin(load-target)
	return i
}

// margin rounds to hundredths. The addend is for the differences that are a half but for
// the last bit.
func margin(difference float64) float64 {
	return min(math.Floor(max(difference, 0)*100+0.5+1e-9)/100, 1)
}

// Literal is BALANCING's AutonomousLoadBalancer: it asks for as many items as it may, and
// adjusts the interval: longer for an agent with less than its part, shorter for one with
// more. Without a picture of the fleet, and with one older than its time to live, it keeps
// to the base interval. It has no jitter.
//
// Not for concurrent use.
type Literal struct {
	limits
	share bool
	view  View
	at    time.Time
}

// NewLiteral makes the controller of one agent; mode literal-share takes the load factor
// of the text, every other that of the pseudocode. It fails as Check does.
func NewLiteral(c Config) (*Literal, error) {
	l, err := c.limits()
	if err != nil {
		return nil, err
	}
	return &Literal{limits: l, share: c.LoadBalancing.Mode == ModeLiteralShare}, nil
}

// Claim is how many items to ask for now: the smaller of the free slots and
// max-claim-items.
func (c *Literal) Claim(_ time.Time, l Local) int { return c.room(l.Free) }

// Granted tells the answer to the latest claim.
func (c *Literal) Granted(now time.Time, _ int, v View) { c.view, c.at = v, now }

// Unanswered tells that the latest claim has had no answer: what is known stays in use
// for its time to live.
func (c *Literal) Unanswered(time.Time) {}

// Imbalance is the agent's, by the picture of the fleet it has; false without one.
func (c *Literal) Imbalance(now time.Time, l Local) (Imbalance, bool) {
	if c.at.IsZero() || now.Sub(c.at) >= c.ttl {
		return Imbalance{}, false
	}
	capacity := l.Capacity
	if l.WarmUp || !(capacity > 0) {
		capacity = DefaultCapacity
	}
	if c.share {
		return OfShare(l.Pending, c.view.Pending+c.view.Unclaimed, capacity, c.view.Capacity), true
	}
	return OfCapacity(l.Pending, capacity, c.view.Capacity), true
}

// Interval is how long to wait for the next claim: 200 ms to 10 s.
func (c *Literal) Interval(now time.Time, l Local) time.Duration {
	if !c.enabled {
		return c.base
	}
	i, seen := c.Imbalance(now, l)
	if !seen {
		return c.base
	}
	return c.adjust(i)
}

// adjust is BALANCING's step 4, in its whole milliseconds. A margin must be above the
// threshold, not at it.
func (l limits) adjust(i Imbalance) time.Duration {
	factor := 1.0
	switch {
	case i.Underload > l.threshold:
		factor += i.Underload
	case i.Overload > l.threshold:
		factor -= i.Overload
	}
	ms := math.Round(float64(l.base.Milliseconds()) * factor)
	return l.bound(time.Duration(ms) * time.Millisecond)
}
