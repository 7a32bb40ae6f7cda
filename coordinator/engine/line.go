package engine

import (
	"slices"

	"taskbus/coordinator/fairshare"
)

// line is what an agent could serve, class by class, in the order in which it is to go: first by
// the turn of priorities, over everything that the agent could serve, then by the turn of groups.
// Both change with every dispatch, in all classes, so the next one is sought among all of them.
type line struct {
	e      *Engine
	agent  int      // -1: what any agent that is ready could serve
	of     []*class // of an agent: those of which it could serve something
	passed []*class // taken, and not put back
	// Levels that are to be served now, and others at which something waits elsewhere, for quota that may
	// be back; a bit each.
	serve, others uint8
}

// line stands for what waits that the agent could serve. end must follow.
func (e *Engine) line(a *agent) line {
	l := line{e: e, agent: a.Number, of: e.pending.spare[:0], serve: fairshare.AllLevels}
	e.pending.spare = nil // another line may be made while this one is in use
	for _, c := range e.pending.active {
		if c.usable.Has(a.Number) {
			l.of = append(l.of, c)
		}
	}
	return l
}

// candidates stands for what waits for an agent alone and has one that is ready, of the levels that are to
// be served; others wait for quota that may be back. end must follow.
func (e *Engine) candidates(serve, others uint8) line {
	return line{e: e, agent: -1, serve: serve, others: others}
}

// classes are those that the line is of.
func (l *line) classes() []*class {
	if l.agent < 0 {
		return l.e.pending.active
	}
	return l.of
}

// levels are those at which something is in the line.
func (l *line) levels() (levels uint8) {
	for _, c := range l.classes() {
		if l.may(c) {
			levels |= c.waiting.Serving()
		}
	}
	return levels
}

// back puts a class back.
func (l *line) back(c *class) {
	l.passed = slices.DeleteFunc(l.passed, func(x *class) bool { return x == c })
}

// end of it: what is dispatched from here on keeps nothing waiting.
func (l *line) end() {
	if l.e.quotas.serving = 0; l.of != nil {
		clear(l.of)
		l.e.pending.spare = l.of[:0]
	}
}

// take gives the task that goes next, and its class, which is out of the line until it is
// put back; no task: there is none. It takes O(classes of the line).
func (l *line) take() (next *class, t *openTask) {
	levels := l.levels()
	if levels&l.serve == 0 {
		return nil, nil
	}
	next, t = l.first(l.e.pending.shares.Turn(levels & l.serve))
	l.e.quotas.serving = levels | l.others
	l.passed = append(l.passed, next)
	return next, t
}

// first is the task that goes next of a level, and its class; no task: there is none.
func (l *line) first(level int) (next *class, t *openTask) {
	shares, leaf := l.e.pending.shares, 0
	for _, c := range l.classes() {
		if c.waiting.Serving()>>level&1 == 0 || !l.may(c) {
			continue
		}
		h, _ := c.waiting.FirstAt(level)
		if next == nil || h.Leaf != leaf && shares.Before(h.Leaf, leaf) || h.Leaf == leaf && before(h.Item, t) {
			next, t, leaf = c, h.Item, h.Leaf
		}
	}
	return next, t
}

// may reports whether something of the class is in the line.
func (l *line) may(c *class) bool {
	if c.lacks.Whole != nil || c.waiting.Serving() == 0 || len(l.passed) > 0 && slices.Contains(l.passed, c) {
		return false
	}
	return l.agent >= 0 || c.usable.First(l.e.fleet.Ready) >= 0
}
