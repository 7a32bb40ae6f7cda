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
	return c.usable.first(e.fleet.ready) >= 0 || len(e.claims.waiting) > 0 && c.usable.first(e.claims.pullers) >= 0
}

// nextToTry is whose turn it is of all for whom there may be quota; no wait: nobody's. Queues in
// which all have tried are closed; one whose tasks have no agent now stays open.
func (e *Engine) nextToTry() (best candidate) {
	q := &e.quotas.waits
	for i := 0; i < len(q.opened); {
		k := q.opened[i]
		c, over := e.firstOf(k)
		if over || c.wait == nil && k.again { // who cannot try now does not keep the others from it
			again := k.again
			if q.close(k); again {
				q.open(k) // behind the others
			}
			continue
		}
		i++
		if c.wait != nil && (best.wait == nil || e.earlier(c, best)) {
			best = c
		}
	}
	return best
}

func (e *Engine) earlier(a, b candidate) bool {
	s := e.quotas.shares
	if a.level != b.level {
		return s.Turn(1<<a.level|1<<b.level) == a.level
	}
	return s.Before(a.leaf, b.leaf)
}

// ranksBefore tells whether one goes before another that waits for the same, at one level.
func (e *Engine) ranksBefore(a, b candidate) bool {
	if by := a.wait.borrower.Compare(b.wait.borrower); by != 0 && a.wait.leaf >= 0 && b.wait.leaf >= 0 {
		return by < 0
	}
	return e.earlier(a, b)
}

// firstOf is who is first in a queue: of those who come first among borrowers the one whose
// turn it is. over: everybody has tried.
func (e *Engine) firstOf(k *waitQueue) (c candidate, over bool) {
	levels, priority := uint8(0), 0
	over = true
	for _, p := range k.parts {
		its := p.serving()
		over = over && p.over()
		switch {
		case its == 0 || levels != 0 && p.priority < priority || !e.served(p.class):
		case levels == 0 || p.priority > priority:
			levels, priority = its, p.priority
		default:
			levels |= its
		}
	}
	if levels == 0 {
		return c, over
	}
	level := e.quotas.shares.Turn(levels)
	for _, p := range k.parts {
		if p.priority != priority || !e.served(p.class) {
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
	return c, false
}
