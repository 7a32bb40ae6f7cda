package engine

// amongLargest tells whether it has two thirds of what the largest has, of its party and among
// the parties. Then it makes room that did before: to go from one to the next for every task would
// take a queue for each where all are about the same size.
func (n *row) amongLargest(s *lines) bool {
	return n != nil && n.place >= 0 && 3*n.tasks.Len() > 2*n.of.rows.Items[0].tasks.Len() && 3*n.of.waiting > 2*s.parties.Items[0].waiting
}

// next is the row that makes room; nil: nobody can.
func (s *lines) next() *row {
	switch {
	case len(s.parties.Items) == 0:
		return nil
	case s.latest.amongLargest(s):
		return s.latest
	}
	return s.parties.Items[0].rows.Items[0]
}

// after counts the tasks of the row that go after what is first in the lane, most at most, from
// its place i in the heap on (0: of all): what does not has nobody below it that does.
func (n *row) after(l *lane, i, most int) int {
	if most <= 0 || i >= n.tasks.Len() || !l.precedes(n.tasks.Items[i]) {
		return 0
	}
	left := 1 + n.after(l, 2*i+1, most-1)
	return left + n.after(l, 2*i+2, most-left)
}

// crowd is the waiting task that makes room for others, and the lane to which it is moved; nil
// when none may be moved now.
func (e *Engine) crowd() (t *openTask, to *lane, k kind) {
	s := &e.lanes.lines
	first := s.next()
	if first == nil {
		return nil, nil, k
	}
	if to, k = e.laneFor(first.tasks.Items[0]); !to.rests(e.now) {
		return first.tasks.Items[0], to, k
	}
	var most *row // of those whose lanes have not just refused one
	for _, p := range s.parties.Items {
		for _, n := range p.rows.Items {
			l, its := e.laneFor(n.tasks.Items[0])
			if !l.rests(e.now) && (most == nil || s.before(n, most)) {
				most, to, k = n, l, its
			}
		}
	}
	if most == nil {
		return nil, nil, k
	}
	return most.tasks.Items[0], to, k
}

// before tells which of two rows makes room first.
func (s *lines) before(a, b *row) bool {
	if a.of != b.of {
		return s.parties.Before(a.of, b.of)
	}
	return a.of.rows.Before(a, b)
}
