package fairqueue

// At returns the item with that index of a leaf and level, as place was called with; false: there is none.
func (b *Backlog[T]) At(leaf, level, index int) (x T, ok bool) {
	f := b.flows[flowKey{int32(leaf), int32(level)}]
	if f == nil || f.queue < 0 || index < 0 || index >= b.queues[f.queue].Len() {
		return x, false
	}
	return b.queues[f.queue].Items[index], true
}

// Visit calls visit for every waiting item, with its index and whether it is in order: not
// before the item above it in its heap. In no particular order, and without allocating: for
// audits, and for sums.
func (b *Backlog[T]) Visit(visit func(h Head[T], index int, ordered bool)) {
	for key, f := range b.flows { // order does not matter: see above
		if f.queue < 0 {
			continue
		}
		items := b.queues[f.queue].Items
		for i, x := range items {
			visit(Head[T]{x, int(key.group), int(key.level)}, i, i == 0 || !b.before(x, items[(i-1)/2]))
		}
	}
}
