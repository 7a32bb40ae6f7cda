// Package heap answers: which of these goes first?
//
// It is a binary heap whose members know their place, so that one can be removed from the
// middle, or put right after it has changed. (container/heap costs an interface call and an
// allocation for each.)
package heap

// Heap keeps its members such that the first of Items goes before all others. Both
// functions must be set; Before must be a total order, Place is told -1 when a member
// leaves. Items may be read; they are in the order of a binary heap.
type Heap[T any] struct {
	Items  []T
	Before func(a, b T) bool
	Place  func(x T, i int)
}

// Len is how many members there are.
func (h *Heap[T]) Len() int { return len(h.Items) }

// Push adds a member.
func (h *Heap[T]) Push(x T) {
	h.Items = append(h.Items, x)
	h.Place(x, len(h.Items)-1)
	h.up(len(h.Items) - 1)
}

// Remove takes out the member at position i.
func (h *Heap[T]) Remove(i int) T {
	x := h.Items[i]
	last := len(h.Items) - 1
	h.swap(i, last)
	var none T
	h.Items[last] = none
	h.Items = h.Items[:last]
	h.Place(x, -1)
	if i < last {
		h.Fix(i)
	}
	return x
}

// Fix restores the order after the member at position i has changed.
func (h *Heap[T]) Fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *Heap[T]) swap(i, j int) {
	h.Items[i], h.Items[j] = h.Items[j], h.Items[i]
	h.Place(h.Items[i], i)
	h.Place(h.Items[j], j)
}

func (h *Heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.Before(h.Items[i], h.Items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *Heap[T]) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(h.Items) {
			return moved
		}
		if right := child + 1; right < len(h.Items) && h.Before(h.Items[right], h.Items[child]) {
			child = right
		}
		if !h.Before(h.Items[child], h.Items[i]) {
			return moved
		}
		h.swap(i, child)
		i, moved = child, true
	}
}
