package queue

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/fairshare/fairqueue"
)

// Queue is every task that waits for an agent, or for quota, by its class.
//
// Of those that an agent could have, the priority goes first that has its turn by weight, then the group that
// has its turn (both are fairqueue.Shares; without quotas all tasks are one group's), then the task that goes
// first by the order that New is given.
type Queue[T comparable, C any] struct {
	classes map[string]*Class[T, C]
	active  []*Class[T, C] // classes in which some wait
	shares  *fairqueue.Shares
	before  func(a, b T) bool
	place   func(t T, index int)
	spare   []*Class[T, C] // room for the classes of a line
	reach   []C            // room for those that an agent could have tasks of
	// inUse is how many classes in which no task waits were in use all the same when those that are not were
	// last forgotten.
	inUse int
}

// Class is all waiting tasks that the same agents could take. Whether one of these is ready is one question for
// the whole class, so waking costs by classes, not by tasks. The kernel has a record of its own of each, which
// embeds the Class.
type Class[T comparable, C any] struct {
	Key string
	Of  C // the kernel's record
	// Usable are the agents that may have its tasks when they are ready. The kernel keeps it up to date.
	Usable agentset.Set
	// Waiting are its tasks. Only Queue adds and removes them, and only Park and Unpark park them.
	Waiting *fairqueue.Backlog[T]

	active int  // place among the active, -1 when none waits
	parked bool // as a whole
}

// MaxIdle bounds the cached classes that are of no use now.
const MaxIdle = 1024

// New returns one in which nothing waits. before is a total order of the tasks of one group and priority, which
// must not change while they wait; place is called with a task's new place among these, -1 when it leaves.
func New[C any, T comparable](s *fairqueue.Shares, before func(a, b T) bool, place func(t T, index int)) Queue[T, C] {
	return Queue[T, C]{classes: make(map[string]*Class[T, C]), shares: s, before: before, place: place}
}

// patience is by when a task without a deadline is taken to be due after it was accepted. A deadline that is later
// counts as none, too: so no task goes before one of its priority and group that was accepted more than this
// before it, and deadlines starve nothing.
const patience = time.Hour

// Due returns when a task is due, in nanoseconds: the order within a priority and group. It is its deadline, or an hour
// after it was accepted: so among those without a deadline the oldest goes first.
func Due(t *coordinator.Task) int64 {
	due := t.AcceptedAt.Add(patience)
	if !t.Deadline.IsZero() && t.Deadline.Before(due) {
		due = t.Deadline
	}
	return due.UnixNano()
}

// Find returns the class of that key; nil: it is not known.
func (q *Queue[T, C]) Find(key []byte) *Class[T, C] { return q.classes[string(key)] }

// Start makes c a class in which nothing waits.
func (q *Queue[T, C]) Start(c *Class[T, C], key []byte, of C) {
	*c = Class[T, C]{Key: string(key), Of: of, Waiting: fairqueue.NewBacklog(q.shares, q.before, q.place), active: -1}
}

// Keep files a class under its key: tasks may wait in it. Of the others those are forgotten, when they are too
// many, in which none waits and that are not inUse otherwise.
func (q *Queue[T, C]) Keep(c *Class[T, C], inUse func(C) bool) {
	if len(q.classes) >= MaxIdle+len(q.active)+q.inUse {
		for k, o := range q.classes {
			if o.active < 0 && !inUse(o.Of) {
				delete(q.classes, k)
			}
		}
		q.inUse = len(q.classes) - len(q.active)
	}
	q.classes[c.Key] = c
}

// Push puts a task into its class, and reports whether it is the only one there.
func (q *Queue[T, C]) Push(c *Class[T, C], leaf, level int, t T) (only bool) {
	c.Waiting.Push(leaf, level, t)
	if c.active >= 0 {
		return false
	}
	c.active = len(q.active)
	q.active = append(q.active, c)
	return true
}

// Take removes a waiting task from its class.
func (q *Queue[T, C]) Take(c *Class[T, C], leaf, level, index int) {
	c.Waiting.Remove(leaf, level, index)
	if c.Waiting.Len() > 0 {
		return
	}
	last := q.active[len(q.active)-1]
	q.active[c.active] = last
	last.active = c.active
	q.active[len(q.active)-1] = nil
	q.active = q.active[:len(q.active)-1]
	c.active = -1
}

// Clear takes everything out, and returns it: class by class in the order in which it would have gone.
func (q *Queue[T, C]) Clear() (all []T) {
	for _, c := range q.active {
		for _, h := range slices.Collect(c.Waiting.All()) {
			all = append(all, c.Waiting.Remove(h.Leaf, h.Level, 0)) // the first there by now is h.Item
		}
		c.active = -1
	}
	q.active = nil
	return all
}

// Forget forgets all classes. Nothing may wait.
func (q *Queue[T, C]) Forget() { q.classes, q.active = make(map[string]*Class[T, C]), nil }

// Active returns the classes in which some wait. It is good until the next Push or Take.
func (q *Queue[T, C]) Active() []*Class[T, C] { return q.active }

// Reach returns the classes of which the agent could have tasks, and how many of these wait for nothing but an agent.
// The list is good until the next call.
func (q *Queue[T, C]) Reach(agent int) (of []C, tasks int) {
	if agent < 0 { // it has left the fleet
		return nil, 0
	}
	of = q.reach[:0]
	for _, c := range q.active {
		if c.Usable.Has(agent) {
			of = append(of, c.Of)
			tasks += c.Servable()
		}
	}
	q.reach = of
	return of, tasks
}

// ByLeaf returns how many tasks wait in each of so many leaves, and how many of these are parked. It takes O(leaves
// that wait in all classes).
func (q *Queue[T, C]) ByLeaf(leaves int) (all, parked []int) {
	all, parked = make([]int, leaves), make([]int, leaves)
	for _, c := range q.active {
		c.Waiting.Leaves(func(leaf, _, n int, own bool) {
			if all[leaf] += n; own || c.parked {
				parked[leaf] += n
			}
		})
	}
	return all, parked
}

// All iterates over the classes that are known, in no order.
func (q *Queue[T, C]) All() iter.Seq[C] {
	return func(yield func(C) bool) {
		for _, c := range q.classes {
			if !yield(c.Of) {
				return
			}
		}
	}
}

// Serving returns the bits of the levels at which something waits that is not parked by its leaf.
func (c *Class[T, C]) Serving() uint8 { return c.Waiting.Serving() }

// FirstLeaf returns the leaf of the first of these tasks at a level.
func (c *Class[T, C]) FirstLeaf(level int) (leaf int, ok bool) {
	h, ok := c.Waiting.FirstAt(level)
	return h.Leaf, ok
}

// TakenBy reports whether the agent may have tasks of the class.
func (c *Class[T, C]) TakenBy(agent int) bool { return c.Usable.Has(agent) }

// First returns the task that goes first in the class; the zero value when none waits, or all are parked.
func (c *Class[T, C]) First() (first T) {
	if c.parked {
		return first
	}
	head, _ := c.Waiting.First(0)
	return head.Item
}

// Servable counts the tasks that are not parked: they wait for nothing but an agent.
func (c *Class[T, C]) Servable() (n int) {
	switch {
	case c.parked:
		return 0
	case c.Waiting.AnyParked():
		c.Waiting.Leaves(func(_, _, waiting int, parked bool) {
			if !parked {
				n += waiting
			}
		})
		return n
	}
	return c.Waiting.Len()
}

// Holds reports whether the task is at that place.
func (c *Class[T, C]) Holds(t T, leaf, level, index int) bool {
	x, ok := c.Waiting.At(leaf, level, index)
	return ok && x == t
}

// Park keeps the tasks of a leaf from going, those of leaf -1 being all, until they are unparked: what they lack is
// not an agent.
func (c *Class[T, C]) Park(leaf int) {
	if leaf < 0 {
		c.parked = true
	} else {
		c.Waiting.Park(leaf)
	}
}

// Unpark ends what Park began.
func (c *Class[T, C]) Unpark(leaf int) {
	if leaf < 0 {
		c.parked = false
	} else {
		c.Waiting.Unpark(leaf)
	}
}

// Parked reports whether the tasks of the leaf are parked by themselves; of leaf -1 whether all are.
func (c *Class[T, C]) Parked(leaf int) bool {
	if leaf < 0 {
		return c.parked
	}
	return c.Waiting.Parked(leaf)
}

// Check returns what is wrong with a class's place among the active ones; empty: nothing.
func (q *Queue[T, C]) Check(c *Class[T, C]) string {
	switch {
	case q.classes[c.Key] != c:
		return "it is not found by its key"
	case c.active >= 0 && (c.active >= len(q.active) || q.active[c.active] != c):
		return "it is not at its place"
	case (c.active >= 0) != (c.Waiting.Len() > 0):
		return fmt.Sprintf("%d tasks wait in it, and it is at place %d", c.Waiting.Len(), c.active)
	}
	return ""
}
