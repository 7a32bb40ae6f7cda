package balance

import (
	"math"
	"time"
)

// Others is the fleet without this agent, from a source other than the answer to a claim: the registry over
// HTTP (see Registry). Numbers that cannot be count as 0.
type Others struct {
	// Agents that are there.
	Agents int
	// Pending is how many items they hold, Unclaimed how many no agent does.
	Pending, Unclaimed int
	// Capacity of all of them in items per second.
	Capacity float64
}

// enough bounds what may be told, so that sums stay what they are.
const enough = 1e9

// View is the fleet with this agent in it. Its fair part is what the leader's plan would
// make it if all of them claimed: W·c/C of all items W, where it has c of the capacity C,
// and no more than 30 s of work. It is rounded down, for a plan knows more.
func (o Others) View(l Local) View {
	c := l.Capacity
	if l.WarmUp || !(c > 0) {
		c = DefaultCapacity // as the leader takes one that tells none
	}
	c = min(c, enough)
	others := 0.0
	if o.Capacity > 0 {
		others = min(o.Capacity, enough)
	}
	v := View{
		Agents:    bounded(o.Agents) + 1,
		Pending:   bounded(o.Pending) + bounded(l.Pending),
		Unclaimed: bounded(o.Unclaimed),
		Capacity:  others + c,
	}
	share := float64(v.Pending+v.Unclaimed) * c / v.Capacity
	v.FairShare = int(math.Floor(min(share, c*busyDrain.Seconds())))
	return v
}

func bounded(n int) int { return min(max(n, 0), enough) }

// Seen tells how the fleet was at that time, learnt otherwise than by an answer. It is a
// picture to go by for as long as any, but no answer: the interval and the window stay,
// half of what is missing is asked for as after every claim without an answer, and
// nothing is given back. One older than what is known already says nothing.
func (e *Equal) Seen(at time.Time, v View) {
	if at.After(e.at) {
		e.view, e.at = v, at
	}
}

// Seen tells how the fleet was at that time, learnt otherwise than by an answer; one
// older than what is known already says nothing.
func (c *Literal) Seen(at time.Time, v View) {
	if at.After(c.at) {
		c.view, c.at = v, at
	}
}
