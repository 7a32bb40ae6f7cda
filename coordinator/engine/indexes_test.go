package engine

import (
	"cmp"
	"reflect"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/hash"
)

// failer is what CheckIndexes needs of a test.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// CheckIndexes recomputes everything that the engine keeps in more than one
// place and fails where the copies differ.
func CheckIndexes(t failer, e *Engine) {
	t.Helper()
	f := &e.k.Fleet
	checkIsolated(t, e)
	for i, a := range f.Agents {
		v := f.Views[i]
		again := coordinator.AgentView{
			ID: a.Spec.ID, Load: a.Load(), InFlight: a.InFlight(), Max: a.Maximum(), Free: a.Free(),
			Rank: a.Spec.Rank, Capabilities: len(a.Spec.Capabilities), LastAssigned: v.LastAssigned, Flexibility: v.Flexibility,
			Capacity: a.ItemsPerSecond(), Pending: a.Items(),
			ReportedLoad: a.Report.Load, Hash: hash.Of(string(a.Spec.ID), 0), Cost: cmp.Or(a.Spec.Cost, a.MeanCost),
			Labels: a.Spec.Labels,
		}
		switch {
		case a.Number != i || f.ByID[a.Spec.ID] != a:
			t.Fatalf("%s: number %d at place %d", a.Spec.ID, a.Number, i)
		case i > 0 && f.Agents[i-1].Spec.ID >= a.Spec.ID:
			t.Fatalf("agents are not sorted at %s", a.Spec.ID)
		case !reflect.DeepEqual(v, again):
			t.Fatalf("%s: view %+v, recomputed %+v", a.Spec.ID, v, again)
		case f.Ready.Has(i) != (f.Eligibility(a) == coordinator.Eligible):
			t.Fatalf("%s: ready %v, but %s", a.Spec.ID, f.Ready.Has(i), f.Eligibility(a))
		case f.Causes[i] != f.Eligibility(a):
			t.Fatalf("%s: it is kept as %s, and is %s", a.Spec.ID, f.Causes[i], f.Eligibility(a))
		case f.Present.Has(i) != (f.PresenceOf(a) == coordinator.Eligible):
			t.Fatalf("%s: present %v, but %s", a.Spec.ID, f.Present.Has(i), f.PresenceOf(a))
		case (a.Timers[fleet.Silence].Index >= 0) != (a.State == coordinator.AgentOnline):
			t.Fatalf("%s is %s, watched: %v", a.Spec.ID, a.State, a.Timers[fleet.Silence].Index >= 0)
		}
	}
	for why, set := range f.ByCause {
		for i := range f.Agents {
			if set.Has(i) != (int(f.Causes[i]) == why) {
				t.Fatalf("%s is among those that are %s, and is %s", f.Agents[i].Spec.ID, coordinator.Ineligibility(why),
					f.Causes[i])
			}
		}
		if n := set.Common(set); n != f.Tally[why] {
			t.Fatalf("%d agents are %s, counted are %d", f.Tally[why], coordinator.Ineligibility(why), n)
		}
	}
	for _, a := range f.Agents {
		if text := e.k.Ejections.Check(a.Number, a.State == coordinator.AgentOnline); text != "" {
			t.Fatalf("%s: %s", a.Spec.ID, text)
		}
	}
	for c := range e.k.Pending.All() {
		for i := range f.Agents {
			if c.Usable.Has(i) != (c.Criteria.Set.Has(i) && !e.k.Ejections.Ejected(i, c.Required...)) {
				t.Fatalf("%s: usable for %v: %v", f.Agents[i].Spec.ID, c.Required, c.Usable.Has(i))
			}
		}
		if wrong := e.k.Pending.Check(&c.WaitingClass); wrong != "" || c.Unserved() != c.Criteria.Set.Empty() {
			t.Fatalf("class %q, nobody %v: %s", c.Key, c.Unserved(), wrong)
		}
	}
	var count [4]int
	waiting, gathering := 0, 0
	for h, o := range e.k.Held {
		checkRefused(t, e, o)
		if o.Handle != h {
			t.Fatalf("handle %d is kept under %d", o.Handle, h)
		}
		// a lease begins when it is settled
		if (o.Expire.Index >= 0) != (o.Stage == state.Waiting || o.Stage == state.Unscored || o.Stage == state.Delayed) ||
			(o.Stage == state.Waiting && o.Lane.InLine() || o.Stage == state.Delayed || o.Stage == state.Unscored ||
				o.Stage == state.Gathering || o.Stage == state.Bidding) != (o.Retry.Index >= 0 ||
				slices.Contains(e.k.Retries.All(), o)) {
			t.Fatalf("%s in state %d: expire %d, retry %d", o.Task.ID, o.Stage, o.Expire.Index, o.Retry.Index)
		}
		if pending := o.Stage == state.Waiting || o.Stage == state.Unscored; (o.Lane.InLine()) != (pending &&
			e.k.MayMove(o)) {
			t.Fatalf("%s in state %d stands in line: %v", o.Task.ID, o.Stage, o.Lane.InLine())
		}
		switch o.Stage {
		case state.Waiting:
			waiting++
			c := o.Needs.Class
			if !c.Holds(o, o.Leaf, o.Level, o.Index) || e.k.Pending.Check(&c.WaitingClass) != "" {
				t.Fatalf("%s waits, but is not in its class", o.Task.ID)
			}
			for i, a := range f.Agents {
				why := criteria.Check(o.AskedOf(), &a.Spec) // by all that is registered
				plainly := feasible(a, o) && (len(c.Only) == 0 || slices.Contains(c.Only, a.Spec.ID))
				if c.Criteria.Set.Has(i) != (why == coordinator.Eligible) || !plainly && why == coordinator.Eligible || plainly &&
					saysPlainly(why) {
					t.Fatalf("%s and %s: feasible %v, it is %s", o.Task.ID, a.Spec.ID, c.Criteria.Set.Has(i), why)
				}
			}
			count[o.Task.Priority]++
		case state.Delayed, state.Unscored:
			count[o.Task.Priority]++
		case state.Bidding:
			count[o.Task.Priority]++
			if !slices.Contains(e.k.Market.Lots(), o.Lot) || o.Lot.Task != o {
				t.Fatalf("%s is offered, and nobody knows of it", o.Task.ID)
			}
		case state.Gathering:
			gathering++
			count[o.Task.Priority]++
			if members, closes := e.k.Batches.Gathering(state.BatchKeyOf(o)); !slices.Contains(members, o) ||
				!o.Retry.At.Equal(closes) {
				t.Fatalf("%s waits for others until %v, but they do not know of it: %v", o.Task.ID, closes, members)
			} else if limits := e.k.Policy.Routes[o.Task.Type].Batch; len(members) >= limits.MaxSize {
				t.Fatalf("%d tasks like %s gather, of at most %d", len(members), o.Task.ID, limits.MaxSize)
			}
		}
	}
	if count != e.k.Pending.Count {
		t.Fatalf("pending %v, recounted %v", e.k.Pending.Count, count)
	}
	for _, c := range e.k.Pending.Active() {
		waiting -= c.Waiting.Len()
		c.Waiting.Visit(func(h fairqueue.Head[*state.Task], _ int, ordered bool) {
			if !ordered {
				t.Fatalf("class %q: %s goes before the one above it", c.Key, h.Item.Task.ID)
			}
		})
	}
	if wrong, n := e.k.Batches.Check(func(state.BatchKey, *state.Task) bool { return true }); n != gathering ||
		e.k.Batches.Sharing() {
		t.Fatalf("%d tasks gather, %d are in batches, wrongly %v; some are not sealed: %v", gathering, n, wrong,
			e.k.Batches.Sharing())
	}
	checkMarket(t, e)
	if waiting != 0 {
		t.Fatalf("%d more tasks wait than are in the classes", waiting)
	}
	for _, h := range e.k.Timers.Heaps {
		for i, tm := range h.Items {
			if tm.Index != i || h.Before(tm, h.Items[max(0, (i-1)/2)]) {
				t.Fatalf("timer %d has index %d or is out of order", i, tm.Index)
			}
		}
	}
	reasons := e.k.Dedupe.Image().Reasons
	for key, text := range reasons {
		if r := e.k.Dedupe.Peek(key); r == nil || !r.IsWithdrawn() || text == "" || len(reasons) > dedupe.MaxReasons {
			t.Fatalf("one of %d reasons (%q): its record is %+v", len(reasons), text, r)
		}
	}
	if found := e.Audit(e.k.Now); len(found) > 0 {
		t.Fatalf("the audit finds %+v", found)
	}
	checkReferences(t, e)
	checkAccounts(t, e)
}

// checkReferences: the dedupe window's records of open tasks and the open tasks refer to
// each other, one to one.
func checkReferences(t failer, e *Engine) {
	t.Helper()
	open, known := 0, 0
	for number := e.k.Dedupe.First(); number < e.k.Dedupe.First()+uint64(e.k.Dedupe.Size()); number++ {
		if _, fault := e.k.Dedupe.Check(number); fault != "" {
			t.Fatalf("%s", fault)
		}
	}
	for r := range e.k.Dedupe.Latest() {
		known++
		if !r.Fate.IsOpen() {
			continue
		}
		open++
		if o := e.k.Tasks.All[r.Ref]; o == nil || o.Number != r.Ref || o.Key != r.Key {
			t.Fatalf("record %+v is open and refers to %d: %+v", r, r.Ref, o)
		}
	}
	if known != e.k.Dedupe.IDs() {
		t.Fatalf("the window has %d records, its index %d", known, e.k.Dedupe.IDs())
	}
	for n, o := range e.k.Tasks.All {
		if o == nil {
			continue
		}
		open--
		r := e.k.RecordOf(o)
		switch {
		case r == nil || r.Ref != o.Number || int(o.Number) != n || o.Over:
			t.Fatalf("%s is number %d at %d, over %v, its record is %+v", o.Task.ID, o.Number, n, o.Over, r)
		case (r.Fate == coordinator.FateOpen) != (o.Stage != state.Leased),
			(e.k.Held[o.Handle] == o) != (o.Stage != state.Leased):
			t.Fatalf("%s in state %d, fate %d, held %v", o.Task.ID, o.Stage, r.Fate, e.k.Held[o.Handle] == o)
		case o.Stage == state.Leased && (o.Expire.Index >= 0) != (o.Agent.Tracked || len(o.Tried) > 0 || o.Unanswered ||
			o.Apart || o.Returning):
			t.Fatalf("%s is with %s, its deadline is watched: %v", o.Task.ID, o.Agent.Spec.ID, o.Expire.Index >= 0)
		case o.Stage >= state.Dispatching && !o.On() != o.Returning:
			t.Fatalf("%s is with %s, at %d of its account, returning %v", o.Task.ID, o.Agent.Spec.ID, o.At(), o.Returning)
		}
	}
	if open != 0 {
		t.Fatalf("%d more open records than open tasks", open)
	}
	for _, n := range e.k.Tasks.Free {
		if e.k.Tasks.All[n] != nil {
			t.Fatalf("number %d is free and %s's", n, e.k.Tasks.All[n].Task.ID)
		}
	}
	for _, o := range e.k.Held {
		if o.Over != (o.Number == 0) || o.Over && o.Stage != state.Dispatching {
			t.Fatalf("%s is held in state %d, number %d, over %v", o.Task.ID, o.Stage, o.Number, o.Over)
		}
	}
}

// checkAccounts: what is on an agent's account knows its place, and the counts are
// those of its parts.
func checkAccounts(t failer, e *Engine) {
	t.Helper()
	taken := 0
	for _, fleet := range []map[coordinator.AgentID]*state.Agent{e.k.Fleet.ByID, e.k.Fleet.Left} {
		for id, a := range fleet {
			uncovered := 0
			for i, o := range a.Open {
				if !o.Covered {
					uncovered++
				}
				if o.At() != i || o.Agent != a || o.Over && o.Expire.Index >= 0 {
					t.Fatalf("%s at %d of the account of %s knows its place as %d of %s", o.Task.ID, i, id, o.At(), o.Agent.Spec.ID)
				}
			}
			if uncovered != a.Uncovered || a.Credit < 0 || a.Credit > len(a.Recent) {
				t.Fatalf("%s: uncovered %d, recounted %d; credit %d of %d", id, a.Uncovered, uncovered, a.Credit, len(a.Recent))
			}
			if a.TakenQueue != "" {
				taken++
				if a.Number < 0 || a.TakenQueue != a.Spec.Queue {
					t.Fatalf("%s is taken back, of %s (%d)", a.TakenQueue, id, a.Number)
				}
			}
		}
	}
	if taken != e.k.Fleet.TakeBacks || taken > fleet.MaxTakeBacks {
		t.Fatalf("%d queues are taken back, counted %d", taken, e.k.Fleet.TakeBacks)
	}
}

// saysPlainly reports whether the cause is one of those that feasible knows, or of an agent that is not preferred.
func saysPlainly(why coordinator.Ineligibility) bool {
	switch why {
	case coordinator.LacksCapability, coordinator.ExcludedByTask, coordinator.AlreadyTried, coordinator.NotPreferred:
		return true
	}
	return false
}

// feasible asks naively whether the agent could ever have the task.
func feasible(a *state.Agent, o *state.Task) bool {
	for _, c := range o.Needs.Required {
		if !slices.Contains(a.Spec.Capabilities, c) {
			return false
		}
	}
	return !slices.Contains(o.Task.Excluded, a.Spec.ID) && !slices.Contains(o.Barred(), a.Spec.ID)
}

// checkMarket recounts what auctions hold of the agents, and of classes.
func checkMarket(t failer, e *Engine) {
	t.Helper()
	for _, l := range e.k.Market.Lots() {
		o := l.Task
		if o.Stage != state.Bidding || o.Lot != l {
			t.Fatalf("the auction of %s is open, and it is in state %d", o.Task.ID, o.Stage)
		}
		if e.k.Pending.Find([]byte(o.Needs.Class.Key)) != &o.Needs.Class.WaitingClass {
			t.Fatalf("the class of %s, which is offered, is not kept", o.Task.ID)
		}
		if !e.k.Now.Before(l.Closes()) {
			t.Fatalf("the auction of %s was to end at %v, it is %v", o.Task.ID, l.Closes(), e.k.Now)
		}
	}
	bidders := func(yield func(*state.Bidder) bool) {
		for _, a := range e.k.Fleet.Agents {
			if !yield(&a.Bidding) {
				return
			}
		}
	}
	classes := func(yield func(*market.Class) bool) {
		for c := range e.k.Pending.All() {
			if !yield(&c.Lots) {
				return
			}
		}
	}
	if err := e.k.Market.Check(bidders, classes); err != nil {
		t.Fatalf("%v", err)
	}
}

// checkIsolated looks at the groups of the tasks that must be alone.
func checkIsolated(t failer, e *Engine) {
	t.Helper()
	err := e.k.Isolated.Check(func(o *state.Task) (*state.Class, bool) {
		return o.Needs.Class, o.Alone &&
			e.k.Held[o.Handle] == o
	})
	if err != nil {
		t.Fatalf("those that must be alone: %v", err)
	}
	for _, o := range e.k.Held {
		switch waits := o.Stage == state.Waiting || o.Stage == state.Unscored; {
		case o.Isolation.Waits() && !waits, o.Stage == state.Waiting && o.Alone != (o.Isolation.Waits()):
			t.Fatalf("%s in state %d, alone %v, is among those that must be alone: %v", o.Task.ID, o.Stage, o.Alone,
				o.Isolation.Waits())
		}
	}
}

// checkRefused compares what a choice says of the agents that are out with a full pass over the fleet.
func checkRefused(t failer, e *Engine, o *state.Task) {
	t.Helper()
	if o.Stage == state.Delayed {
		return // its class is of when it came back: it is found anew before it is decided
	}
	c, f := o.Needs.Class, &e.k.Fleet
	if c == nil || len(f.Agents) == 0 || len(c.Usable) != len(f.Ready) ||
		e.k.Pending.Find([]byte(c.Key)) != &c.WaitingClass {
		return
	}
	var got choice.Kept
	var want [coordinator.NumIneligibilities]int
	free := e.k.FreeFor(o)
	eligible := c.Usable.Common(free)
	got.Eligible = eligible
	e.k.Question(o).Refuse(&got, eligible)
	why, all, feasible := make(map[coordinator.AgentID]coordinator.Ineligibility), 0, 0
	met := f.Index.Meet(o.AskedOf())
	for _, a := range f.Agents {
		is := e.ineligibility(a, o, &met)
		if is == coordinator.Eligible {
			continue
		}
		want[is]++
		why[a.Spec.ID] = is
		all++
		if c.Criteria.Set.Has(a.Number) {
			feasible++
		}
	}
	switch {
	case got.Refused != want || all+eligible != len(f.Agents) || got.WithoutQuota != 0:
		t.Fatalf("%s: refused %v of %d agents, %d eligible, %d without quota; a full pass says %v", o.Task.ID, got.Refused,
			len(f.Agents), eligible, got.WithoutQuota, want)
	case all > coordinator.MaxNamed && feasible > coordinator.MaxNamed:
		all = 0
	case all > coordinator.MaxNamed:
		all = feasible
	}
	if len(got.Refusals) != all {
		t.Fatalf("%s: %d refused agents are named, not %d", o.Task.ID, len(got.Refusals), all)
	}
	for i, r := range got.Refusals {
		if r.Why != why[r.Agent] || r.FreeIn != 0 || i > 0 && got.Refusals[i-1].Why < r.Why {
			t.Fatalf("%s: %s is named as %s, a full pass says %s (%+v)", o.Task.ID, r.Agent, r.Why, why[r.Agent], got.Refusals)
		}
		delete(why, r.Agent)
	}
}

// ineligibility is the first reason that holds, in the order of the constants; met are the agents that meet the
// criteria for the task.
func (e *Engine) ineligibility(a *state.Agent, t *state.Task, met *criteria.Feasible) coordinator.Ineligibility {
	f := &e.k.Fleet
	if !met.Set.Has(a.Number) {
		return met.Why(f.Index, t.Task, a.Number)
	}
	why := f.Eligibility(a)
	switch vacant := f.Vacant.Has(a.Number); {
	case !t.Alone:
	case vacant:
		why = coordinator.Eligible
	case why == coordinator.Eligible:
		why = coordinator.HasOthers
	}
	if (why == coordinator.Eligible || why > coordinator.Ejected) && e.k.Ejections.Ejected(a.Number, t.Needs.Required...) {
		return coordinator.Ejected
	}
	return why
}
