package queue

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// Batches are the tasks that wait for others of their kind, and the dispatches of one moment that may share a
// batch id. Neither half knows of the other: what has gathered need not go to one agent, and tasks that share a
// batch may have waited for slots that became free together. K is what the tasks of one kind have in common.
type Batches[K, T comparable] struct {
	compare   func(a, b T) int
	limits    map[string]coordinator.Batch // of the task types that are batched
	gathering map[K]*gathering[T]
	sharing   map[company[K]][]Shared[T]
	sealed    [][]Shared[T]
}

// gathering is the tasks of one kind that wait for others, and until when at the latest.
type gathering[T any] struct {
	members []T
	closes  time.Time
}

// company is the tasks of one kind that go to one agent.
type company[K comparable] struct {
	kind  K
	agent coordinator.AgentID
}

// Shared is a dispatch of a task that may share a batch.
type Shared[T any] struct {
	Task T
	Made *coordinator.Dispatch
}

// NewBatches returns one in which nothing waits; compare is the order in which tasks go.
func NewBatches[K, T comparable](compare func(a, b T) int) Batches[K, T] {
	return Batches[K, T]{compare: compare, gathering: make(map[K]*gathering[T]),
		sharing: make(map[company[K]][]Shared[T])}
}

// Install takes over which task types are batched.
func (b *Batches[K, T]) Install(routes map[string]coordinator.Route) {
	b.limits = nil
	for taskType, route := range routes { // order does not matter: it is a copy
		if route.Batch.MaxSize < 2 {
			continue
		}
		if b.limits == nil {
			b.limits = make(map[string]coordinator.Batch)
		}
		b.limits[taskType] = route.Batch
	}
}

// Limits returns those of a task type; false: it is not batched.
func (b *Batches[K, T]) Limits(taskType string) (limits coordinator.Batch, batched bool) {
	limits, batched = b.limits[taskType]
	return limits, batched
}

// Gather keeps a task for others of its kind until closes; full: there are as many now as a batch may have.
// false: it has no time for that. The first of a batch opens it for MaxWait, but no longer than it may wait
// itself: with a timeout of 0 nothing waits. A task with a deadline less than twice as far away as the end of the
// wait does not wait.
func (b *Batches[K, T]) Gather(
	now time.Time, kind K, t T, limits coordinator.Batch, mayWait, deadline time.Time,
) (closes time.Time, full, gathers bool) {
	g := b.gathering[kind]
	if g == nil {
		g = &gathering[T]{closes: now.Add(limits.MaxWait)}
		if mayWait.Before(g.closes) {
			g.closes = mayWait
		}
	}
	wait := g.closes.Sub(now)
	if wait <= 0 || !deadline.IsZero() && deadline.Sub(now) < 2*wait {
		return time.Time{}, false, false
	}
	b.gathering[kind] = g
	g.members = append(g.members, t)
	return g.closes, len(g.members) >= limits.MaxSize, true
}

// Gathering returns what has gathered of a kind, and until when it waits.
func (b *Batches[K, T]) Gathering(kind K) (members []T, closes time.Time) {
	if g := b.gathering[kind]; g != nil {
		return g.members, g.closes
	}
	return nil, time.Time{}
}

// Check returns how many tasks gather, and, in no order, those that gather twice, or that do not wait for others of
// that kind by what the kernel knows of them.
func (b *Batches[K, T]) Check(waits func(K, T) bool) (wrong []T, all int) {
	seen := make(map[T]bool)
	for kind, g := range b.gathering {
		for _, t := range g.members {
			if seen[t] || !waits(kind, t) {
				wrong = append(wrong, t)
			}
			seen[t] = true
		}
	}
	return wrong, len(seen)
}

// Close returns what has gathered of a kind, in its order, and has it gather no more.
func (b *Batches[K, T]) Close(kind K) []T {
	members := b.gathering[kind].members
	delete(b.gathering, kind)
	slices.SortFunc(members, b.compare)
	return members
}

// CloseAll does so with all kinds: a batch for each, in the order of the tasks that go first in them.
func (b *Batches[K, T]) CloseAll() [][]T {
	all := make([][]T, 0, len(b.gathering))
	for kind := range b.gathering { // order does not matter: they are sorted
		all = append(all, b.Close(kind))
	}
	slices.SortFunc(all, func(x, y []T) int { return b.compare(x[0], y[0]) })
	return all
}

// Leave takes one task out of those that wait for others; for these nothing changes.
func (b *Batches[K, T]) Leave(kind K, t T) {
	g := b.gathering[kind]
	g.members = slices.DeleteFunc(g.members, func(m T) bool { return m == t })
	if len(g.members) == 0 {
		delete(b.gathering, kind)
	}
}

// Clear ends all gathering.
func (b *Batches[K, T]) Clear() { clear(b.gathering) }

// Share notes a dispatch that may share a batch of so many at most with others of its moment.
func (b *Batches[K, T]) Share(kind K, d Shared[T], most int) {
	c := company[K]{kind, d.Made.Agent}
	others := b.sharing[c]
	if len(others) == most {
		b.seal(others)
		others = nil
	}
	b.sharing[c] = append(others, d)
}

// Sharing reports whether there are dispatches that are not sealed yet.
func (b *Batches[K, T]) Sharing() bool { return len(b.sharing) > 0 }

// Seal ends a moment: what is dispatched from here on is in other batches. It returns the dispatches that have
// a BatchID by now, by batches, in the order of the tasks that go first in them; they are good until the next Share.
func (b *Batches[K, T]) Seal() [][]Shared[T] {
	if len(b.sharing) == 0 {
		return nil
	}
	for _, list := range b.sharing { // order does not matter: they are sorted
		b.seal(list)
	}
	clear(b.sharing)
	sealed := b.sealed
	b.sealed = sealed[:0]
	slices.SortFunc(sealed, func(x, y []Shared[T]) int { return b.compare(x[0].Task, y[0].Task) })
	return sealed
}

// seal puts dispatches into one batch, which is named after the first of them. A task shares a batch once in its
// life and a dispatch id names one dispatch, so a batch id names one batch.
func (b *Batches[K, T]) seal(list []Shared[T]) {
	if len(list) < 2 {
		return
	}
	for _, d := range list {
		d.Made.BatchID, d.Made.BatchSize = list[0].Made.DispatchID, len(list)
	}
	b.sealed = append(b.sealed, list)
}
