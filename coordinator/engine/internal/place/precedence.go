package place

import (
	"math"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// precedence is what is charged before a waiting task by its own group: the tasks of its priority before it, all of
// other priorities, which go first or by the share of the low ones, and as many as its lane holds; and how much what
// waits takes for its cost, at most: by that it is known what others may take.
type precedence struct {
	cost    int64 // of those of its own group and priority
	dearest int64 // of all that waits
	before  fairshare.Before
	own     int64 // the dearest of its own group
	perCost [coordinator.NumDimensions]float64
}

// waits notes what a task takes that waits.
func (b *precedence) waits(c *fairshare.Charge) {
	b.dearest = max(b.dearest, c.Expect)
	for d, amount := range c.Amounts {
		b.before.Any[d] = max(b.before.Any[d], amount)
		b.perCost[d] = max(b.perCost[d], float64(amount)/float64(max(1, c.Expect)))
	}
}

// goes notes that one that takes this goes first, and is charged to the same group; InTurn: it has the same
// priority.
func (b *precedence) goes(c *fairshare.Charge, inTurn bool) {
	if inTurn {
		b.cost += c.Expect
	}
	b.largest(c)
	b.add(&c.Amounts, 1)
}

// inLane notes that as many go first, each of which takes what the largest of the group does.
func (b *precedence) inLane(n int) {
	b.add(&b.before.Most, int64(n))
	b.cost = plus(b.cost, float64(b.own)*float64(n))
}

func (b *precedence) largest(c *fairshare.Charge) {
	b.own = max(b.own, c.Expect)
	for d, amount := range c.Amounts {
		b.before.Most[d] = max(b.before.Most[d], amount)
	}
}

func (b *precedence) add(a *coordinator.Amounts, times int64) {
	b.before.Calls += times
	for d, amount := range a {
		b.before.Own[d] = plus(b.before.Own[d], float64(amount)*float64(times))
	}
}

// with adds what others take for this much of cost: as much of everything as the most that anything
// takes for its cost that waits.
func (b *precedence) with(cost int64) fairshare.Before {
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
