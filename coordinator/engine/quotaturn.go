package engine

import (
	"cmp"
	"slices"

	"taskbus/coordinator/fairshare"
)

// rank puts those that are to try a budget in order for a round: by credits, then by turn.
func (p *waitPart) rank(s *fairshare.Shares) {
	p.ranked = [fairshare.Levels][]*quotaWait{}
	for h := range p.leaves.All() {
		p.ranked[h.Level] = append(p.ranked[h.Level], h.Item)
	}
	for _, list := range p.ranked {
		slices.SortFunc(list, func(a, b *quotaWait) int {
			switch by := a.borrower.Compare(b.borrower); {
			case by != 0:
				return by
			case s.Before(a.leaf, b.leaf):
				return -1
			case s.Before(b.leaf, a.leaf):
				return 1
			}
			return cmp.Compare(a.seq, b.seq)
		})
	}
}

// next is who is first of the ranked ones at a level that has not tried; nil: nobody.
func (p *waitPart) next(level int) *quotaWait {
	list := p.ranked[level]
	for len(list) > 0 && (list[0].tried || list[0].part != p) {
		list = list[1:]
	}
	p.ranked[level] = list
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// one is any of those that are to try; nil: there is none.
func (p *waitPart) one() *quotaWait {
	for level := range fairshare.Levels {
		if h, ok := p.leaves.FirstAt(level); ok {
			return h.Item
		}
	}
	return nil
}

// serving has the bits of the levels at which somebody has not tried yet.
func (p *waitPart) serving() uint8 {
	levels := p.leaves.Serving()
	if p.whole != nil && !p.whole.tried {
		levels |= p.class.waiting.Serving()
	}
	return levels
}

// over tells whether all have tried. A class of which every group waits for something else has
// nobody to try for it now, and is still to.
func (p *waitPart) over() bool {
	return p.leaves.Serving() == 0 && (p.whole == nil || p.whole.tried)
}

// candidate is who is first of some who wait.
type candidate struct {
	wait        *quotaWait
	level, leaf int
}

// first is who is first of a part at a level.
func (p *waitPart) first(s *fairshare.Shares, level int) (c candidate) {
	if h, ok := p.leaves.FirstAt(level); ok {
		c = candidate{h.Item, level, h.Leaf}
		if w := p.next(level); w != nil {
			c = candidate{w, level, w.leaf}
		}
	}
	if p.whole != nil && !p.whole.tried {
		if h, ok := p.class.waiting.FirstAt(level); ok && (c.wait == nil || s.Before(h.Leaf, c.leaf)) {
			c = candidate{p.whole, level, h.Leaf}
		}
	}
	return c
}

// served tells whether somebody is there who could take tasks of the class.
func (e *Engine) served(c *class) bool {
	return c.usable.first(e.fleet.ready) >= 0 || e.claims.waiting.Len() > 0 && c.usable.first(e.claims.pullers) >= 0
}

// toTry are the levels at which somebody may try for whom there may be quota. Queues in which all
// have tried are closed; one whose tasks have no agent now stays open.
func (e *Engine) toTry() (levels uint8) {
	q := &e.quotas.waits
	for i := 0; i < len(q.opened); {
		k := q.opened[i]
		e.retrieve(k)
		its, over := e.levelsOf(k)
		if over && e.retrieveOne(k) {
			continue
		}
		if over || its == 0 && k.again { // who cannot try now does not keep the others from it
			again := k.again
			if q.close(k); again {
				q.open(k) // behind the others
			}
			continue
		}
		i++
		levels |= its
	}
	return levels
}

// nextToTry is whose turn it is at a level of all who may try; no wait: nobody's.
func (e *Engine) nextToTry(level int) (best candidate) {
	for _, k := range e.quotas.waits.opened {
		if c := e.firstOf(k, level); c.wait != nil && (best.wait == nil || e.earlier(c, best)) {
			best = c
		}
	}
	return best
}

// earlier tells whether one goes before another of its level.
func (e *Engine) earlier(a, b candidate) bool { return e.quotas.shares.Before(a.leaf, b.leaf) }

// ranksBefore tells whether one goes before another that waits for the same, at one level.
func (e *Engine) ranksBefore(a, b candidate) bool {
	if by := a.wait.borrower.Compare(b.wait.borrower); by != 0 && a.wait.leaf >= 0 && b.wait.leaf >= 0 {
		return by < 0
	}
	return e.earlier(a, b)
}

// levelsOf are those at which somebody is first in a queue: of those that go first among borrowers,
// and have an agent. over: everybody has tried.
func (e *Engine) levelsOf(k *waitQueue) (levels uint8, over bool) {
	over = true
	for _, p := range k.parts {
		its := p.serving()
		over = over && p.over()
		switch {
		case its == 0 || levels != 0 && p.priority < k.priority || !e.served(p.class):
		case levels == 0 || p.priority > k.priority:
			levels, k.priority = its, p.priority
		default:
			levels |= its
		}
	}
	return levels, over
}

// firstOf is who is first of a queue at a level: the one whose turn it is.
func (e *Engine) firstOf(k *waitQueue, level int) (c candidate) {
	for _, p := range k.parts {
		if p.priority != k.priority || !e.served(p.class) {
			continue
		}
		x := p.first(e.quotas.shares, level)
		if x.wait == nil {
			continue
		}
		if c.wait == nil || e.ranksBefore(x, c) {
			c = x
		}
	}
	return c
}
