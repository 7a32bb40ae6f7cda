package admission

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/heap"
)

// Class is a class of tasks: all that the same agents could take. Its methods only read.
type Class interface {
	// Serving has a bit for each level at which a task waits in a tenant queue that is not parked.
	Serving() uint8
	// FirstLeaf is the tenant queue of the task that goes first at a level; false: there is none.
	FirstLeaf(level int) (leaf int, ok bool)
	// TakenBy reports whether the agent of that number could take its tasks.
	TakenBy(agent int) bool
	// Admission is what is kept here of the class, which holds it.
	Admission() *ClassState
}

// ClassState is what is kept here of a class. The zero value is one in which nothing waits for quota.
type ClassState struct {
	// Whole is what the whole class waits for, of the pool itself; nil: nothing. Only this package sets it.
	Whole *Wait
	// seated are the waits of it for seats. keeps: seats that come free are kept for them, because an agent
	// could take their tasks.
	seated []*Wait
	keeps  bool
	class  Class // the class of this state, while seated holds any
	// servable is what View.Servable said in the step servableIn.
	servable   bool
	servableIn uint64
}

// Wait is a tenant queue of a class, or the class, that waits for quota.
type Wait struct {
	Class Class
	Leaf  int // the tenant queue; -1: the whole class
	Level int // of the task
	// Task is the one that was refused, and Charge what it will take.
	Task   any
	Charge *fairshare.Charge
	Lacks  fairshare.Verdict
	// Without are the agents for which quota lacks; nil: for all.
	Without *Lacking

	path     fairshare.Path     // of the charge
	borrower fairshare.Borrower // ranks it among those that are to borrow
	at       time.Time          // when it tries by itself, whatever comes back; zero: never
	seq      uint64             // grows with each refusal

	queue         *queue
	part          *part
	place         int32 // in Waits.byTime, -1: not there
	index         int32 // in part.leaves
	deferredPlace int32 // in queue.deferred, from 1 on; 0: not there
	deferredIndex int32 // in part.deferred
	tried         bool  // in this round of its queue
	woken         bool  // it is in agentWaits.woken
}

// Waits is everything that waits for quota. It is for one goroutine.
type Waits struct {
	ledger *fairshare.Ledger
	shares *fairqueue.Shares

	of      map[key]*Wait
	queues  map[lackKey]*queue
	behind  map[string][]*queue // by the node at which comes back what they lack
	refused map[string][]*Wait  // by the node that refused them, those that wait behind another
	open    []*queue
	byTime  heap.Heap[*Wait]  // those that try by themselves
	due     heap.Heap[*queue] // those that open by themselves
	rates   int               // how many queues are for rates

	seated   []*ClassState   // in which something waits for seats
	deferred map[int][]*Wait // by leaf, see deferWait
	agents   agentWaits
	orphans  []*Wait // those of a task that has left
	retried  []*Wait // those that RetryWith has removed, since the round before
	seq      uint64
	divided  map[division]bool
	before   func(a, b any) bool // the order of tasks of one tenant queue and level

	round round
	step  uint64 // counts those of all rounds
}

// key is what a wait is found by.
type key struct {
	class *ClassState
	leaf  int
}

// division asks whether what a node may use is divided among those below it.
type division struct {
	node  string
	limit fairshare.Limit
	dim   coordinator.Dimension
}

// New returns Waits in which nothing waits, for quota of the ledger, in turns of the shares. before is the order of
// the tasks of one tenant queue and level.
func New(l *fairshare.Ledger, s *fairqueue.Shares, before func(a, b any) bool) *Waits {
	return &Waits{
		ledger: l, shares: s, before: before,
		of: make(map[key]*Wait), queues: make(map[lackKey]*queue),
		behind: make(map[string][]*queue), refused: make(map[string][]*Wait), deferred: make(map[int][]*Wait),
		agents: agentWaits{behind: make(map[string][]*Wait)},
		byTime: heap.Heap[*Wait]{
			Before: func(a, b *Wait) bool {
				if !a.at.Equal(b.at) {
					return a.at.Before(b.at)
				}
				return a.seq < b.seq
			},
			Place: func(w *Wait, i int) { w.place = int32(i) },
		},
		due: newDueQueues(),
	}
}

// Each yields the waits, in no order.
func (q *Waits) Each() iter.Seq[*Wait] { return maps.Values(q.of) }

// All returns the waits, the latest refusal last.
func (q *Waits) All() []*Wait {
	return slices.SortedFunc(maps.Values(q.of), func(a, b *Wait) int { return cmp.Compare(a.seq, b.seq) })
}

// Clear removes all waits, and returns them: their tenant queues are to be unparked.
func (q *Waits) Clear() []*Wait {
	all := q.All()
	for _, w := range all {
		q.Remove(w)
	}
	q.seated, q.orphans, q.open, q.retried = nil, nil, nil, nil
	q.round.soon = time.Time{}
	return all
}

// Installed forgets what is known of the quotas that the ledger had before.
func (q *Waits) Installed() { q.divided = nil }

// Find returns what the tasks of a leaf wait for in a class; nil: for no quota.
func (q *Waits) Find(c Class, leaf int) *Wait {
	whole, own := q.Of(c, leaf)
	if whole != nil {
		return whole
	}
	return own
}

// Of returns what the class waits for, and what the leaf does in it; nil: nothing.
func (q *Waits) Of(c Class, leaf int) (whole, own *Wait) {
	s := c.Admission()
	return s.Whole, q.of[key{s, leaf}]
}

// Refused reports whether it is this very task that was refused, so that its leaf or its class waits.
func (q *Waits) Refused(c Class, leaf int, task any) bool {
	whole, own := q.Of(c, leaf)
	return own != nil && own.Task == task || whole != nil && whole.Task == task
}

// Behind reports whether a task of a leaf and level is to wait behind another of its tenant queue, or of its class.
func (q *Waits) Behind(c Class, leaf, level int, task any) bool {
	whole, own := q.Of(c, leaf)
	return q.standsBehind(whole, level, task) || q.standsBehind(own, level, task)
}

// Overtaken removes those waits of its tenant queue, or of its class, that a task goes before which begins to wait:
// it may need less. Their leaves are to be unparked. The result is good until the next call.
func (q *Waits) Overtaken(c Class, leaf, level int, task any) []*Wait {
	q.round.unpark = q.round.unpark[:0]
	whole, own := q.Of(c, leaf)
	for _, w := range [2]*Wait{whole, own} {
		if w != nil && !q.standsBehind(w, level, task) {
			q.Remove(w)
			q.round.unpark = append(q.round.unpark, w)
		}
	}
	return q.round.unpark
}

// standsBehind reports whether a task stands behind the one that waits; nil: none does.
func (q *Waits) standsBehind(w *Wait, level int, task any) bool {
	switch {
	case w == nil:
		return false
	case w.Leaf < 0 || level != w.Level:
		return level <= w.Level
	}
	return q.before(w.Task, task)
}

// filed reports whether the wait has not been removed.
func (q *Waits) filed(w *Wait) bool { return q.of[key{w.Class.Admission(), w.Leaf}] == w }

// Park makes a tenant queue wait for what its task, of that group, was refused. It waits with its whole class
// where all of it lacks the same: Leaf is -1 then. Else the leaf is to be parked in the class. A wait of the
// same leaf is replaced.
func (q *Waits) Park(now time.Time, w *Wait, group string) {
	notAtOnce(now, &w.Lacks)
	w.path = q.ledger.PathOf(w.Charge)
	switch {
	case w.Without == nil && w.Lacks.Empty && q.undivided(&w.Lacks):
		w.Leaf = -1
	case !w.Lacks.Owns: // else it borrows nothing
		w.borrower = q.ledger.Borrower(group, &w.path, &w.Lacks)
	}
	s := w.Class.Admission()
	if before := q.of[key{s, w.Leaf}]; before != nil {
		if q.Remove(before); before.Lacks.Limit == fairshare.LimitSeats {
			q.wakeForSeats(before) // what was kept for it may be for others
		}
	}
	if w.Leaf < 0 {
		s.Whole = w
	}
	q.seq++
	w.seq, w.place = q.seq, -1
	q.of[key{s, w.Leaf}] = w
	if w.Lacks.Limit == fairshare.LimitSeats {
		q.addSeatWaiter(w)
	}
	w.at = w.triesAt()
	if w.mayHaveOwn() {
		q.refused[w.Lacks.Node] = append(q.refused[w.Lacks.Node], w)
	}
	if w.Without != nil {
		if q.agents.add(w); w.at.IsZero() {
			w.at = w.Lacks.RetryAt
		}
		if again := w.Without.again; !again.IsZero() && (w.at.IsZero() || again.Before(w.at)) {
			w.at = again
		}
	}
	if !w.at.IsZero() {
		q.byTime.Push(w)
	}
	q.enqueue(w)
}

// notAtOnce makes a refusal end after now: what is refused is not asked again at once.
func notAtOnce(now time.Time, v *fairshare.Verdict) {
	for _, at := range [2]*time.Time{&v.RetryAt, &v.OwnAt} {
		if !at.IsZero() && !at.After(now) {
			*at = now.Add(time.Millisecond)
		}
	}
}

// undivided reports whether a pool or a model has nothing left, and no part of it belongs to a group: then
// everything that is charged to it lacks the same.
func (q *Waits) undivided(v *fairshare.Verdict) bool {
	if v.Kind != coordinator.QuotaPool && v.Kind != coordinator.QuotaModel {
		return false
	}
	k := division{v.Node, v.Limit, v.Dimension}
	divided, known := q.divided[k]
	if !known {
		if q.divided == nil {
			q.divided = make(map[division]bool)
		}
		divided = q.ledger.Divided(v.Node, v.Limit, v.Dimension)
		q.divided[k] = divided
	}
	return !divided
}

// triesAt returns when it tries by itself, whatever comes back; zero: never.
func (w *Wait) triesAt() time.Time {
	switch w.Lacks.Limit {
	case fairshare.LimitBudget:
		return w.Lacks.RetryAt
	case fairshare.LimitRate:
		return w.Lacks.OwnAt
	}
	return time.Time{}
}

// mayHaveOwn reports whether it waits behind another node than the one that refused it, and could be served
// by what comes back to that one alone. Seats that come back are kept for tenants below their share, so that
// these need no more than their turn.
func (w *Wait) mayHaveOwn() bool {
	return w.Lacks.Behind != w.Lacks.Node && w.Lacks.Limit != fairshare.LimitSeats
}

// Remove takes a wait out, so that its tasks may try: its leaf is to be unparked.
func (q *Waits) Remove(w *Wait) {
	s := w.Class.Admission()
	if w.Leaf < 0 {
		s.Whole = nil
	}
	delete(q.of, key{s, w.Leaf})
	if w.Lacks.Limit == fairshare.LimitSeats {
		q.removeSeatWaiter(w)
	}
	if w.mayHaveOwn() {
		removeFrom(q.refused, w.Lacks.Node, w)
	}
	if w.Without != nil {
		q.agents.remove(w)
	}
	if w.place >= 0 {
		q.byTime.Remove(int(w.place))
	}
	q.dequeue(w)
}

// refusedAgain is Park for one that waits for the same as before, and has had its turn.
func (q *Waits) refusedAgain(w *Wait, v *fairshare.Verdict) {
	q.seq++
	if w.place >= 0 {
		q.byTime.Remove(int(w.place))
	}
	w.Lacks = *v
	if w.at = w.triesAt(); !w.at.IsZero() {
		q.byTime.Push(w)
	}
	q.refusedInTurn(w)
}

// Left notes that a task of a leaf waits no more. Those behind it may need less.
func (q *Waits) Left(c Class, leaf int, task any) {
	if len(q.of) == 0 {
		return
	}
	whole, own := q.Of(c, leaf)
	for _, w := range [2]*Wait{whole, own} {
		if w != nil && w.Task == task {
			q.orphans = append(q.orphans, w)
			if w.Lacks.Limit == fairshare.LimitSeats { // what was kept for it is for others
				q.wakeForSeats(w)
			}
		}
	}
}

// minus removes x from a list, in place.
func minus[T comparable](list []T, x T) []T {
	return slices.DeleteFunc(list, func(o T) bool { return o == x })
}

// removeFrom removes x from the list of a key, and the key with the last of them.
func removeFrom[K, T comparable](lists map[K][]T, k K, x T) {
	if left := minus(lists[k], x); len(left) > 0 {
		lists[k] = left
	} else {
		delete(lists, k)
	}
}
