package pull

import (
	"math"
	"time"

	"taskbus/coordinator"
)

// Claim is what one agent asks for.
type Claim struct {
	Agent coordinator.AgentID
	// MaxItems it wants at most; below 1 it gets nothing.
	MaxItems int
}

// Grant is the answer to a claim.
type Grant struct {
	// Items it may have now, 0 to the claim's MaxItems.
	Items int
	// Limit says why there are fewer than it asked for; LimitNone if there are not.
	Limit Limit
	// FairShare is w: how many items the agent should hold, these included.
	FairShare int
}

// Plan is how the work of one fleet is divided, and what of it has been granted.
//
// A grant moves items from the leader to an agent: their sum, so T* and all parts, stays
// as it is. One plan is therefore good for any number of claims, until an agent finishes
// something, comes or goes, or an item is added; it is then made anew. Not for
// concurrent use.
type Plan struct {
	// Agents that have a part.
	Agents int
	// Capacity is theirs together, in items per second.
	Capacity float64
	// Target is T*.
	Target time.Duration

	pending, unclaimed int
	gain               float64
	literal            bool
	parts              []part
	index              map[coordinator.AgentID]int // into parts
}

// part is what the plan knows of one agent.
type part struct{ pending, free, fair int }

// NewPlan divides the work of f as of now. Agents silent for SilentAfter have no part,
// and what they hold is not counted: the caller that takes it from them adds it to Unclaimed. Of
// agents with the same id the first counts.
func NewPlan(now time.Time, f Fleet, s Settings) *Plan {
	p := &Plan{
		unclaimed: max(f.Unclaimed, 0),
		gain:      Gain(f.Age, s.interval()),
		literal:   s.Literal,
		parts:     make([]part, 0, len(f.Agents)),
		index:     make(map[coordinator.AgentID]int, len(f.Agents)),
	}
	capacities, most := make([]float64, 0, len(f.Agents)), make([]int, 0, len(f.Agents))
	for _, a := range f.Agents {
		if _, twice := p.index[a.ID]; twice || !a.Seen.IsZero() && now.Sub(a.Seen) >= SilentAfter {
			continue
		}
		one := part{pending: max(a.Pending, 0), free: max(a.Free, 0)}
		p.index[a.ID] = len(p.parts)
		p.parts, capacities = append(p.parts, one), append(capacities, measured(a.Capacity))
		most = append(most, one.pending+one.free)
		p.pending += one.pending
		p.Capacity += measured(a.Capacity)
	}
	p.Agents = len(p.parts)
	items := p.pending + p.unclaimed
	p.Target = Target(items, p.Capacity, s.interval()+max(s.RoundTrip, 0))
	// Not min(Σq+U, C·T*): the ceiling of T* would keep slots empty wherever an item takes
	// longer than that, and an agent that has fewer items in hand is measured to be slower still.
	for i, share := range divide(items, capacities, most) {
		p.parts[i].fair = share
	}
	return p
}

// Renew has the plan know how many items wait by now, and what one of its agents holds. The parts
// stay as they were: for as long as few have come or ended since they were made, they are off by
// little. An agent without a part gets none.
func (p *Plan) Renew(a Agent, unclaimed int) {
	p.unclaimed = max(unclaimed, 0)
	i, known := p.index[a.ID]
	if !known {
		return
	}
	one := &p.parts[i]
	p.pending += max(a.Pending, 0) - one.pending
	one.pending, one.free = max(a.Pending, 0), max(a.Free, 0)
}

// Pending is how many items the agents hold, grants of this plan included.
func (p *Plan) Pending() int { return p.pending }

// Unclaimed is how many items are left to grant.
func (p *Plan) Unclaimed() int { return p.unclaimed }

// FairShare is how many items the agent should hold; 0 for one without a part.
func (p *Plan) FairShare(agent coordinator.AgentID) int {
	i, known := p.index[agent]
	if !known {
		return 0
	}
	return p.parts[i].fair
}

// Grant answers a claim, and counts what it grants as held by the agent from now on. An
// agent that claims is alive: the caller must have put it into the fleet before.
func (p *Plan) Grant(c Claim) Grant {
	i, known := p.index[c.Agent]
	if !known {
		return Grant{Limit: LimitUnknownAgent}
	}
	one := &p.parts[i]
	items, limit := max(c.MaxItems, 0), LimitNone
	lower := func(bound int, why Limit) {
		if bound < items {
			items, limit = bound, why
		}
	}
	// In this order: of equal bounds the first is named, and it is the one about which
	// least can be done.
	lower(p.unclaimed, LimitUnclaimed)
	lower(one.free, LimitSlots)
	if !p.literal {
		fair := lack(p.gain, one.fair-one.pending)
		if one.pending == 0 {
			fair = max(fair, 1) // work that waits beside an idle agent is of no use
		}
		lower(fair, LimitFairShare)
	}
	one.pending += items
	one.free -= items
	p.pending += items
	p.unclaimed -= items
	return Grant{Items: items, Limit: limit, FairShare: one.fair}
}

// lack is ⌈g·missing⌉, at least 0: rounded up, or the last item would never be granted.
func lack(gain float64, missing int) int {
	if missing <= 0 {
		return 0
	}
	return int(math.Ceil(gain * float64(missing)))
}
