package fairqueue

import "taskbus/coordinator/heap"

// flow is what waits of one group in one Backlog at one level. The flows of a group's
// children are in its heap, those that can be served: not parked, nor all of it parked.
type flow struct {
	group  int32
	level  int32
	index  int32 // in the parent's heap; -1: it cannot be served
	place  int32 // in the group's flows
	held   int32 // items of a leaf, or flows of children, whether they can be served or not
	queue  int32 // of a leaf: where its items are in the Backlog; else -1
	parent *flow
	next   heap.Heap[due]
}

// due is a flow in its parent's heap, with the tag of its group.
type due struct {
	tag  int64
	flow *flow
}

func earlierDue(a, b due) bool {
	if a.tag != b.tag {
		return a.tag < b.tag
	}
	return a.flow.group < b.flow.group
}

func placeDue(d due, i int) { d.flow.index = int32(i) }

// newFlow is one in which nothing waits yet.
func (s *Shares) newFlow(group, level int32) *flow {
	var f *flow
	if last := len(s.spares) - 1; last >= 0 {
		f, s.spares = s.spares[last], s.spares[:last]
	} else {
		f = &flow{next: heap.Heap[due]{Before: earlierDue, Place: placeDue}}
	}
	f.group, f.level, f.index, f.held, f.queue, f.parent = group, level, -1, 0, -1, nil
	return f
}

// spare keeps a flow that has been left for the next one.
func (s *Shares) spare(f *flow) {
	f.parent = nil
	s.spares = append(s.spares, f)
}

// join says that the flow's group has something waiting there.
func (s *Shares) join(f *flow) {
	g := &s.groups[f.group]
	if g.parent >= 0 && !g.waits() {
		s.wake(g)
		if now := *s.time(g); g.tag < now {
			g.lift(now)
			s.noteMoved(f.group)
		}
	}
	g.resumes = false
	f.place = int32(len(g.flows))
	g.flows = append(g.flows, f)
}

// leave says that it has not any more.
func (s *Shares) leave(f *flow) {
	g := &s.groups[f.group]
	last := g.flows[len(g.flows)-1]
	g.flows[f.place], last.place = last, f.place
	g.flows[len(g.flows)-1] = nil
	g.flows = g.flows[:len(g.flows)-1]
}
