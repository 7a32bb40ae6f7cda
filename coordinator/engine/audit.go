package engine

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
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
	timer              [2]int // by heap
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
		x.found = slices.DeleteFunc(x.found, func(v coordinator.Violation) bool { return v.Invariant != coordinator.InvariantClock })
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
	x.note(which, string(a.spec.ID), "%s: %s", a.spec.ID, fmt.Sprintf(format, args...))
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

// held looks at every task whose delivery is not settled.
func (x *inspection) held(handles iter.Seq[coordinator.Handle]) {
	e := x.e
	queued := make(map[*openTask]bool, len(e.retries.tasks))
	for _, t := range e.retries.tasks {
		queued[t] = true
	}
	var waiting [4]int
	moving, inLine := 0, 0
	x.gathering = 0
	for h := range handles {
		t := e.held[h]
		switch {
		case t.handle != h:
			x.task(coordinator.InvariantTaskState, t, "it is held by the handle %d and has %d", h, t.handle)
		case t.over && (t.number != 0 || t.state != stateDispatching):
			x.task(coordinator.InvariantTaskState, t, "its outcome has been told, and it is held in state %d as number %d", t.state, t.number)
		case !t.over && (int(t.number) >= len(e.tasks.all) || e.tasks.all[t.number] != t):
			x.task(coordinator.InvariantTaskState, t, "it is held and not among the open tasks (number %d)", t.number)
		}
		expires, again := t.state == stateWaiting || t.state == stateUnscored || t.state == stateDelayed, t.state == stateUnscored || t.state == stateGathering || t.state == stateBidding
		switch t.state {
		case stateDelayed:
			again = !queued[t] // else the budget is waited for
		case stateWaiting:
			again = t.line != nil // until it has been held for too long
		}
		if x.set(&t.expire) != expires || x.set(&t.retry) != again {
			x.task(coordinator.InvariantTimers, t, "in state %d its timers are: to expire %v, to be looked at again %v", t.state, x.set(&t.expire), x.set(&t.retry))
		}
		switch t.state {
		case stateWaiting:
			waiting[t.task.Priority]++
			if c := t.needs.class; c == nil || !c.holds(t) {
				x.task(coordinator.InvariantTaskState, t, "it waits and is not in its class (place %d)", t.index)
			}
		case stateGathering:
			x.gathering++
			waiting[t.task.Priority]++
		case stateDelayed, stateUnscored, stateBidding:
			waiting[t.task.Priority]++
		case stateMoving:
			moving++
		case stateDispatching:
		default:
			x.task(coordinator.InvariantTaskState, t, "it is held in state %d", t.state)
		}
		if t.line != nil {
			inLine++
		}
	}
	if waiting != e.pending.count {
		x.note(coordinator.InvariantPendingCount, "", "by priority %v tasks wait, counted are %v", waiting, e.pending.count)
	}
	x.lanes(moving, inLine)
}

// classes looks at the classes in which somebody waits.
func (x *inspection) classes() {
	e := x.e
	for i, c := range e.pending.active {
		if c.active != i || e.pending.classes[c.key] != c || c.waiting.Len() == 0 {
			x.note(coordinator.InvariantPendingOrder, "", "class %q is at place %d and says %d; %d tasks wait in it, and it is found by its key: %v",
				c.key, i, c.active, c.waiting.Len(), e.pending.classes[c.key] == c)
		}
		c.waiting.Visit(func(h fairshare.Head[*openTask], n int, ordered bool) {
			t := h.Item
			if t.state != stateWaiting || t.index != n || t.leaf != h.Leaf || t.level != h.Level || t.needs.class != c || e.held[t.handle] != t {
				x.task(coordinator.InvariantTaskState, t, "it is at %d of %d in class %q, says %d of %d, and is in state %d", n, h.Leaf, c.key, t.index, t.leaf, t.state)
			} else if !ordered {
				x.task(coordinator.InvariantPendingOrder, t, "it goes before the one above it in class %q", c.key)
			}
		})
	}
	inTurn(&e.audited.class, len(e.pending.active), auditClasses, func(i int) int {
		c := e.pending.active[i]
		if c.nobody != c.feasible.empty() || !slices.Equal(c.usable, e.usable(c.feasible, c.required)) {
			x.note(coordinator.InvariantAgentReady, "", "class %q: who is of use for it is not who is capable and trusted", c.key)
		}
		if n, t := c.usable.common(e.fleet.ready), c.first(); n > 0 && t != nil && e.mayGive(t) {
			x.task(coordinator.InvariantWorkConserved, t, "it waits with %d others, and %d agents are ready who could have it", c.waiting.Len()-1, n)
		}
		return 1
	})
}

// batches looks at the tasks that wait for others of their kind.
func (x *inspection) batches() {
	members := make(map[*openTask]bool, x.gathering)
	for key, g := range x.e.batches.gathering { // order does not matter: as a rule nothing is found
		for _, t := range g.members {
			if t.state != stateGathering || x.e.held[t.handle] != t || members[t] || batchKeyOf(t) != key {
				x.task(coordinator.InvariantTaskState, t, "it is among those that gather, in state %d", t.state)
			}
			members[t] = true
		}
	}
	if n := len(members); n != x.gathering || len(x.e.batches.sharing) > 0 {
		x.note(coordinator.InvariantTaskState, "", "%d tasks gather, %d are in batches; %d batches were not sealed", x.gathering, n, len(x.e.batches.sharing))
	}
}

// openTasks looks at tasks that have not ended, most of them with agents.
func (x *inspection) openTasks() {
	e := x.e
	if n := len(e.tasks.all); n <= auditTasks {
		open := 0
		for _, t := range e.tasks.all[1:] {
			if t != nil {
				open++
			}
		}
		if open+len(e.tasks.free) != n-1 {
			x.note(coordinator.InvariantTaskRecord, "", "%d numbers are given to %d open tasks, and %d are free", n-1, open, len(e.tasks.free))
		}
	}
	inTurn(&e.audited.task, len(e.tasks.all), auditTasks, func(n int) int {
		if t := e.tasks.all[n]; t != nil {
			x.openTask(n, t)
		}
		return 1
	})
}

func (x *inspection) openTask(n int, t *openTask) {
	e, leased := x.e, t.state == stateLeased
	r := e.memory.record(t.key, t.record)
	switch {
	case r == nil:
		x.task(coordinator.InvariantTaskRecord, t, "it is open, and nothing is remembered of it")
		return
	case r.key != t.key || r.ref != t.number || int(t.number) != n || !r.fate.IsOpen():
		x.task(coordinator.InvariantTaskRecord, t, "it is number %d at place %d, its record says %d, %s", t.number, n, r.ref, r.fate)
	case (r.fate == coordinator.FateOpen) == leased, (r.fate == coordinator.FateUnsettled) != (leased && t.unanswered):
		x.task(coordinator.InvariantTaskRecord, t, "it is in state %d, unanswered %v, its record says %s", t.state, t.unanswered, r.fate)
	}
	if t.over || (e.held[t.handle] == t) == leased {
		x.task(coordinator.InvariantTaskState, t, "it is open in state %d, held %v, its outcome told %v", t.state, e.held[t.handle] == t, t.over)
	}
	if t.state < stateDispatching {
		return
	}
	switch {
	case t.agent == nil:
		x.task(coordinator.InvariantAgentAccount, t, "it is in state %d and with no agent", t.state)
		return
	case (t.place < 0) != t.returning:
		x.task(coordinator.InvariantAgentAccount, t, "it is with %s, at %d of its account, given back %v", t.agent.spec.ID, t.place, t.returning)
	case t.place >= 0 && (t.place >= len(t.agent.open) || t.agent.open[t.place] != t || e.fleet.known(t.agent.spec.ID) != t.agent):
		x.task(coordinator.InvariantAgentAccount, t, "it says that it is at %d of the account of %s, and is not", t.place, t.agent.spec.ID)
	}
	if leased && (t.deadline.IsZero() || (t.agent.tracked || len(t.tried) > 0 || t.unanswered) && !x.set(&t.expire)) {
		x.task(coordinator.InvariantLeaseDeadline, t, "%s has it (dispatch %s), and nobody watches its deadline (%v)", t.agent.spec.ID, t.dispatchID, t.deadline)
	}
}

// records looks at what is remembered of task ids.
func (x *inspection) records() {
	e, m := x.e, &x.e.memory
	next := int(max(e.audited.record, m.first) - m.first)
	inTurn(&next, m.size(), auditRecords, func(i int) int {
		number := m.first + uint64(i)
		r := m.at(number)
		if r.flags&replaced != 0 { // it stays until its time
			return 1
		}
		if found, ok := m.lookup(r.key); !ok || found != number {
			x.note(coordinator.InvariantTaskRecord, "", "record %d (%s) is found as %d, %v", number, r.fate, found, ok)
		}
		if r.fate.IsOpen() && (int(r.ref) >= len(e.tasks.all) || e.tasks.all[r.ref] == nil || e.tasks.all[r.ref].key != r.key) {
			x.note(coordinator.InvariantTaskRecord, "", "record %d is %s and of the open task %d, which is not there", number, r.fate, r.ref)
		}
		return 1
	})
	e.audited.record = m.first + uint64(next)
}

// timers looks at what is scheduled.
func (x *inspection) timers() {
	e := x.e
	for i := range e.timers.heaps {
		h := &e.timers.heaps[i]
		inTurn(&e.audited.timer[i], len(h.Items), auditTimers/2, func(n int) int {
			if t := h.Items[n]; t.index != n || t.duty.turn() != i || n > 0 && h.Before(t, h.Items[(n-1)/2]) {
				x.note(coordinator.InvariantTimers, "", "the timer at %d (for %v, duty %d) says %d, or is due before one that goes first", n, t.at, t.duty, t.index)
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
