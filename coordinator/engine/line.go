package engine

import (
	"slices"

	"taskbus/coordinator/heap"
)

// line is what an agent could serve, class by class, in the order in which it is to go.
//
// Without quotas the classes are a heap by the rank of the task that is first in each. With
// quotas whose turn it is changes with every dispatch, in all classes: the next one is sought
// among all of them, first by priority, over everything that the agent could serve, then by
// the turn of groups.
type line struct {
	e       *Engine
	agent   int               // -1: what anybody could serve who is ready
	classes heap.Heap[*class] // without quotas
	turns   bool
	passed  []*class // with quotas: taken, and not put back
	// Of anybody's: only these levels of it are to be served now, and also those wait elsewhere, for
	// quota that may be back; a bit each.
	only, also uint8
}

// line stands for what waits that the agent could serve. end must follow.
func (e *Engine) line(a *agent) line {
	l := line{e: e, agent: a.number, turns: e.quotas.ledger.Installed()}
	if !l.turns {
		l.classes = e.pending.servable(a.number)
	}
	return l
}

// anybodys stands for what waits that somebody could serve who is ready. There are quotas.
func (e *Engine) anybodys(only, also uint8) line {
	return line{e: e, agent: -1, turns: true, only: only, also: also}
}

// levels are those at which something is in the line.
func (l *line) levels() (levels uint8) {
	for _, c := range l.e.pending.active {
		if l.may(c) {
			levels |= c.waiting.Serving()
		}
	}
	return levels
}

// take gives the task that goes next, and its class, which is out of the line until it is
// put back; no task: there is none.
func (l *line) take() (*class, *openTask) {
	if l.turns {
		return l.turn()
	}
	for l.classes.Len() > 0 {
		c := l.classes.Remove(0) // the order looks at the first, who is about to leave
		if t := c.first(); t != nil {
			return c, t
		}
	}
	return nil, nil
}

// back puts a class back.
func (l *line) back(c *class) {
	switch {
	case l.turns:
		l.passed = slices.DeleteFunc(l.passed, func(x *class) bool { return x == c })
	case c.first() != nil:
		l.classes.Push(c)
	}
}

// end of it: what is dispatched from here on keeps nobody waiting.
func (l *line) end() { l.e.quotas.serving = 0 }

// turn finds whose turn it is.
func (l *line) turn() (next *class, t *openTask) {
	p, levels := &l.e.pending, l.levels()
	now := levels
	if l.agent < 0 {
		now &= l.only
	}
	if now == 0 {
		return nil, nil
	}
	level, leaf := p.shares.Turn(now), 0
	for _, c := range p.active {
		if !l.may(c) {
			continue
		}
		h, ok := c.waiting.FirstAt(level)
		if ok && (next == nil || h.Leaf != leaf && p.shares.Before(h.Leaf, leaf) || h.Leaf == leaf && before(h.Item, t)) {
			next, t, leaf = c, h.Item, h.Leaf
		}
	}
	l.e.quotas.serving = levels | l.also
	l.passed = append(l.passed, next)
	return next, t
}

// may tells whether the agent could serve what is first in the class.
func (l *line) may(c *class) bool {
	if c.lacks != nil || c.waiting.Serving() == 0 || len(l.passed) > 0 && slices.Contains(l.passed, c) {
		return false
	}
	if l.agent < 0 {
		return c.usable.first(l.e.fleet.ready) >= 0
	}
	return c.usable.has(l.agent)
}
