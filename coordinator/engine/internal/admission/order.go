package admission

import (
	"cmp"
	"slices"

	"taskbus/coordinator/fairshare/fairqueue"
)

// rank puts those that are to try a budget in order for a round: by credits, then by turn.
func (p *part) rank(s *fairqueue.Shares) {
	p.ranked = [fairqueue.Levels][]*Wait{}
	for h := range p.leaves.All() {
		p.ranked[h.Level] = append(p.ranked[h.Level], h.Item)
	}
	for _, list := range p.ranked {
		slices.SortFunc(list, func(a, b *Wait) int {
			switch by := a.borrower.Compare(b.borrower); {
			case by != 0:
				return by
			case s.Before(a.Leaf, b.Leaf):
				return -1
			case s.Before(b.Leaf, a.Leaf):
				return 1
			}
			return cmp.Compare(a.seq, b.seq)
		})
	}
}

// next returns the first of the ranked ones at a level that has not tried; nil: there is none.
func (p *part) next(level int) *Wait {
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

// one returns one of those that are to try; nil: there is none.
func (p *part) one() *Wait {
	for level := range fairqueue.Levels {
		if h, ok := p.leaves.FirstAt(level); ok {
			return h.Item
		}
	}
	return nil
}

// serving returns the bits of the levels at which something has not tried yet.
func (p *part) serving() uint8 {
	levels := p.leaves.Serving()
	if p.whole != nil && !p.whole.tried {
		levels |= p.class.Serving()
	}
	return levels
}

// over reports whether all have tried. A class of which each tenant queue waits for something else has
// nothing that could try for it now, and is still to.
func (p *part) over() bool {
	return p.leaves.Serving() == 0 && (p.whole == nil || p.whole.tried)
}

// candidate is the first of some waits: the leaf is that of the task that would be served.
type candidate struct {
	wait        *Wait
	level, leaf int
}

// first returns the first of a part at a level.
func (p *part) first(s *fairqueue.Shares, level int) (c candidate) {
	if h, ok := p.leaves.FirstAt(level); ok {
		c = candidate{h.Item, level, h.Leaf}
		if w := p.next(level); w != nil {
			c = candidate{w, level, w.Leaf}
		}
	}
	if p.whole != nil && !p.whole.tried {
		if leaf, ok := p.class.FirstLeaf(level); ok && (c.wait == nil || s.Before(leaf, c.leaf)) {
			c = candidate{p.whole, level, leaf}
		}
	}
	return c
}

// trying has the bits of the levels at which a wait may try for which there may be quota. Queues in which all
// have tried are closed; one with tasks that have no agent now stays open.
func (q *Waits) trying(v View) (levels uint8) {
	for i := 0; i < len(q.open); {
		k := q.open[i]
		q.resumeFirst(v, k)
		its, over := q.levels(v, k)
		if over && q.resumeOne(k) {
			continue
		}
		if over || its == 0 && k.again { // what cannot try now does not keep the others from it
			again := k.again
			if q.closeQueue(k); again {
				q.openQueue(k) // behind the others
			}
			continue
		}
		i++
		levels |= its
	}
	return levels
}

// next returns the first at a level of all that may try; no wait: there is none.
func (q *Waits) next(v View, level int) (best candidate) {
	for _, k := range q.open {
		if c := q.firstOf(v, k, level); c.wait != nil && (best.wait == nil || q.shares.Before(c.leaf, best.leaf)) {
			best = c
		}
	}
	return best
}

// ranksBefore reports whether one goes before another that waits for the same, at one level.
func (q *Waits) ranksBefore(a, b candidate) bool {
	if by := a.wait.borrower.Compare(b.wait.borrower); by != 0 && a.wait.Leaf >= 0 && b.wait.Leaf >= 0 {
		return by < 0
	}
	return q.shares.Before(a.leaf, b.leaf)
}

// levels returns those at which a wait of the queue is first: of those that go first among borrowers, and have
// an agent. over: all have tried.
func (q *Waits) levels(v View, k *queue) (levels uint8, over bool) {
	over = true
	for _, p := range k.parts {
		its := p.serving()
		over = over && p.over()
		switch {
		case its == 0 || levels != 0 && p.priority < k.priority || !q.servable(v, p.class, p.state):
		case levels == 0 || p.priority > k.priority:
			levels, k.priority = its, p.priority
		default:
			levels |= its
		}
	}
	return levels, over
}

// firstOf returns the first of a queue at a level: the one that has its turn.
func (q *Waits) firstOf(v View, k *queue, level int) (c candidate) {
	for _, p := range k.parts {
		if p.priority != k.priority || !q.servable(v, p.class, p.state) {
			continue
		}
		x := p.first(q.shares, level)
		if x.wait == nil {
			continue
		}
		if c.wait == nil || q.ranksBefore(x, c) {
			c = x
		}
	}
	return c
}
