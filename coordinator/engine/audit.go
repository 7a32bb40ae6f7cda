package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
)

// The auditor asks whether the engine's books balance: much of what the engine knows
// is kept in two places, because the one is quick to change and the other quick to
// ask, and they must say the same. It changes nothing that a decision looks at.

// What one Audit looks at, at most. The tasks held, which the window bounds, are seen
// in each; of what may be many more it takes up where the one before ended.
const (
	auditTasks   = 1024 // open tasks
	auditRecords = 1024 // ids seen
	auditTimers  = 1024
	auditAgents  = 2048 // agents, each as agentWeight, and the dispatches on their accounts
	auditClasses = 64   // classes, as far as each concerns the whole fleet

	agentWeight = 8
	auditFleet  = 2048 // agents whose queues are counted as taken back
)

// auditPlaces is where the next Audit goes on.
type auditPlaces struct {
	task, agent, class int
	timer              [turns]int // by heap
	record             uint64
	quotas             uint64 // audits so far
	// due is the number of a timer that was due already at the Apply at dueAt, by which
	// it may have been set; 0: none.
	due   uint64
	dueAt time.Time
}

// Audit checks that the books balance and gives what does not, at most one Violation
// for each invariant; nil as a rule. It is called between two events and may be at any
// time: with 4,000 tasks held it takes less than 2 ms, however many are with agents. A
// fault in what is seen in turns is found after a few calls.
func (e *Engine) Audit(now time.Time) []coordinator.Violation {
	x := &inspection{e: e}
	if now.Before(e.now) {
		x.note(coordinator.InvariantClock, "", "the time is %v, %v before the latest event", now, e.now.Sub(now))
	}
	if x.held(maps.Keys(e.held)); len(x.found) > 0 {
		x.found = slices.DeleteFunc(x.found,
			func(v coordinator.Violation) bool { return v.Invariant != coordinator.InvariantClock })
		x.held(slices.Values(slices.Sorted(maps.Keys(e.held)))) // what is told must not depend on the order of a map
	}
	x.classes()
	x.batches()
	x.openTasks()
	x.records()
	x.fleet()
	x.timers()
	x.quotas()
	for i := range x.found {
		slices.Sort(x.found[i].IDs)
	}
	return x.found
}

// inspection is one Audit.
type inspection struct {
	e     *Engine
	found []coordinator.Violation
	// gathering tasks are held so many.
	gathering int
}

// note adds a case of an invariant that does not hold. id is that of the task or
// agent; empty: it is a matter of none.
func (x *inspection) note(which coordinator.Invariant, id, format string, args ...any) {
	i := slices.IndexFunc(x.found, func(v coordinator.Violation) bool { return v.Invariant == which })
	if i < 0 {
		i = len(x.found)
		x.found = append(x.found, coordinator.Violation{Invariant: which, Text: fmt.Sprintf(format, args...)})
	}
	v := &x.found[i]
	v.Count++
	if id != "" && len(v.IDs) < coordinator.MaxViolationIDs && !slices.Contains(v.IDs, id) {
		v.IDs = append(v.IDs, id)
	}
}

func (x *inspection) task(which coordinator.Invariant, t *openTask, format string, args ...any) {
	x.note(which, string(t.task.ID), "%s: %s", t.task.ID, fmt.Sprintf(format, args...))
}

func (x *inspection) agent(which coordinator.Invariant, a *agent, format string, args ...any) {
	x.note(which, string(a.Spec.ID), "%s: %s", a.Spec.ID, fmt.Sprintf(format, args...))
}

// inTurn looks at places from *next on, round about: at each once at most, and until
// what they cost exceeds the budget.
func inTurn(next *int, places, budget int, look func(i int) (cost int)) {
	if *next >= places {
		*next = 0
	}
	for n := 0; n < places && budget > 0; n++ {
		budget -= look(*next)
		*next = (*next + 1) % places
	}
}

// set tells whether a timer is scheduled, and where it says.
func (x *inspection) set(t *timer) bool {
	items := x.e.timers.heaps[t.duty.turn()].Items
	return t.index >= 0 && t.index < len(items) && items[t.index] == t
}

// records looks at what is remembered of task ids.
func (x *inspection) records() {
	e, w := x.e, &x.e.dedupe
	next := int(max(e.audited.record, w.First()) - w.First())
	inTurn(&next, w.Size(), auditRecords, func(i int) int {
		number := w.First() + uint64(i)
		r, fault := w.Check(number)
		if fault != "" {
			x.note(coordinator.InvariantTaskRecord, "", "%s", fault)
		}
		if r.Fate.IsOpen() && (int(r.Ref) >= len(e.tasks.all) || e.tasks.all[r.Ref] == nil ||
			e.tasks.all[r.Ref].key != r.Key) {
			x.note(coordinator.InvariantTaskRecord, "", "record %d is %s and of the open task %d, which is not there", number,
				r.Fate, r.Ref)
		}
		return 1
	})
	e.audited.record = w.First() + uint64(next)
}

// timers looks at what is scheduled.
func (x *inspection) timers() {
	e := x.e
	for i := range e.timers.heaps {
		h := &e.timers.heaps[i]
		inTurn(&e.audited.timer[i], len(h.Items), auditTimers/turns, func(n int) int {
			if t := h.Items[n]; t.index != n || t.duty.turn() != i || n > 0 && h.Before(t, h.Items[(n-1)/2]) {
				x.note(coordinator.InvariantTimers, "",
					"the timer at %d (for %v, duty %d) says %d, or is due before one that goes first", n, t.at, t.duty, t.index)
			}
			return 1
		})
	}
	x.due()
}

// due looks whether a timer was passed over. One that is due at once may be set at any
// time, a deadline that is over, say; the next Apply must find it.
func (x *inspection) due() {
	e, due := x.e, uint64(0)
	for i := range e.timers.heaps {
		for _, t := range e.timers.heaps[i].Items[:min(1, len(e.timers.heaps[i].Items))] {
			if !t.at.Before(e.now) {
				continue
			}
			if due = t.seq; due == e.audited.due && e.audited.dueAt.Before(e.now) {
				x.note(coordinator.InvariantTimers, "", "what was due at %v (duty %d) was passed over at %v", t.at, t.duty, e.now)
			}
		}
	}
	if due != e.audited.due {
		e.audited.due, e.audited.dueAt = due, e.now
	}
}

// Held calls visit for each task whose delivery is not settled, in no order.
func (e *Engine) Held(visit func(coordinator.Handle, coordinator.TaskID)) {
	for h, t := range e.held {
		visit(h, t.task.ID)
	}
}

// Holds tells whether the engine holds a task by this delivery.
func (e *Engine) Holds(h coordinator.Handle) bool { return e.held[h] != nil }

// Waits tells whether the task that it holds by this delivery is pending.
func (e *Engine) Waits(h coordinator.Handle) bool {
	t := e.held[h]
	return t != nil && t.state < stateDispatching
}
