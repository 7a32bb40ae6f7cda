package fairqueue

import (
	"iter"
	"maps"
	"slices"

	"taskbus/coordinator/heap"
)

// Backlog holds the waiting items of one class: tasks that the same agents can take. The turns of groups
// are kept by Shares, which many backlogs have in common: what a group
// is served of one class counts for its turn in all of them.
//
// The first item is found by going down the tree, from heap to heap. To add or remove one
// costs O(depth · log fanout) where its leaf begins or ceases to wait, and O(log items)
// otherwise; a charge costs that for each backlog and level in which the leaf's groups wait.
// Nothing is allocated but for more than ever waited at one time. For one goroutine.
type Backlog[T any] struct {
	shares *Shares
	before func(a, b T) bool
	place  func(x T, index int)

	tree    int // of Shares: which one the numbers of leaves are of
	roots   [Levels]*flow
	flows   map[flowKey]*flow
	queues  []heap.Heap[T] // the items of leaves
	parked  map[int32]struct{}
	size    int
	serving uint8 // levels in which something could be served

	freeQueues []int32
}

type flowKey struct{ group, level int32 }

// Head is an item that waits, with its leaf and level (0 to Levels-1).
type Head[T any] struct {
	Item        T
	Leaf, Level int
}

// What is kept when it is empty, for the next ones: room for so many items of a leaf, and
// the queues of so many leaves.
const (
	spareItems  = 64
	spareQueues = 64
)

// NewBacklog returns one in which nothing waits. before is a total order of items of
// one leaf and level; place is called with an item's new index there, -1 when it leaves.
func NewBacklog[T any](s *Shares, before func(a, b T) bool, place func(x T, index int)) *Backlog[T] {
	return &Backlog[T]{shares: s, before: before, place: place, tree: s.tree,
		flows: make(map[flowKey]*flow), parked: make(map[int32]struct{})}
}

// current panics where the leaves' numbers are those of a tree that is gone: to go on would
// charge some groups for others.
func (b *Backlog[T]) current() {
	if b.tree != b.shares.tree {
		panic("fairqueue: a backlog was not rebuilt for the tree that was installed")
	}
}

// Push adds an item to a leaf (see [Shares.Leaf]).
func (b *Backlog[T]) Push(leaf, level int, x T) {
	b.current()
	f := b.reach(int32(leaf), int32(level))
	b.queues[f.queue].Push(x)
	f.held++
	b.size++
	if f.held == 1 && !b.Parked(leaf) {
		b.offer(f)
	}
}

// Remove takes out the item with that index, as place was called with.
func (b *Backlog[T]) Remove(leaf, level, index int) T {
	b.current()
	f := b.flows[flowKey{int32(leaf), int32(level)}]
	x := b.queues[f.queue].Remove(index)
	f.held--
	b.size--
	if f.held == 0 {
		if f.index >= 0 {
			b.withhold(f)
		}
		b.drop(f)
	}
	return x
}

// First returns the next item, by [Shares.Turn] among the levels, [Shares.Before] among the leaves that are not
// parked, and then by the order of items. Levels with their bit in skip are passed over. ok is false where
// no item waits.
func (b *Backlog[T]) First(skip uint8) (head Head[T], ok bool) {
	if b.serving&^skip == 0 {
		return head, false
	}
	return b.FirstAt(b.shares.Turn(b.serving &^ skip))
}

// FirstAt returns the next item of a level.
func (b *Backlog[T]) FirstAt(level int) (head Head[T], ok bool) {
	if b.serving>>level&1 == 0 {
		return head, false
	}
	f := b.roots[level]
	for f.queue < 0 {
		f = f.next.Items[0].flow
	}
	return Head[T]{Item: b.queues[f.queue].Items[0], Leaf: int(f.group), Level: level}, true
}

// Serving has the bits of the levels in which something waits that is not parked: what
// Turn and Served ask for.
func (b *Backlog[T]) Serving() uint8 { return b.serving }

// Park keeps a leaf from being First until it is unparked, as one with its quota used up.
// What waits there stays, and what comes may. It holds for this backlog only.
func (b *Backlog[T]) Park(leaf int) {
	b.current()
	b.parked[int32(leaf)] = struct{}{}
	for level := range int32(Levels) {
		if f := b.flows[flowKey{int32(leaf), level}]; f != nil && f.index >= 0 {
			b.withhold(f)
		}
	}
}

// Unpark ends it.
func (b *Backlog[T]) Unpark(leaf int) {
	b.current()
	delete(b.parked, int32(leaf))
	for level := range int32(Levels) {
		if f := b.flows[flowKey{int32(leaf), level}]; f != nil && f.index < 0 {
			b.offer(f)
		}
	}
}

// Parked reports whether the leaf is parked.
func (b *Backlog[T]) Parked(leaf int) bool {
	if len(b.parked) == 0 {
		return false
	}
	_, parked := b.parked[int32(leaf)]
	return parked
}

// AnyParked reports whether any leaf is parked.
func (b *Backlog[T]) AnyParked() bool { return len(b.parked) > 0 }

// Len returns how many items wait, parked ones included.
func (b *Backlog[T]) Len() int { return b.size }

// All is everything that waits: the highest level first, leaves in the order of the tree,
// items in their own. Nothing may be changed meanwhile. It sorts, and allocates.
func (b *Backlog[T]) All() iter.Seq[Head[T]] {
	return func(yield func(Head[T]) bool) {
		keys := slices.SortedFunc(maps.Keys(b.flows), func(x, y flowKey) int {
			if x.level != y.level {
				return int(y.level - x.level)
			}
			return int(x.group - y.group)
		})
		for _, key := range keys {
			f := b.flows[key]
			if f.queue < 0 {
				continue
			}
			items := slices.Clone(b.queues[f.queue].Items)
			slices.SortFunc(items, func(x, y T) int {
				switch {
				case b.before(x, y):
					return -1
				case b.before(y, x):
					return 1
				}
				return 0
			})
			for _, x := range items {
				if !yield(Head[T]{x, int(key.group), int(key.level)}) {
					return
				}
			}
		}
	}
}

// Rebuild takes over the tree that has been installed or imported since: leaf says where
// an item belongs now. No leaf is parked afterwards. It does nothing where the tree is
// the same.
func (b *Backlog[T]) Rebuild(leaf func(x T) int) {
	if b.tree == b.shares.tree {
		return
	}
	all := slices.Collect(b.All())
	fresh := NewBacklog(b.shares, b.before, b.place)
	*b = *fresh
	for _, h := range all {
		b.Push(leaf(h.Item), h.Level, h.Item)
	}
}
