package engine

import (
	"iter"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// What the auditor finds in tasks.

// held looks at every task whose delivery is not settled.
func (x *inspection) held(handles iter.Seq[coordinator.Handle]) {
	e := x.e
	affordable := e.retries.All()
	queued := make(map[*openTask]bool, len(affordable))
	for _, t := range affordable {
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
		case t.Over && (t.number != 0 || t.state != stateDispatching):
			x.task(coordinator.InvariantTaskState, t, "its outcome has been told, and it is held in state %d as number %d",
				t.state, t.number)
		case !t.Over && !e.tasks.has(t):
			x.task(coordinator.InvariantTaskState, t, "it is held and not among the open tasks (number %d)", t.number)
		}
		expires, again := t.state == stateWaiting || t.state == stateUnscored || t.state == stateDelayed,
			t.state == stateUnscored || t.state == stateGathering || t.state == stateBidding
		switch t.state {
		case stateDelayed:
			again = !queued[t] // else the budget is waited for
		case stateWaiting:
			again = t.lane.InLine() // until it has been held for too long
		}
		if x.set(&t.expire) != expires || x.set(&t.retry) != again {
			x.task(coordinator.InvariantTimers, t, "in state %d its timers are: to expire %v, to be looked at again %v", t.state,
				x.set(&t.expire), x.set(&t.retry))
		}
		switch t.state {
		case stateWaiting:
			waiting[t.task.Priority]++
			if c := t.needs.class; c == nil || !c.Holds(t, t.leaf, t.level, t.index) {
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
		if t.lane.InLine() {
			if inLine++; t.state != stateWaiting && t.state != stateUnscored {
				x.task(coordinator.InvariantTaskState, t, "it is in a line for lanes, and in state %d", t.state)
			}
		}
	}
	if waiting != e.pending.count {
		x.note(coordinator.InvariantPendingCount, "", "by priority %v tasks wait, counted are %v", waiting, e.pending.count)
	}
	for _, f := range e.lanes.Check(moving, inLine) {
		if t := e.held[f.Task]; t != nil {
			x.task(f.Invariant, t, "%s", f.Text)
			continue
		}
		x.note(f.Invariant, "", "%s", f.Text)
	}
}

// classes looks at the classes in which somebody waits.
func (x *inspection) classes() {
	e := x.e
	for _, w := range e.pending.Active() {
		c := w.Of
		if wrong := e.pending.Misfiled(w); wrong != "" {
			x.note(coordinator.InvariantPendingOrder, "", "class %q: %s", c.Key, wrong)
		}
		c.Waiting.Visit(func(h fairshare.Head[*openTask], n int, ordered bool) {
			t := h.Item
			if t.state != stateWaiting || t.index != n || t.leaf != h.Leaf || t.level != h.Level || t.needs.class != c ||
				e.held[t.handle] != t {
				x.task(coordinator.InvariantTaskState, t, "it is at %d of %d in class %q, says %d of %d, and is in state %d", n,
					h.Leaf, c.Key, t.index, t.leaf, t.state)
			} else if !ordered {
				x.task(coordinator.InvariantPendingOrder, t, "it goes before the one above it in class %q", c.Key)
			}
		})
	}
	inTurn(&e.audited.class, len(e.pending.Active()), auditClasses, func(i int) int {
		c := e.pending.Active()[i].Of
		if c.nobody != c.feasible.Empty() || !slices.Equal(c.Usable, e.ejections.Usable(c.feasible, c.required)) {
			x.note(coordinator.InvariantAgentReady, "", "class %q: who is of use for it is not who is capable and trusted",
				c.Key)
		}
		if n, t := c.Usable.Common(e.fleet.Ready), c.First(); n > 0 && t != nil && e.mayGive(t) {
			x.task(coordinator.InvariantWorkConserved, t, "it waits with %d others, and %d agents are ready who could have it",
				c.Waiting.Len()-1, n)
		}
		return 1
	})
}

// batches looks at the tasks that wait for others of their kind.
func (x *inspection) batches() {
	members := make(map[*openTask]bool, x.gathering)
	for key, gathering := range x.e.batches.All() { // order does not matter: as a rule nothing is found
		for _, t := range gathering {
			if t.state != stateGathering || x.e.held[t.handle] != t || members[t] || batchKeyOf(t) != key {
				x.task(coordinator.InvariantTaskState, t, "it is among those that gather, in state %d", t.state)
			}
			members[t] = true
		}
	}
	if n := len(members); n != x.gathering || x.e.batches.Sharing() {
		x.note(coordinator.InvariantTaskState, "", "%d tasks gather, %d are in batches; some dispatches are not sealed: %v",
			x.gathering, n, x.e.batches.Sharing())
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
			x.note(coordinator.InvariantTaskRecord, "", "%d numbers are given to %d open tasks, and %d are free", n-1, open,
				len(e.tasks.free))
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
	r := e.recordOf(t)
	switch {
	case r == nil:
		x.task(coordinator.InvariantTaskRecord, t, "it is open, and nothing is remembered of it")
		return
	case r.Key != t.key || r.Ref != t.number || int(t.number) != n || !r.Fate.IsOpen():
		x.task(coordinator.InvariantTaskRecord, t, "it is number %d at place %d, its record says %d, %s", t.number, n, r.Ref,
			r.Fate)
	case (r.Fate == coordinator.FateOpen) == leased, (r.Fate == coordinator.FateUnsettled) != (leased && t.unanswered):
		x.task(coordinator.InvariantTaskRecord, t, "it is in state %d, unanswered %v, its record says %s", t.state,
			t.unanswered, r.Fate)
	}
	if t.Over || (e.held[t.handle] == t) == leased {
		x.task(coordinator.InvariantTaskState, t, "it is open in state %d, held %v, its outcome told %v", t.state,
			e.held[t.handle] == t, t.Over)
	}
	if t.state < stateDispatching {
		return
	}
	switch {
	case t.agent == nil:
		x.task(coordinator.InvariantAgentAccount, t, "it is in state %d and with no agent", t.state)
		return
	case !t.On() != t.returning:
		x.task(coordinator.InvariantAgentAccount, t, "it is with %s, at %d of its account, given back %v", t.agent.Spec.ID,
			t.At(), t.returning)
	case t.On() && (t.At() >= len(t.agent.Open) || t.agent.Open[t.At()] != t ||
		e.fleet.Known(t.agent.Spec.ID) != t.agent):
		x.task(coordinator.InvariantAgentAccount, t, "it says that it is at %d of the account of %s, and is not", t.At(),
			t.agent.Spec.ID)
	}
	if leased && (t.deadline.IsZero() || (t.agent.Tracked || len(t.tried) > 0 || t.unanswered || t.Apart) &&
		!x.set(&t.expire)) {
		x.task(coordinator.InvariantLeaseDeadline, t, "%s has it (dispatch %s), and nobody watches its deadline (%v)",
			t.agent.Spec.ID, t.dispatchID, t.deadline)
	}
}
