package engine

import (
	"fmt"
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// byQuota works out for how long quota may keep the task, beside the turns: all that goes before it
// must have its own first.
func (e *Engine) byQuota(now time.Time, t *openTask, its *precedence, p *Place) {
	before := its.with(max(0, p.Likely-its.cost))
	var short *fairshare.Shortage
	p.QuotaDelay, short = e.quotaDelay(now, t, &before)
	if short != nil {
		p.Unbounded, p.Bound, p.Likely, p.QuotaDelay = describeShortage(short), 0, 0, 0
		return
	}
	before.Kept = true
	p.QuotaLikely, _ = e.quotaDelay(now, t, &before)
}

// quotaDelay is how long quota keeps it with whichever of its agents it keeps it shortest: what goes
// before it goes to that one at worst.
func (e *Engine) quotaDelay(now time.Time, t *openTask, before *fairshare.Before) (shortest time.Duration,
	short *fairshare.Shortage) {
	charge := e.demandOf(t)
	ask := func(agent coordinator.AgentID) (time.Duration, *fairshare.Shortage) {
		charge.Agent = agent
		path := e.quotas.ledger.PathOf(&charge)
		return e.quotas.ledger.Delay(e.quotaTime(now), &path, &charge, before)
	}
	own := e.quotas.byAgent[charge.Group]
	if len(own) == 0 {
		return ask("")
	}
	owns := make(map[coordinator.AgentID]bool, len(own))
	for _, id := range own {
		owns[id] = true
	}
	shortest = math.MaxInt64
	strangers := false
	for i, a := range e.fleet.Agents {
		stranger := !owns[a.Spec.ID]
		if !e.takesWork(t, i) || stranger && strangers { // one of these is as good as another
			continue
		}
		strangers = strangers || stranger
		switch d, lacks := ask(a.Spec.ID); {
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

// demandOf is what a waiting task will probably take. Unlike quotaDemand it leaves the task as it is.
func (e *Engine) demandOf(t *openTask) fairshare.Charge {
	if t.quota != nil {
		return t.quota.charge
	}
	c, _ := e.demandAt(t, coordinator.Service{})
	return c
}

// precedence is what is charged before a task by its own group, and how much what waits takes for its
// cost, at most: by that it is known what others may take.
type precedence struct {
	fairshare.Before
	cost    int64 // of those of its own group and priority
	dearest int64 // of all that waits
	perCost [coordinator.NumDimensions]float64
}

// chargedBefore adds up what its group's tasks ahead of it take: those of its priority before it, all of
// other priorities, which go first or by the share of the low ones, and as many as its lane holds, each
// of which takes what the largest of these does.
func (e *Engine) chargedBefore(t *openTask, inLane int) *precedence {
	b := &precedence{}
	note := func(c *fairshare.Charge) {
		b.dearest = max(b.dearest, c.Expect)
		for d, amount := range c.Amounts {
			b.Any[d] = max(b.Any[d], amount)
			b.perCost[d] = max(b.perCost[d], float64(amount)/float64(max(1, c.Expect)))
		}
	}
	dearest := int64(0) // of its own
	largest := func(c *fairshare.Charge) {
		dearest = max(dearest, c.Expect)
		for d, amount := range c.Amounts {
			b.Most[d] = max(b.Most[d], amount)
		}
	}
	add := func(a *coordinator.Amounts, times int64) {
		b.Calls += times
		for d, amount := range a {
			b.Own[d] = plus(b.Own[d], float64(amount)*float64(times))
		}
	}
	its, agents := e.demandOf(t), len(e.quotas.byAgent[t.task.Group]) > 0
	note(&its)
	largest(&its)
	for _, c := range e.pending.Active() {
		c.Waiting.Each(func(leaf, level int, x *openTask) {
			charge := e.demandOf(x)
			note(&charge)
			switch {
			case leaf != t.leaf:
				if !agents || x.task.Group != "" { // else it may be charged to its agent's group
					return
				}
			case x == t || level == t.level && !before(x, t):
				return
			case level == t.level:
				b.cost += charge.Expect
			}
			largest(&charge)
			add(&charge.Amounts, 1)
		})
	}
	add(&b.Most, int64(inLane))
	b.cost = plus(b.cost, float64(dearest)*float64(inLane))
	return b
}

// with adds what others take for this much of cost: as much of everything as the most that anything
// takes for its cost that waits.
func (b *precedence) with(cost int64) fairshare.Before {
	all := b.Before
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

// describeShortage says for people why nobody can tell when there is quota.
func describeShortage(s *fairshare.Shortage) string {
	if s.Limit == fairshare.LimitSeats {
		return fmt.Sprintf("nobody can tell when its quota is back: when something ends that has the seats of %s now", s.Node)
	}
	return fmt.Sprintf("of the %s of %s in %s less is its own than it needs, and nobody can tell what others will leave",
		s.Limit, s.Node, s.Dimension)
}
