package admission

import (
	"fmt"
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Precedence is what is charged before a waiting task by its own group, and how much what waits takes for its
// cost, at most: by that it is known what others may take.
type Precedence struct {
	Cost    int64 // of those of its own group and priority
	Dearest int64 // of all that waits
	before  fairshare.Before
	own     int64 // the dearest of its own group
	perCost [coordinator.NumDimensions]float64
}

// Precedes returns the precedence of a task that takes this, before which nothing goes.
func Precedes(c *fairshare.Charge) *Precedence {
	b := &Precedence{}
	b.Waits(c)
	b.largest(c)
	return b
}

// Waits notes what a task takes that waits.
func (b *Precedence) Waits(c *fairshare.Charge) {
	b.Dearest = max(b.Dearest, c.Expect)
	for d, amount := range c.Amounts {
		b.before.Any[d] = max(b.before.Any[d], amount)
		b.perCost[d] = max(b.perCost[d], float64(amount)/float64(max(1, c.Expect)))
	}
}

// Goes notes that one that takes this goes first, and is charged to the same group; inTurn: it has the same
// priority.
func (b *Precedence) Goes(c *fairshare.Charge, inTurn bool) {
	if inTurn {
		b.Cost += c.Expect
	}
	b.largest(c)
	b.add(&c.Amounts, 1)
}

// InLane notes that as many go first, each of which takes what the largest of the group does.
func (b *Precedence) InLane(n int) {
	b.add(&b.before.Most, int64(n))
	b.Cost = plus(b.Cost, float64(b.own)*float64(n))
}

func (b *Precedence) largest(c *fairshare.Charge) {
	b.own = max(b.own, c.Expect)
	for d, amount := range c.Amounts {
		b.before.Most[d] = max(b.before.Most[d], amount)
	}
}

func (b *Precedence) add(a *coordinator.Amounts, times int64) {
	b.before.Calls += times
	for d, amount := range a {
		b.before.Own[d] = plus(b.before.Own[d], float64(amount)*float64(times))
	}
}

// With adds what others take for this much of cost: as much of everything as the most that anything
// takes for its cost that waits.
func (b *Precedence) With(cost int64) fairshare.Before {
	all := b.before
	for d := range all.All {
		all.All[d] = plus(all.Own[d], math.Ceil(float64(cost)*b.perCost[d]))
	}
	return all
}

// plus adds what may be beyond all numbers.
func plus(a int64, b float64) int64 {
	if sum := float64(a) + b; sum < math.MaxInt64/2 {
		return int64(sum)
	}
	return math.MaxInt64 / 2
}

// Delay returns how long quota keeps a waiting task, with whichever of the agents that take it keeps it shortest: what
// goes before it goes to that one at worst.
func (q *Quotas) Delay(at time.Time, charge fairshare.Charge, before *fairshare.Before, takers []coordinator.AgentID) (
	shortest time.Duration, short *fairshare.Shortage,
) {
	ask := func(agent coordinator.AgentID) (time.Duration, *fairshare.Shortage) {
		charge.Agent = agent
		path := q.Ledger.PathOf(&charge)
		return q.Ledger.Delay(at, &path, &charge, before)
	}
	own := q.owners[charge.Group]
	if len(own) == 0 {
		return ask("")
	}
	owns := make(map[coordinator.AgentID]bool, len(own))
	for _, id := range own {
		owns[id] = true
	}
	shortest = math.MaxInt64
	asked := false
	for _, id := range takers {
		if !owns[id] && asked { // one that has none of its own is as good as another
			continue
		}
		asked = asked || !owns[id]
		switch d, lacks := ask(id); {
		case lacks == nil:
			shortest = min(shortest, d)
		case short == nil:
			short = lacks
		}
	}
	if shortest < math.MaxInt64 || short == nil {
		return shortest, nil
	}
	return 0, short
}

// DescribeShortage returns, for people, why it is not known when there is quota.
func DescribeShortage(s *fairshare.Shortage) string {
	if s.Limit == fairshare.LimitSeats {
		return fmt.Sprintf("nobody can tell when its quota is back: when something ends that has the seats of %s now", s.Node)
	}
	return fmt.Sprintf("of the %s of %s in %s less is its own than it needs, and nobody can tell what others will leave",
		s.Limit, s.Node, s.Dimension)
}
