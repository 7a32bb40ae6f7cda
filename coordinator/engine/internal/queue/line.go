package queue

import (
	"slices"

	"taskbus/coordinator/agentset"
	"taskbus/coordinator/fairshare/fairqueue"
)

// Line is what an agent could serve, class by class, in the order in which it is to go: first by the turn of
// priorities, over everything that the agent could serve, then by the turn of groups. Both change with every
// dispatch, in all classes, so the next one is sought among all of them. End must follow.
type Line[T comparable, C any] struct {
	q      *Queue[T, C]
	of     []*Class[T, C] // of one agent: the classes of which it could serve something
	single bool           // it is of one agent
	ready  agentset.Set   // else: of these
	passed []*Class[T, C] // taken, and not put back
	// Levels that are to be served now, and others at which something waits elsewhere; a bit each.
	serve, others uint8
}

// LineOf returns what the agent of that number could serve.
func (q *Queue[T, C]) LineOf(agent int) Line[T, C] {
	l := Line[T, C]{q: q, of: q.spare[:0], single: true, serve: fairqueue.AllLevels}
	q.spare = nil // another line may be made while this one is in use
	for _, c := range q.active {
		if c.Usable.Has(agent) {
			l.of = append(l.of, c)
		}
	}
	return l
}

// LineFor returns what any of these agents could serve, of the levels that are to be served; at the others
// something waits for quota that may be back.
func (q *Queue[T, C]) LineFor(ready agentset.Set, serve, others uint8) Line[T, C] {
	return Line[T, C]{q: q, ready: ready, serve: serve, others: others}
}

// classes returns those that the line is of.
func (l *Line[T, C]) classes() []*Class[T, C] {
	if l.single {
		return l.of
	}
	return l.q.active
}

// Levels returns the bits of the levels at which something is in the line.
func (l *Line[T, C]) Levels() (levels uint8) {
	for _, c := range l.classes() {
		if s := c.Waiting.Serving(); s&^levels != 0 && l.may(c) {
			if levels |= s; levels == fairqueue.AllLevels {
				break // of many classes a few are looked at
			}
		}
	}
	return levels
}

// Take returns the task that goes next, and its class, which is out of the line until it is put back; no class:
// there is none. levels are those at which something is in the line, or waits elsewhere. It takes O(classes of the
// line).
func (l *Line[T, C]) Take() (next *Class[T, C], t T, levels uint8) {
	levels = l.Levels()
	if levels&l.serve == 0 {
		return nil, t, levels
	}
	next, t, _ = l.First(l.q.shares.Turn(levels & l.serve))
	l.passed = append(l.passed, next)
	return next, t, levels | l.others
}

// First returns the task that goes next of a level, with its class and leaf; no class: there is none.
func (l *Line[T, C]) First(level int) (next *Class[T, C], t T, leaf int) {
	shares, bit := l.q.shares, uint8(1)<<level
	for _, c := range l.classes() {
		if c.Waiting.Serving()&bit == 0 || !l.may(c) {
			continue
		}
		h, _ := c.Waiting.FirstAt(level)
		if next == nil || h.Leaf != leaf && shares.Before(h.Leaf, leaf) || h.Leaf == leaf && l.q.before(h.Item, t) {
			next, t, leaf = c, h.Item, h.Leaf
		}
	}
	return next, t, leaf
}

// Peek returns the level that has its turn, among those at which something is in the line or waits elsewhere, and the
// leaf of what goes next there; false: nothing in the line is of that level.
func (l *Line[T, C]) Peek() (level, leaf int, ok bool) {
	level = l.q.shares.Turn(l.Levels()&l.serve | l.others)
	c, _, leaf := l.First(level)
	return level, leaf, c != nil
}

// Back puts a class back.
func (l *Line[T, C]) Back(c *Class[T, C]) {
	l.passed = slices.DeleteFunc(l.passed, func(x *Class[T, C]) bool { return x == c })
}

// End lets another line have the room of this one.
func (l *Line[T, C]) End() {
	if l.of != nil {
		clear(l.of)
		l.q.spare = l.of[:0]
	}
}

// may reports whether what is serving of the class is in the line.
func (l *Line[T, C]) may(c *Class[T, C]) bool {
	if c.parked || len(l.passed) > 0 && slices.Contains(l.passed, c) {
		return false
	}
	return l.single || c.Usable.First(l.ready) >= 0
}
