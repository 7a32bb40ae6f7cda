package fairqueue

import "taskbus/coordinator/heap"

// reach finds or makes the flow of a group, and of those above it.
func (b *Backlog[T]) reach(group, level int32) *flow {
	key := flowKey{group, level}
	if f := b.flows[key]; f != nil {
		return f
	}
	g := &b.shares.groups[group]
	f := b.shares.newFlow(group, level)
	if g.parent < 0 {
		b.roots[level] = f
	} else {
		f.parent = b.reach(g.parent, level)
		f.parent.held++
	}
	if g.first == g.end {
		f.queue = b.newQueue()
	}
	b.flows[key] = f
	b.shares.join(f)
	return f
}

// drop a flow in which nothing is left, and those above of which that is then true.
func (b *Backlog[T]) drop(f *flow) {
	for f != nil && f.held == 0 {
		b.shares.leave(f)
		delete(b.flows, flowKey{f.group, f.level})
		if f.queue >= 0 {
			b.freeQueues = append(b.freeQueues, f.queue)
			if q := &b.queues[f.queue]; cap(q.Items) > spareItems {
				q.Items = nil
			}
		}
		parent := f.parent
		if parent == nil {
			b.roots[f.level] = nil
		} else {
			parent.held--
		}
		b.shares.spare(f)
		f = parent
	}
	if b.size == 0 && len(b.queues) > spareQueues {
		b.queues, b.freeQueues, b.flows = nil, nil, make(map[flowKey]*flow)
	}
}

// offer what the flow has to those above it, in which there may have been nothing to serve.
func (b *Backlog[T]) offer(f *flow) {
	for ; f.parent != nil; f = f.parent {
		f.parent.next.Push(due{b.shares.groups[f.group].tag, f})
		if f.parent.next.Len() > 1 {
			return
		}
	}
	b.serving |= 1 << f.level
}

// withhold it from them.
func (b *Backlog[T]) withhold(f *flow) {
	for ; f.parent != nil; f = f.parent {
		f.parent.next.Remove(int(f.index))
		if f.parent.next.Len() > 0 {
			return
		}
	}
	b.serving &^= 1 << f.level
}

func (b *Backlog[T]) newQueue() int32 {
	if last := len(b.freeQueues) - 1; last >= 0 {
		queue := b.freeQueues[last]
		b.freeQueues = b.freeQueues[:last]
		return queue
	}
	b.queues = append(b.queues, heap.Heap[T]{Before: b.before, Place: b.place})
	return int32(len(b.queues) - 1)
}
