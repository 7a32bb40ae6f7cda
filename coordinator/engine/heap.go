package engine

// heap is a binary heap whose members know their place, so that one can be
// removed from the middle. Both functions must be set; before must be a total
// order, place is told -1 when a member leaves.
type heap[T any] struct {
	items  []T
	before func(a, b T) bool
	place  func(x T, i int)
}

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	h.place(x, len(h.items)-1)
	h.up(len(h.items) - 1)
}

// remove takes out the member at position i.
func (h *heap[T]) remove(i int) T {
	x := h.items[i]
	last := len(h.items) - 1
	h.swap(i, last)
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	h.place(x, -1)
	if i < last {
		h.fix(i)
	}
	return x
}

// fix restores the order after the member at position i has changed.
func (h *heap[T]) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.place(h.items[i], i)
	h.place(h.items[j], j)
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[T]) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return moved
		}
		if right := child + 1; right < len(h.items) && h.before(h.items[right], h.items[child]) {
			child = right
		}
		if !h.before(h.items[child], h.items[i]) {
			return moved
		}
		h.swap(i, child)
		i, moved = child, true
	}
}
