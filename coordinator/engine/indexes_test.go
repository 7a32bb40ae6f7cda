package engine

import (
	"slices"

	"taskbus/coordinator"
)

// failer is what checkIndexes needs of a test.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkIndexes recomputes everything that the engine keeps in more than one
// place and fails where the copies differ.
func checkIndexes(t failer, e *Engine) {
	t.Helper()
	f := &e.fleet
	for i, a := range f.agents {
		v := f.views[i]
		again := coordinator.AgentView{
			ID: a.spec.ID, Load: a.load(), InFlight: a.inFlight(), Max: a.maximum(), Free: a.free(),
			Rank: a.spec.Rank, Capabilities: len(a.spec.Capabilities), LastAssigned: v.LastAssigned,
		}
		switch {
		case a.number != i || f.byID[a.spec.ID] != a:
			t.Fatalf("%s: number %d at place %d", a.spec.ID, a.number, i)
		case i > 0 && f.agents[i-1].spec.ID >= a.spec.ID:
			t.Fatalf("agents are not sorted at %s", a.spec.ID)
		case v != again:
			t.Fatalf("%s: view %+v, recomputed %+v", a.spec.ID, v, again)
		case f.ready.has(i) != (f.eligibility(a) == coordinator.Eligible):
			t.Fatalf("%s: ready %v, but %s", a.spec.ID, f.ready.has(i), f.eligibility(a))
		case (a.stale.index >= 0) != (a.state == coordinator.AgentOnline):
			t.Fatalf("%s is %s, watched: %v", a.spec.ID, a.state, a.stale.index >= 0)
		}
	}
	for key, c := range e.pending.classes {
		if key != c.key || c.nobody != c.feasible.empty() {
			t.Fatalf("class %q is kept under %q, nobody %v", c.key, key, c.nobody)
		}
	}
	var count [4]int
	waiting := 0
	for h, o := range e.held {
		if o.handle != h {
			t.Fatalf("handle %d is kept under %d", o.handle, h)
		}
		if (o.expire.index >= 0) != (o.state == stateWaiting || o.state == stateDelayed) ||
			(o.state == stateDelayed) != (o.retry.index >= 0 || slices.Contains(e.retries.tasks, o)) {
			t.Fatalf("%s in state %d: expire %d, retry %d", o.task.ID, o.state, o.expire.index, o.retry.index)
		}
		switch o.state {
		case stateWaiting:
			waiting++
			c := o.needs.class
			if c.waiting.items[o.index] != o || e.pending.active[c.active] != c {
				t.Fatalf("%s waits, but is not in its class", o.task.ID)
			}
			for i, a := range f.agents {
				if c.feasible.has(i) != feasible(a, o) {
					t.Fatalf("%s and %s: feasible %v", o.task.ID, a.spec.ID, c.feasible.has(i))
				}
			}
			count[o.task.Priority]++
		case stateDelayed:
			count[o.task.Priority]++
		}
	}
	if count != e.pending.count {
		t.Fatalf("pending %v, recounted %v", e.pending.count, count)
	}
	for _, c := range e.pending.active {
		waiting -= len(c.waiting.items)
		for i, o := range c.waiting.items {
			if parent := c.waiting.items[max(0, (i-1)/2)]; c.waiting.before(o, parent) {
				t.Fatalf("class %q: %s stands behind %s", c.key, o.task.ID, parent.task.ID)
			}
		}
	}
	if waiting != 0 {
		t.Fatalf("%d more tasks wait than are in the classes", waiting)
	}
	for _, h := range e.timers.heaps {
		for i, tm := range h.items {
			if tm.index != i || h.before(tm, h.items[max(0, (i-1)/2)]) {
				t.Fatalf("timer %d has index %d or is out of order", i, tm.index)
			}
		}
	}
	if e.memory.size() < len(e.memory.index) { // a record that was replaced stays until its time
		t.Fatalf("memory holds %d records, the index %d", e.memory.size(), len(e.memory.index))
	}
	open := 0
	for half, number := range e.memory.index {
		r := e.memory.at(number)
		_, unsettled := e.memory.unsettled[r.key]
		if r.key[0] != half || number < e.memory.first || unsettled != (r.fate == fateUnsettled) {
			t.Fatalf("record %d %+v under %x, unsettled %v", number, r, half, unsettled)
		}
		if r.fate == fateOpen {
			open++
		}
	}
	for _, o := range e.held {
		if r := e.memory.record(o.key, o.record); r == nil || r.key != o.key || r.fate != fateOpen {
			t.Fatalf("%s is held, its record is %+v", o.task.ID, r)
		}
		open--
	}
	if open != 0 {
		t.Fatalf("%d open records without a task", open)
	}
}

// feasible asks naively whether the agent could ever have the task.
func feasible(a *agent, o *openTask) bool {
	for _, c := range o.needs.required {
		if !slices.Contains(a.spec.Capabilities, c) {
			return false
		}
	}
	return !slices.Contains(o.task.Excluded, a.spec.ID) && !slices.Contains(o.tried, a.spec.ID)
}
