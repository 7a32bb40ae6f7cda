package audit

import (
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/invariant"
)

// checkHeld returns what is wrong with a task that is held by a delivery. affordable: the retry budget is waited for.
func (x *inspection) checkHeld(h coordinator.Handle, t *state.Task, affordable bool) (found invariant.Violations) {
	id := string(t.Task.ID)
	switch {
	case t.Handle != h:
		found.Note(invariant.TaskState, id, "it is held by the handle %d and has %d", h, t.Handle)
	case t.Over && (t.Number != 0 || t.Stage != state.Dispatching):
		found.Note(invariant.TaskState, id, "its outcome has been told, and it is held in state %d as number %d",
			t.Stage, t.Number)
	case !t.Over && !x.Tasks.Has(t):
		found.Note(invariant.TaskState, id, "it is held and not among the open tasks (number %d)", t.Number)
	}
	expires := t.Stage == state.Waiting || t.Stage == state.Unscored || t.Stage == state.Delayed
	again := t.Stage == state.Unscored || t.Stage == state.Gathering || t.Stage == state.Bidding
	switch t.Stage {
	case state.Waiting:
		again = t.Lane.InLine() // until it has been held for too long
		if c := t.Needs.Class; c == nil || !c.Holds(t, t.Leaf, t.Level, t.Index) {
			found.Note(invariant.TaskState, id, "it waits and is not in its class (place %d)", t.Index)
		}
	case state.Delayed:
		again = !affordable
	case state.Deciding, state.Leased:
		found.Note(invariant.TaskState, id, "it is held in state %d", t.Stage)
	}
	if x.Timers.Has(&t.Expire) != expires || x.Timers.Has(&t.Retry) != again {
		found.Note(invariant.Timers, id, "in state %d its timers are: to expire %v, to be looked at again %v",
			t.Stage, x.Timers.Has(&t.Expire), x.Timers.Has(&t.Retry))
	}
	if t.Lane.InLine() && t.Stage != state.Waiting && t.Stage != state.Unscored {
		found.Note(invariant.TaskState, id, "it is in a line for lanes, and in state %d", t.Stage)
	}
	return found
}

// checkRecord returns what is wrong with a record of the dedupe window.
func (x *inspection) checkRecord(number uint64) (found invariant.Violations) {
	r, fault := x.Dedupe.Check(number)
	if fault != "" {
		found.Note(invariant.TaskRecord, "", "%s", fault)
	}
	if all := x.Tasks.All; r.Fate.IsOpen() && (int(r.Ref) >= len(all) || all[r.Ref] == nil || all[r.Ref].Key != r.Key) {
		found.Note(invariant.TaskRecord, "", "record %d is %s and of the open task %d, which is not there", number,
			r.Fate, r.Ref)
	}
	return found
}

// checkOpen returns what is wrong with the open task at a place: its record, and its lease.
func (x *inspection) checkOpen(n int, t *state.Task) (found invariant.Violations) {
	id, r, leased, held := string(t.Task.ID), x.RecordOf(t), t.Stage == state.Leased, x.Held[t.Handle] == t
	switch {
	case r == nil:
		found.Note(invariant.TaskRecord, id, "it is open, and nothing is remembered of it")
		return found
	case r.Key != t.Key || r.Ref != t.Number || int(t.Number) != n || !r.Fate.IsOpen():
		found.Note(invariant.TaskRecord, id, "it is number %d at place %d, its record says %d, %s", t.Number, n,
			r.Ref, r.Fate)
	case (r.Fate == coordinator.FateOpen) == leased, (r.Fate == coordinator.FateUnsettled) != (leased && t.Unanswered):
		found.Note(invariant.TaskRecord, id, "it is in state %d, unanswered %v, its record says %s", t.Stage,
			t.Unanswered, r.Fate)
	}
	if t.Over || held == leased {
		found.Note(invariant.TaskState, id, "it is open in state %d, held %v, its outcome told %v", t.Stage, held,
			t.Over)
	}
	a := t.Agent
	switch {
	case t.Stage < state.Dispatching:
		return found
	case a == nil:
		found.Note(invariant.AgentAccount, id, "it is in state %d and with no agent", t.Stage)
		return found
	case !t.On() != t.Returning:
		found.Note(invariant.AgentAccount, id, "it is with %s, at %d of its account, given back %v", a.Spec.ID,
			t.At(), t.Returning)
	case t.On() && (t.At() >= len(a.Open) || a.Open[t.At()] != t || x.Fleet.Known(a.Spec.ID) != a):
		found.Note(invariant.AgentAccount, id, "it says that it is at %d of the account of %s, and is not", t.At(),
			a.Spec.ID)
	}
	if leased && (t.Deadline.IsZero() || t.IsWatched() && !x.Timers.Has(&t.Expire)) {
		found.Note(invariant.LeaseDeadline, id, "%s has it (dispatch %s), and no timer watches its deadline (%v)",
			a.Spec.ID, t.DispatchID, t.Deadline)
	}
	return found
}

// checkAccount returns what is wrong with the dispatches that an agent has.
func (x *inspection) checkAccount(a *state.Agent) (found invariant.Violations) {
	for i, t := range a.Open {
		id := string(t.Task.ID)
		switch {
		case t.Agent != a:
			found.Note(invariant.AgentAccount, id, "it is at %d of the account of %s, and says %d", i, a.Spec.ID,
				t.At())
		case t.Stage != state.Dispatching && t.Stage != state.Leased || t.Over && t.Expire.Index >= 0:
			found.Note(invariant.AgentAccount, id, "it is on the account of %s in state %d, its outcome told %v",
				a.Spec.ID, t.Stage, t.Over)
		case !t.Over && !x.Tasks.Has(t):
			found.Note(invariant.AgentAccount, id, "it is on the account of %s and not among the open tasks",
				a.Spec.ID)
		}
	}
	return found
}

// checkClass returns what is wrong with the tasks that wait in a class.
func (x *inspection) checkClass(c *state.Class) (found invariant.Violations) {
	if fault := x.Pending.Check(&c.WaitingClass); fault != "" {
		found.Note(invariant.PendingOrder, "", "class %q: %s", c.Key, fault)
	}
	c.Waiting.Visit(func(h fairqueue.Head[*state.Task], n int, ordered bool) {
		t := h.Item
		if t.Stage != state.Waiting || t.Index != n || t.Leaf != h.Leaf || t.Level != h.Level || t.Needs.Class != c ||
			x.Held[t.Handle] != t {
			found.Note(invariant.TaskState, string(t.Task.ID),
				"it is at %d of %d in class %q, says %d of %d, and is in state %d", n, h.Leaf, c.Key, t.Index, t.Leaf, t.Stage)
		} else if !ordered {
			found.Note(invariant.PendingOrder, string(t.Task.ID), "it goes before the one above it in class %q",
				c.Key)
		}
	})
	return found
}

// checkUsable returns what is wrong with the agents that may have the tasks of a class; none of them is ready.
func (x *inspection) checkUsable(c *state.Class) (found invariant.Violations) {
	if c.Unserved() != c.Criteria.Set.Empty() || !slices.Equal(c.Usable, x.Ejections.Usable(c.Criteria.Set, c.Required)) {
		found.Note(invariant.AgentReady, "", "class %q: who is of use for it is not who is capable and trusted",
			c.Key)
	}
	if n, t := c.Usable.Common(x.Fleet.Ready), c.First(); n > 0 && t != nil && x.MayGive(t) {
		found.Note(invariant.WorkConserved, string(t.Task.ID),
			"it waits with %d others, and %d agents are ready who could have it", c.Waiting.Len()-1, n)
	}
	return found
}

// checkQuotas looks whether what is set aside belongs to dispatches that are open, and adds up;
// and whether what waits for quota is where that is known.
func (x *inspection) checkQuotas() (found invariant.Violations) {
	q := &x.Quotas
	if !q.Installed() {
		return nil
	}
	note := func(t *state.Task, format string, args ...any) {
		found.Note(invariant.QuotaBooks, string(t.Task.ID), format, args...)
	}
	held := make(map[coordinator.TaskKey]bool)
	for _, t := range x.Tasks.All {
		if t == nil || t.Quota == nil || !t.Quota.Open {
			continue
		}
		held[t.Quota.Key] = true
		if t.Stage < state.Dispatching || t.Over || t.Quota.Key != admission.KeyOf(t.Task.ID, t.Attempt) {
			note(t, "quota is set aside for it in state %d, its outcome told %v", t.Stage, t.Over)
		}
	}
	for _, v := range q.Check(func(key coordinator.TaskKey) bool { return held[key] }, x.Following) {
		if v.Wait == nil {
			found.Note(invariant.QuotaBooks, v.Node, "%s", v.Text)
		} else {
			note(v.Wait.Task.(*state.Task), "%s", v.Text)
		}
	}
	for w := range q.Waits.Each() { // order does not matter: as a rule nothing is found
		t, c := w.Task.(*state.Task), w.Class.(*state.Class)
		switch {
		case t.Stage != state.Waiting || t.Needs.Class != c || w.Leaf >= 0 && t.Leaf != w.Leaf:
			note(t, "others wait for quota behind it at leaf %d, and it is in state %d at leaf %d", w.Leaf, t.Stage, t.Leaf)
		case w.Leaf < 0 && c.Lacks.Whole != w, !c.Parked(w.Leaf):
			note(t, "it waits for quota, and its class does not know")
		}
	}
	return found
}
