package engine

import (
	"cmp"
	"reflect"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/fairshare"
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
	f := &e.fleet
	checkIsolated(t, e)
	for i, a := range f.Agents {
		v := f.Views[i]
		again := coordinator.AgentView{
			ID: a.Spec.ID, Load: a.Load(), InFlight: a.InFlight(), Max: a.Maximum(), Free: a.Free(),
			Rank: a.Spec.Rank, Capabilities: len(a.Spec.Capabilities), LastAssigned: v.LastAssigned, Flexibility: v.Flexibility,
			Capacity: a.ItemsPerSecond(), Pending: a.Items(),
			ReportedLoad: a.Report.Load, Hash: coordinator.Hash(string(a.Spec.ID), 0), Cost: cmp.Or(a.Spec.Cost, a.MeanCost),
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
		case (a.stale.index >= 0) != (a.State == coordinator.AgentOnline):
			t.Fatalf("%s is %s, watched: %v", a.Spec.ID, a.State, a.stale.index >= 0)
		}
	}
	online := make(map[string]int)
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
		for _, c := range append([]string{""}, a.Spec.Capabilities...) {
			if a.State == coordinator.AgentOnline {
				online[c]++
			}
		}
		if text := e.ejections.Check(a.Number, a.State == coordinator.AgentOnline); text != "" {
			t.Fatalf("%s: %s", a.Spec.ID, text)
		}
	}
	for c, n := range online {
		if supply := e.ejections.Supply(c); supply != n {
			t.Fatalf("%d supply %q, counted are %d", supply, c, n)
		}
	}
	for c := range e.pending.All() {
		for i := range f.Agents {
			if c.Usable.Has(i) != (c.criteria.Set.Has(i) && !e.ejections.Ejected(i, c.required...)) {
				t.Fatalf("%s: usable for %v: %v", f.Agents[i].Spec.ID, c.required, c.Usable.Has(i))
			}
		}
		if wrong := e.pending.Misfiled(&c.waitingClass); wrong != "" || c.unserved() != c.criteria.Set.Empty() {
			t.Fatalf("class %q, nobody %v: %s", c.Key, c.unserved(), wrong)
		}
	}
	var count [4]int
	waiting, gathering := 0, 0
	for h, o := range e.held {
		checkRefused(t, e, o)
		if o.handle != h {
			t.Fatalf("handle %d is kept under %d", o.handle, h)
		}
		// a lease begins when it is settled
		if (o.expire.index >= 0) != (o.state == stateWaiting || o.state == stateUnscored || o.state == stateDelayed) ||
			(o.state == stateWaiting && o.lane.InLine() || o.state == stateDelayed || o.state == stateUnscored ||
				o.state == stateGathering || o.state == stateBidding) != (o.retry.index >= 0 ||
				slices.Contains(e.retries.All(), o)) {
			t.Fatalf("%s in state %d: expire %d, retry %d", o.task.ID, o.state, o.expire.index, o.retry.index)
		}
		if pending := o.state == stateWaiting || o.state == stateUnscored; (o.lane.InLine()) != (pending && e.mayMove(o)) {
			t.Fatalf("%s in state %d stands in line: %v", o.task.ID, o.state, o.lane.InLine())
		}
		switch o.state {
		case stateWaiting:
			waiting++
			c := o.needs.class
			if !c.Holds(o, o.leaf, o.level, o.index) || e.pending.Misfiled(&c.waitingClass) != "" {
				t.Fatalf("%s waits, but is not in its class", o.task.ID)
			}
			for i, a := range f.Agents {
				why := criteria.Check(o.askedOf(), &a.Spec) // by all that is registered
				plainly := feasible(a, o) && (len(c.only) == 0 || slices.Contains(c.only, a.Spec.ID))
				if c.criteria.Set.Has(i) != (why == coordinator.Eligible) || !plainly && why == coordinator.Eligible || plainly &&
					saysPlainly(why) {
					t.Fatalf("%s and %s: feasible %v, it is %s", o.task.ID, a.Spec.ID, c.criteria.Set.Has(i), why)
				}
			}
			count[o.task.Priority]++
		case stateDelayed, stateUnscored:
			count[o.task.Priority]++
		case stateBidding:
			count[o.task.Priority]++
			if !slices.Contains(e.market.Lots(), o.lot) || o.lot.Task != o {
				t.Fatalf("%s is offered, and nobody knows of it", o.task.ID)
			}
		case stateGathering:
			gathering++
			count[o.task.Priority]++
			if members, closes := e.batches.Gathering(batchKeyOf(o)); !slices.Contains(members, o) || !o.retry.at.Equal(closes) {
				t.Fatalf("%s waits for others until %v, but they do not know of it: %v", o.task.ID, closes, members)
			}
		}
	}
	if count != e.pending.count {
		t.Fatalf("pending %v, recounted %v", e.pending.count, count)
	}
	for _, c := range e.pending.Active() {
		waiting -= c.Waiting.Len()
		c.Waiting.Visit(func(h fairshare.Head[*openTask], _ int, ordered bool) {
			if !ordered {
				t.Fatalf("class %q: %s goes before the one above it", c.Key, h.Item.task.ID)
			}
		})
	}
	for key, members := range e.batches.All() {
		gathering -= len(members)
		if limits := e.policy.Routes[key.taskType].Batch; len(members) == 0 || len(members) >= limits.MaxSize {
			t.Fatalf("%d tasks %+v gather, of at most %d", len(members), key, limits.MaxSize)
		}
	}
	if gathering != 0 || e.batches.Sharing() {
		t.Fatalf("%d more tasks gather than are in batches; some are not sealed: %v", gathering, e.batches.Sharing())
	}
	checkMarket(t, e)
	if waiting != 0 {
		t.Fatalf("%d more tasks wait than are in the classes", waiting)
	}
	for _, h := range e.timers.heaps {
		for i, tm := range h.Items {
			if tm.index != i || h.Before(tm, h.Items[max(0, (i-1)/2)]) {
				t.Fatalf("timer %d has index %d or is out of order", i, tm.index)
			}
		}
	}
	reasons := e.dedupe.Image().Reasons
	for key, text := range reasons {
		if r := e.dedupe.Peek(key); r == nil || !r.IsWithdrawn() || text == "" || len(reasons) > dedupe.MaxReasons {
			t.Fatalf("one of %d reasons (%q): its record is %+v", len(reasons), text, r)
		}
	}
	if found := e.Audit(e.now); len(found) > 0 {
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
	for number := e.dedupe.First(); number < e.dedupe.First()+uint64(e.dedupe.Size()); number++ {
		if _, fault := e.dedupe.Check(number); fault != "" {
			t.Fatalf("%s", fault)
		}
	}
	for r := range e.dedupe.Latest() {
		known++
		if !r.Fate.IsOpen() {
			continue
		}
		open++
		if o := e.tasks.all[r.Ref]; o == nil || o.number != r.Ref || o.key != r.Key {
			t.Fatalf("record %+v is open and refers to %d: %+v", r, r.Ref, o)
		}
	}
	if known != e.dedupe.IDs() {
		t.Fatalf("the window has %d records, its index %d", known, e.dedupe.IDs())
	}
	for n, o := range e.tasks.all {
		if o == nil {
			continue
		}
		open--
		r := e.recordOf(o)
		switch {
		case r == nil || r.Ref != o.number || int(o.number) != n || o.Over:
			t.Fatalf("%s is number %d at %d, over %v, its record is %+v", o.task.ID, o.number, n, o.Over, r)
		case (r.Fate == coordinator.FateOpen) != (o.state != stateLeased),
			(e.held[o.handle] == o) != (o.state != stateLeased):
			t.Fatalf("%s in state %d, fate %d, held %v", o.task.ID, o.state, r.Fate, e.held[o.handle] == o)
		case o.state == stateLeased && (o.expire.index >= 0) != (o.agent.Tracked || len(o.tried) > 0 || o.unanswered ||
			o.Apart):
			t.Fatalf("%s is with %s, its deadline is watched: %v", o.task.ID, o.agent.Spec.ID, o.expire.index >= 0)
		case o.state >= stateDispatching && !o.On() != o.returning:
			t.Fatalf("%s is with %s, at %d of its account, returning %v", o.task.ID, o.agent.Spec.ID, o.At(), o.returning)
		}
	}
	if open != 0 {
		t.Fatalf("%d more open records than open tasks", open)
	}
	for _, n := range e.tasks.free {
		if e.tasks.all[n] != nil {
			t.Fatalf("number %d is free and %s's", n, e.tasks.all[n].task.ID)
		}
	}
	for _, o := range e.held {
		if o.Over != (o.number == 0) || o.Over && o.state != stateDispatching {
			t.Fatalf("%s is held in state %d, number %d, over %v", o.task.ID, o.state, o.number, o.Over)
		}
	}
}

// checkAccounts: what is on an agent's account knows its place, and the counts are
// those of its parts.
func checkAccounts(t failer, e *Engine) {
	t.Helper()
	taken := 0
	for _, fleet := range []map[coordinator.AgentID]*agent{e.fleet.ByID, e.fleet.Left} {
		for id, a := range fleet {
			uncovered := 0
			for i, o := range a.Open {
				if !o.Covered {
					uncovered++
				}
				if o.At() != i || o.agent != a || o.Over && o.expire.index >= 0 {
					t.Fatalf("%s at %d of the account of %s knows its place as %d of %s", o.task.ID, i, id, o.At(), o.agent.Spec.ID)
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
	if taken != e.takeBacks || taken > maxTakeBacks {
		t.Fatalf("%d queues are taken back, counted %d", taken, e.takeBacks)
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
func feasible(a *agent, o *openTask) bool {
	for _, c := range o.needs.required {
		if !slices.Contains(a.Spec.Capabilities, c) {
			return false
		}
	}
	return !slices.Contains(o.task.Excluded, a.Spec.ID) && !slices.Contains(o.barred(), a.Spec.ID)
}

// checkMarket recounts what auctions hold of the agents, and of classes.
func checkMarket(t failer, e *Engine) {
	t.Helper()
	for _, l := range e.market.Lots() {
		o := l.Task
		if o.state != stateBidding || o.lot != l {
			t.Fatalf("the auction of %s is open, and it is in state %d", o.task.ID, o.state)
		}
		if e.pending.Find([]byte(o.needs.class.Key)) != &o.needs.class.waitingClass {
			t.Fatalf("the class of %s, which is offered, is not kept", o.task.ID)
		}
		if !e.now.Before(l.Closes()) {
			t.Fatalf("the auction of %s was to end at %v, it is %v", o.task.ID, l.Closes(), e.now)
		}
	}
	bidders := func(yield func(*bidder) bool) {
		for _, a := range e.fleet.Agents {
			if !yield(&a.bidding) {
				return
			}
		}
	}
	classes := func(yield func(*market.Class) bool) {
		for c := range e.pending.All() {
			if !yield(&c.lots) {
				return
			}
		}
	}
	if err := e.market.Check(bidders, classes); err != nil {
		t.Fatalf("%v", err)
	}
}

// checkIsolated looks at the groups of the tasks that must be alone.
func checkIsolated(t failer, e *Engine) {
	t.Helper()
	err := e.isolated.Check(func(o *openTask) (*class, bool) { return o.needs.class, o.alone && e.held[o.handle] == o })
	if err != nil {
		t.Fatalf("those that must be alone: %v", err)
	}
	for _, o := range e.held {
		switch waits := o.state == stateWaiting || o.state == stateUnscored; {
		case o.isolation.Waits() && !waits, o.state == stateWaiting && o.alone != (o.isolation.Waits()):
			t.Fatalf("%s in state %d, alone %v, is among those that must be alone: %v", o.task.ID, o.state, o.alone,
				o.isolation.Waits())
		}
	}
}

// checkRefused compares what a choice says of the agents that are out with a full pass over the fleet.
func checkRefused(t failer, e *Engine, o *openTask) {
	t.Helper()
	if o.state == stateDelayed {
		return // its class is of when it came back: it is found anew before it is decided
	}
	c, f := o.needs.class, &e.fleet
	if c == nil || len(f.Agents) == 0 || len(c.Usable) != len(f.Ready) || e.pending.Find([]byte(c.Key)) != &c.waitingClass {
		return
	}
	var got choice.Kept
	var want [coordinator.NumIneligibilities]int
	free := e.freeFor(o)
	eligible := c.Usable.Common(free)
	got.Eligible = eligible
	e.question(o).Refuse(&got, eligible)
	why, all, feasible := make(map[coordinator.AgentID]coordinator.Ineligibility), 0, 0
	asked := o.askedOf()
	for _, a := range f.Agents {
		is := e.ineligibility(a, o, &asked)
		if is == coordinator.Eligible {
			continue
		}
		want[is]++
		why[a.Spec.ID] = is
		all++
		if c.criteria.Set.Has(a.Number) {
			feasible++
		}
	}
	switch {
	case got.Refused != want || all+eligible != len(f.Agents) || got.WithoutQuota != 0:
		t.Fatalf("%s: refused %v of %d agents, %d eligible, %d without quota; a full pass says %v", o.task.ID, got.Refused,
			len(f.Agents), eligible, got.WithoutQuota, want)
	case all > coordinator.MaxNamed && feasible > coordinator.MaxNamed:
		all = 0
	case all > coordinator.MaxNamed:
		all = feasible
	}
	if len(got.Refusals) != all {
		t.Fatalf("%s: %d refused agents are named, not %d", o.task.ID, len(got.Refusals), all)
	}
	for i, r := range got.Refusals {
		if r.Why != why[r.Agent] || r.FreeIn != 0 || i > 0 && got.Refusals[i-1].Why < r.Why {
			t.Fatalf("%s: %s is named as %s, a full pass says %s (%+v)", o.task.ID, r.Agent, r.Why, why[r.Agent], got.Refusals)
		}
		delete(why, r.Agent)
	}
}
