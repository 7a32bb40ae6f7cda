package fairqueue

// Leaves visits every leaf and level at which something waits: how much, and whether the
// leaf is parked. In no particular order; it costs O(leaves that wait), not O(items).
func (b *Backlog[T]) Leaves(visit func(leaf, level, waiting int, parked bool)) {
	for key, f := range b.flows { // order does not matter: see above
		if f.queue >= 0 {
			visit(int(key.group), int(key.level), int(f.held), b.Parked(int(key.group)))
		}
	}
}

// Preceding counts the items of a leaf and level that go before x, which need not be of this
// backlog; most at most, and then there may be more. It looks at no more than twice as many and one: an
// item that does not go before x has none below it in the heap that does.
func (b *Backlog[T]) Preceding(leaf, level int, x T, most int) (n int) {
	f := b.flows[flowKey{int32(leaf), int32(level)}]
	if f == nil || f.queue < 0 {
		return 0
	}
	items := b.queues[f.queue].Items
	for open := []int{0}; len(open) > 0 && n < most; {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if i < len(items) && b.before(items[i], x) {
			n++
			open = append(open, 2*i+1, 2*i+2)
		}
	}
	return n
}

// Each visits every waiting item, with its leaf and level, in no particular order.
func (b *Backlog[T]) Each(visit func(leaf, level int, x T)) {
	for key, f := range b.flows { // order does not matter: see above
		if f.queue < 0 {
			continue
		}
		for _, x := range b.queues[f.queue].Items {
			visit(int(key.group), int(key.level), x)
		}
	}
}
