package fairshare

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/health"
	"taskbus/coordinator/fairshare/rates"
)

// Hear takes over what a provider has said in answer to a call that was charged so and began at
// begun. It gives the record of what that has changed; nil: nothing. by is the agent that reported it itself;
// empty: a gateway did.
func (l *Ledger) Hear(now, begun time.Time, c *Charge, w *coordinator.ProviderWord,
	by coordinator.AgentID) *coordinator.PoolHeard {
	l.advance(now.UnixNano())
	n, ok := l.PoolAt(c)
	if !ok {
		return nil
	}
	nd := &l.nodes[n]
	before, taken := nd.health, coordinator.Amounts{}
	nd.health.Answer(l.now, begun.UnixNano(), w, by)
	if nd.health.MayTake(l.now, by) {
		for d, s := range nd.rates {
			if s != nil && w.Told&(1<<d) != 0 {
				taken[d] = s.Excess(l.now, w.Remains[d])
			}
		}
	}
	if taken != (coordinator.Amounts{}) {
		nd.health.Took(l.now, by)
	} else if nd.health == before {
		return nil
	}
	r := nd.health.Heard(nd.spec.ID, l.now)
	r.Taken = taken
	l.takeHeard(n, r)
	return r
}

// takeHeard sets a node to what a record says of it.
func (l *Ledger) takeHeard(n int32, r *coordinator.PoolHeard) {
	nd := &l.nodes[n]
	nd.health.Fold(l.now, r)
	nd.scale(l.now)
	for d, s := range nd.rates {
		if s != nil && r.Taken[d] > 0 {
			s.Assured.Correct(l.now, 0, r.Taken[d], s.Burst) // no more than it had, but under other quotas
		}
	}
	l.ail(n)
}

// ail notes that a node's part of its rates rises again with time.
func (l *Ledger) ail(n int32) {
	if l.nodes[n].health.Rises() != 0 && !slices.Contains(l.ailing, n) {
		l.ailing = append(l.ailing, n)
		l.nextRise()
	}
}

// resumeHealth gives nodes that are listed again what was heard of them.
func (l *Ledger) resumeHealth() {
	l.unlisted.Resume(l.now, func(id string, s health.State) bool {
		n, listed := l.byID[id]
		if listed {
			l.nodes[n].health = s
			l.nodes[n].scale(l.now)
			l.ail(n)
		}
		return listed
	})
}

// scale has a node's rates flow at its part. Their bursts stay: what no burst holds would never
// pass.
func (nd *node) scale(now int64) {
	for _, s := range nd.rates {
		if s != nil && s.Amount > 0 {
			s.Assured.Resize(now, max(1, arith.MulDiv(s.Amount, nd.health.Share(), health.Whole)), s.Per, s.Burst)
		}
	}
}

// rise gives back to those that were cut what they get with time, each at its moment, whenever
// it is asked for.
func (l *Ledger) rise() {
	for l.rising <= l.now {
		at := l.rising
		l.ailing = slices.DeleteFunc(l.ailing, func(n int32) bool {
			nd := &l.nodes[n]
			if nd.health.Rises() <= at {
				nd.health.Rise(at)
				nd.scale(at)
				l.freeNode(n)
			}
			return nd.health.Rises() == 0
		})
		l.nextRise()
	}
}

// nextRise notes when the next one gets more.
func (l *Ledger) nextRise() {
	l.rising = rates.Forever
	for _, n := range l.ailing {
		l.rising = min(l.rising, l.nodes[n].health.Rises())
	}
}

// Observe counts how a call went that was charged so. by is the agent that reported it itself; empty: a
// gateway did.
func (l *Ledger) Observe(c *Charge, failed bool, latency time.Duration, by coordinator.AgentID) {
	if n, ok := l.PoolAt(c); ok {
		l.nodes[n].health.Observe(failed, latency, by)
	}
}

// HealthOf returns the health of what something is charged to.
func (l *Ledger) HealthOf(c *Charge) health.View {
	if n, ok := l.PoolAt(c); ok {
		return l.nodes[n].health.View(l.now)
	}
	return health.View{PerMille: health.Whole}
}
