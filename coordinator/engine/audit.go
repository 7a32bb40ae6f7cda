package engine

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
)

// The audit checks that the state of the engine is consistent: much of it is stored twice, once in a form that is
// quick to change and once in a form that is quick to query, and both must agree. It changes nothing that a
// decision depends on.

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
		x.held(slices.Values(slices.Sorted(maps.Keys(e.held)))) // reports must not depend on the order of a map
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

// set reports whether a timer is scheduled, at the place that it has stored.
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

// Holds reports whether the engine holds a task by this delivery.
func (e *Engine) Holds(h coordinator.Handle) bool { return e.held[h] != nil }

// Waits reports whether the task that it holds by this delivery is pending.
func (e *Engine) Waits(h coordinator.Handle) bool {
	t := e.held[h]
	return t != nil && t.state < stateDispatching
}

// What the auditor finds in tasks.

// held checks every task with a delivery that is not settled.
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

// classes checks the classes in which tasks wait.
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
		if c.unserved() != c.criteria.Set.Empty() || !slices.Equal(c.Usable, e.ejections.Usable(c.criteria.Set, c.required)) {
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

// fleet checks agents and their accounts. The agents that have left are few, and checked in each Audit.
func (x *inspection) fleet() {
	e := x.e
	inTurn(&e.audited.agent, len(e.fleet.Agents), auditAgents, func(n int) int {
		a := e.fleet.Agents[n]
		x.account(a)
		x.member(n, a)
		return agentWeight + len(a.Open)
	})
	for _, id := range slices.Sorted(maps.Keys(e.fleet.Left)) {
		a := e.fleet.Left[id]
		x.account(a)
		if a.Number >= 0 || a.Spec.ID != id || a.TakenQueue != "" {
			x.agent(coordinator.InvariantFleetIndex, a, "it has left as %s, and has number %d and %q taken back", id, a.Number,
				a.TakenQueue)
		}
	}
	if len(e.fleet.Agents) > auditFleet {
		return
	}
	taken := 0
	for _, a := range e.fleet.Agents {
		if a.TakenQueue != "" {
			taken++
		}
	}
	if taken != e.takeBacks {
		x.note(coordinator.InvariantTakeBacks, "", "%d queues are taken back, counted are %d", taken, e.takeBacks)
	}
}

// account looks at the dispatches that an agent has.
func (x *inspection) account(a *agent) {
	uncovered := 0
	for i, t := range a.Open {
		if !t.Covered {
			uncovered++
		}
		switch {
		case t.At() != i || t.agent != a:
			x.task(coordinator.InvariantAgentAccount, t, "it is at %d of the account of %s, and says %d", i, a.Spec.ID, t.At())
		case t.state != stateDispatching && t.state != stateLeased || t.Over && t.expire.index >= 0:
			x.task(coordinator.InvariantAgentAccount, t, "it is on the account of %s in state %d, its outcome told %v",
				a.Spec.ID, t.state, t.Over)
		case !t.Over && !x.e.tasks.has(t):
			x.task(coordinator.InvariantAgentAccount, t, "it is on the account of %s and not among the open tasks", a.Spec.ID)
		}
	}
	if uncovered != a.Uncovered || a.Credit < 0 || a.Credit > len(a.Recent) {
		x.agent(coordinator.InvariantAgentAccount, a,
			"%d of its %d dispatches are covered by no report, counted are %d; it has credit for %d of %d tasks",
			uncovered, len(a.Open), a.Uncovered, a.Credit, len(a.Recent))
	}
}

// member checks what is stored about an agent of the fleet in several places.
func (x *inspection) member(n int, a *agent) {
	e, f := x.e, &x.e.fleet
	if a.Number != n || f.ByID[a.Spec.ID] != a || f.ByQueue[a.Spec.Queue] != a || n > 0 &&
		f.Agents[n-1].Spec.ID >= a.Spec.ID {
		x.agent(coordinator.InvariantFleetIndex, a, "it is number %d at place %d; found by its id %v, by its queue %v",
			a.Number, n, f.ByID[a.Spec.ID] == a, f.ByQueue[a.Spec.Queue] == a)
		return // what follows would ask for another
	}
	v := &f.Views[n]
	again := coordinator.AgentView{ID: a.Spec.ID, Load: a.Load(), InFlight: a.InFlight(), Max: a.Maximum(), Free: a.Free(),
		Capacity: a.ItemsPerSecond(), Pending: a.Items(), ReportedLoad: a.Report.Load, Cost: cmp.Or(a.Spec.Cost, a.MeanCost)}
	if v.ID != again.ID || v.Load != again.Load || v.InFlight != again.InFlight || v.Max != again.Max ||
		v.Free != again.Free ||
		v.Capacity != again.Capacity || v.Pending != again.Pending || v.ReportedLoad != again.ReportedLoad ||
		v.Cost != again.Cost {
		x.agent(coordinator.InvariantAgentSlots, a,
			"strategies see %d in flight, %d of %d slots free, load %.3f; it has %d, %d of %d, %.3f",
			v.InFlight, v.Free, v.Max, v.Load, again.InFlight, again.Free, again.Max, again.Load)
	}
	if again.InFlight < 0 || again.Free < 0 || again.InFlight+again.Free > max(again.Max, again.InFlight) {
		x.agent(coordinator.InvariantAgentSlots, a, "%d of its %d slots are free with %d tasks in flight", again.Free,
			again.Max, again.InFlight)
	}
	if why := f.Eligibility(a); f.Ready.Has(n) != (why == coordinator.Eligible) {
		x.agent(coordinator.InvariantAgentReady, a, "it is marked as ready %v, and is %s", f.Ready.Has(n), why)
	}
	if x.set(&a.stale) != (a.State == coordinator.AgentOnline) {
		x.agent(coordinator.InvariantTimers, a, "it is %s, its silence is watched: %v", a.State, x.set(&a.stale))
	}
	if text := e.ejections.Check(n, a.State == coordinator.AgentOnline); text != "" {
		x.agent(coordinator.InvariantAgentReady, a, "%s", text)
	}
}

// auditQuotasEvery is how many audits come to one of the quotas, which looks at all that is
// set aside: with 10,000 dispatches open that takes a few milliseconds.
const auditQuotasEvery = 8

// quotas looks whether what is set aside belongs to dispatches that are open, and adds up;
// and whether what waits for quota is where that is known.
func (x *inspection) quotas() {
	e, q := x.e, &x.e.quotas
	if e.audited.quotas++; !q.Installed() || e.audited.quotas%auditQuotasEvery != 1 {
		return
	}
	held := make(map[coordinator.TaskKey]bool)
	for _, t := range e.tasks.all {
		if t == nil || t.quota == nil || !t.quota.Open {
			continue
		}
		held[t.quota.Key] = true
		if t.state < stateDispatching || t.Over ||
			t.quota.Key != admission.KeyOf(t.task.ID, t.attempt) {
			x.task(coordinator.InvariantQuotaBooks, t, "quota is set aside for it in state %d, its outcome told %v", t.state,
				t.Over)
		}
	}
	for _, v := range q.Check(func(key coordinator.TaskKey) bool { return held[key] }, e.following) {
		if v.Wait == nil {
			x.note(coordinator.InvariantQuotaBooks, v.Node, "%s", v.Text)
		} else {
			x.task(coordinator.InvariantQuotaBooks, v.Wait.Task.(*openTask), "%s", v.Text)
		}
	}
	for _, w := range q.Waits.All() {
		t, c := w.Task.(*openTask), w.Class.(*class)
		switch {
		case t.state != stateWaiting || t.needs.class != c || w.Leaf >= 0 && t.leaf != w.Leaf:
			x.task(coordinator.InvariantQuotaBooks, t,
				"others wait for quota behind it at leaf %d, and it is in state %d at leaf %d", w.Leaf, t.state, t.leaf)
		case w.Leaf < 0 && c.lacks.Whole != w, !c.Parked(w.Leaf):
			x.task(coordinator.InvariantQuotaBooks, t, "it waits for quota, and its class does not know")
		}
	}
}
