package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// checkAudit: the auditor, who looks at the books of a coordinator that runs, never
// finds anything; nor with one that follows, nor with one that takes over at this
// moment. That it changes nothing shows when the history is repeated without it.
func (h *history) checkAudit() {
	h.t.Helper()
	if h.e.policy == nil {
		return
	}
	books := map[string]*Engine{"the engine": h.e, "its twin": h.twin}
	if h.imaged%32 == 0 {
		heir := New()
		heir.Apply(h.now, coordinator.PolicyChanged{Policy: h.e.policy}, nil)
		heir.Follow()
		h.e.Image(h.now).Records(func(r coordinator.Record) bool { heir.Fold(h.now, copied(r)); return true })
		heir.Lead(h.now)
		heir.Apply(h.now, coordinator.SessionOpened{}, nil)
		books["its heir"] = heir
	}
	for whose, e := range books {
		if found := e.Audit(h.now); found != nil {
			h.t.Fatalf("the auditor finds in the books of %s %+v", whose, found)
		}
	}
}

// auditRig is an engine with a task in every state there is:
//
//	has       with a, which says exactly what it runs; so it has a deadline
//	back      came back from a, and waits to be tried again
//	on-way    published to b, not confirmed
//	aside     its strategy knows nobody for it
//	early, late   wait, the one accepted a second before the other
//	together  waits for others of its kind
func auditRig(t *testing.T) *rig {
	t.Helper()
	r := ready(t, policyOf(worker("a").can("go").slots(2), worker("b").can("go"), worker("c").can("bulk")).
		route("build", "go").route("many", "bulk").batched("many", 3))
	r.hear(beat("a").running())
	r.hear(beat("b").running())
	r.give(job("has").kind("build").prefers("a"))
	back := r.give(job("back").kind("build").prefers("a"))
	r.returns(back, coordinator.ReturnRejected, false)
	r.give(job("fills").kind("build").prefers("a"))
	r.assign(job("on-way").kind("build"))
	r.assign(job("early").kind("build"))
	r.now = r.now.Add(time.Millisecond)
	r.assign(job("late").kind("build"))
	r.assign(job("together").kind("many"))
	return r
}

// open finds an open task of the rig.
func (r *rig) open(id coordinator.TaskID) *openTask {
	r.t.Helper()
	t := r.tasks.of(r.memory.find(r.now, coordinator.KeyOf(id), r.policy.Settings))
	if t == nil {
		r.t.Fatalf("%s is not open", id)
	}
	return t
}

func TestAuditFindsNothing(t *testing.T) {
	r := auditRig(t)
	states := map[coordinator.TaskID]taskState{
		"has": stateLeased, "back": stateDelayed, "on-way": stateDispatching,
		"early": stateWaiting, "late": stateWaiting, "together": stateGathering,
	}
	for id, s := range states {
		if o := r.open(id); o.state != s {
			t.Errorf("%s is in state %d, want %d", id, o.state, s)
		}
	}
	if found := r.Audit(r.now); found != nil {
		t.Errorf("found in books that balance: %+v", found)
	}
	if found := New().Audit(epoch); found != nil {
		t.Errorf("found in an engine that knows nothing: %+v", found)
	}
}

// TestAuditSpeaks breaks the books in one place at a time.
func TestAuditSpeaks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(r *rig)
		want  coordinator.Invariant
		ids   string // that it names, all of them; "*": whichever
	}{
		{"a waiting task has left its class", func(r *rig) { o := r.open("early"); o.needs.class.waiting.Remove(o.leaf, o.level, o.index) }, coordinator.InvariantTaskState, "early"},
		{"a held task is forgotten", func(r *rig) { o := r.open("early"); delete(r.held, o.handle) }, coordinator.InvariantTaskState, "early"},
		{"a handle is another's", func(r *rig) { r.open("early").handle++ }, coordinator.InvariantTaskState, "*"},
		{"a task is held twice", func(r *rig) { r.held[99] = r.open("early") }, coordinator.InvariantTaskState, "early"},
		{"a leased task is held", func(r *rig) { o := r.open("has"); o.handle = 99; r.held[99] = o }, coordinator.InvariantTaskState, "has"},
		{"a task gathers nowhere", func(r *rig) { clear(r.batches.gathering) }, coordinator.InvariantTaskState, ""},
		{"a task gathers twice", func(r *rig) {
			o := r.open("together")
			g := r.batches.gathering[batchKeyOf(o)]
			g.members = append(g.members, o)
		}, coordinator.InvariantTaskState, "together"},
		{"a task that has ended is held still", func(r *rig) { r.open("early").over = true }, coordinator.InvariantTaskState, "early"},
		{"one too many is counted as waiting", func(r *rig) { r.pending.count[coordinator.PriorityHigh]++ }, coordinator.InvariantPendingCount, ""},
		{"one too few", func(r *rig) { r.pending.count[coordinator.PriorityNormal]-- }, coordinator.InvariantPendingCount, ""},
		{"when it is due changed in place", func(r *rig) { o := r.open("early"); o.due += int64(time.Hour) }, coordinator.InvariantPendingOrder, "late"},
		{"a class does not know its place", func(r *rig) { r.open("early").needs.class.active = 7 }, coordinator.InvariantPendingOrder, ""},
		{"nobody was woken when a slot became free", func(r *rig) {
			b := r.fleet.byID["b"]
			b.report.Available, b.spec.MaxConcurrent = 100, 2
			r.fleet.refresh(b)
		}, coordinator.InvariantWorkConserved, "early"},
		{"a record refers to another task", func(r *rig) { o := r.open("has"); r.memory.record(o.key, o.record).ref++ }, coordinator.InvariantTaskRecord, "has"},
		{"a record says that its task has ended", func(r *rig) { o := r.open("has"); r.memory.record(o.key, o.record).fate = coordinator.FateSucceeded }, coordinator.InvariantTaskRecord, "has"},
		{"a record says that the broker has not answered", func(r *rig) { o := r.open("has"); r.memory.record(o.key, o.record).fate = coordinator.FateUnsettled }, coordinator.InvariantTaskRecord, "has"},
		{"an id is not found", func(r *rig) { r.memory.index.drop(&r.memory.recordBlocks, &r.open("has").key) }, coordinator.InvariantTaskRecord, ""},
		{"the number of a task is given out again", func(r *rig) { r.tasks.free = append(r.tasks.free, r.open("has").number) }, coordinator.InvariantTaskRecord, ""},
		{"an open task is lost", func(r *rig) { r.tasks.all[r.open("has").number] = nil }, coordinator.InvariantAgentAccount, "has"},
		{"a lease without a timer", func(r *rig) { r.timers.cancel(&r.open("has").expire) }, coordinator.InvariantLeaseDeadline, "has"},
		{"a lease without a deadline", func(r *rig) { r.open("has").deadline = time.Time{} }, coordinator.InvariantLeaseDeadline, "has"},
		{"a dispatch has left the account", func(r *rig) { r.fleet.remove(r.open("has")); r.fleet.refresh(r.fleet.byID["a"]) }, coordinator.InvariantAgentAccount, "has"},
		{"a dispatch is on another's account", func(r *rig) { r.open("has").agent = r.fleet.byID["b"] }, coordinator.InvariantAgentAccount, "has"},
		{"a slot leaks", func(r *rig) { r.fleet.byID["b"].uncovered++; r.fleet.refresh(r.fleet.byID["b"]) }, coordinator.InvariantAgentAccount, "b"},
		{"a dispatch is covered and counts", func(r *rig) { r.open("on-way").covered = true }, coordinator.InvariantAgentAccount, "b"},
		{"credit for what never was", func(r *rig) { r.fleet.byID["a"].credit = 1 }, coordinator.InvariantAgentAccount, "a"},
		{"strategies see what was", func(r *rig) { r.fleet.views[0].InFlight-- }, coordinator.InvariantAgentSlots, "a"},
		{"a full agent is marked as ready", func(r *rig) { r.fleet.ready.set(1) }, coordinator.InvariantAgentReady, "b"},
		{"an idle one is not", func(r *rig) { r.fleet.ready.clear(2) }, coordinator.InvariantAgentReady, "c"},
		{"an agent is marked as ejected", func(r *rig) {
			set := newBitset(3)
			set.set(0)
			r.trust.ejected["go"] = set
		}, coordinator.InvariantAgentReady, "a"},
		{"an agent is not found by its queue", func(r *rig) { delete(r.fleet.byQueue, "agent.c") }, coordinator.InvariantFleetIndex, "c"},
		{"an agent's silence is not watched", func(r *rig) { r.timers.cancel(&r.fleet.byID["c"].stale) }, coordinator.InvariantTimers, "c"},
		{"a waiting task never expires", func(r *rig) { r.timers.cancel(&r.open("early").expire) }, coordinator.InvariantTimers, "early"},
		{"a returned task is never tried again", func(r *rig) { r.timers.cancel(&r.open("back").retry) }, coordinator.InvariantTimers, "back"},
		{"a timer was moved in place", func(r *rig) { r.open("late").expire.at = epoch.Add(-time.Hour) }, coordinator.InvariantTimers, ""},
		{"a queue is taken back that nobody counts", func(r *rig) { r.fleet.byID["c"].takenQueue = "agent.c" }, coordinator.InvariantTakeBacks, ""},
		{"the time goes back", func(r *rig) { r.now = r.now.Add(-time.Second) }, coordinator.InvariantClock, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := auditRig(t)
			tc.spoil(r)
			found := r.Audit(r.now)
			i := slices.IndexFunc(found, func(v coordinator.Violation) bool { return v.Invariant == tc.want })
			if i < 0 {
				t.Fatalf("found %+v, want %s", found, tc.want)
			}
			v := found[i]
			if ids := strings.Join(v.IDs, " "); tc.ids != "*" && ids != tc.ids || v.Text == "" || v.Count == 0 {
				t.Errorf("%s: %q, %d times, ids %q, want %q", v.Invariant, v.Text, v.Count, ids, tc.ids)
			}
			if again := r.Audit(r.now); len(again) != len(found) {
				t.Errorf("found %+v, the next time %+v: it does not go away by itself", found, again)
			}
		})
	}
}

// What was due is done by the next event; a timer that is not is broken.
func TestAuditFindsWhatIsPassedOver(t *testing.T) {
	r := auditRig(t)
	last := r.open("early")
	h := &r.timers.heaps[last.expire.duty.turn()]
	first := h.Items[0]
	first.at = r.now.Add(-time.Second)
	if found := r.Audit(r.now); found != nil {
		t.Fatalf("what has just become due is none: %+v", found)
	}
	r.Engine.now = r.now.Add(time.Second) // an event that did not do it
	found := r.Audit(r.now.Add(time.Second))
	if len(found) != 1 || found[0].Invariant != coordinator.InvariantTimers || !strings.Contains(found[0].Text, "passed over") {
		t.Errorf("found %+v, want a timer that was passed over", found)
	}
}

// More than eight ids are counted and not named.
func TestAuditNamesEight(t *testing.T) {
	var many []*taskBuilder
	for i := range 12 {
		many = append(many, job(coordinator.TaskID(fmt.Sprintf("t%02d", i))))
	}
	r := ready(t, policyOf(worker("a").slots(1)))
	r.give(job("first"))
	r.assignAll(many...)
	for _, b := range many {
		r.timers.cancel(&r.open(b.ID).expire)
	}
	found := r.Audit(r.now)
	if len(found) != 1 || found[0].Count != 12 || len(found[0].IDs) != coordinator.MaxViolationIDs || !slices.IsSorted(found[0].IDs) {
		t.Fatalf("found %+v, want one violation of 12 tasks with 8 sorted ids", found)
	}
	if again := r.Audit(r.now); !slices.Equal(again[0].IDs, found[0].IDs) || again[0].Text != found[0].Text {
		t.Errorf("the same books give %+v, then %+v", found, again)
	}
}

// TestAuditTakesTurns: of what is too much for one call, every place is looked at in a
// few.
func TestAuditTakesTurns(t *testing.T) {
	seen, next := make([]int, 10), 7
	for range 3 {
		inTurn(&next, 10, 4, func(i int) int { seen[i]++; return 1 })
	}
	if want := []int{1, 1, 1, 1, 1, 1, 1, 2, 2, 1}; !slices.Equal(seen, want) { // 7890 1234 5678
		t.Errorf("looked %v times, want %v", seen, want)
	}
	next = 12 // there were more the last time
	inTurn(&next, 3, 10, func(i int) int { seen[i] = -1; return 1 })
	if want := []int{-1, -1, -1, 1}; !slices.Equal(seen[:4], want) || next != 0 {
		t.Errorf("after some have gone: looked %v, the next is %d", seen[:4], next)
	}
	inTurn(&next, 0, 10, func(int) int { t.Error("looked where nothing is"); return 1 })
}

// A delivery whose task has ended before the broker's answer is a dispatch if that is a
// confirm; otherwise nothing is left to be done for it, and it counts as dropped (S14).
func TestDeliveryOfATaskThatHasEnded(t *testing.T) {
	for outcome, dropped := range map[coordinator.PublishOutcome]bool{
		coordinator.PublishConfirmed: false, coordinator.PublishRejected: true, coordinator.PublishUnroutable: true, coordinator.PublishNotSent: true,
	} {
		r := ready(t, policyOf(worker("a")))
		r.assign(job("t1"))
		r.tell(says("a", "t1"))
		effects := r.Apply(r.now, coordinator.DispatchSettled{Handle: r.last, Outcome: outcome}, nil)
		if want := (coordinator.Ack{Handle: r.last, Copy: dropped}); !slices.Contains(effects, coordinator.Effect(want)) {
			t.Errorf("%s: %+v, want %+v among them", outcome, effects, want)
		}
	}
}

// auditBench is a large coordinator: so many agents, each with most of its slots taken,
// and 4,000 tasks that wait.
func auditBench(b *testing.B, agents, slots int) *rig {
	b.Helper()
	p := policyOf().set(func(s *coordinator.Settings) {
		s.MaxQueueSize, s.AssignmentTimeout, s.StaleAfter, s.DedupeMaxIDs = 100_000, time.Hour, 1000*time.Hour, 1_000_000
	})
	for i := range agents {
		p.Agents = append(p.Agents, worker(coordinator.AgentID(fmt.Sprintf("agent-%05d", i))).can("a", "b", fmt.Sprint("c", i%50)).slots(slots).AgentSpec)
	}
	r := ready(b, p)
	for i := range agents * slots {
		r.assign(job(coordinator.TaskID(fmt.Sprint("leased-", i))))
		r.confirm(r.last)
	}
	for i := range 4000 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("waits-", i))).needs("a", fmt.Sprint("c", i%50)).prio(coordinator.Priority(i % 4)))
	}
	if n := r.pending.total(); n != 4000 {
		b.Fatalf("%d tasks wait", n)
	}
	return r
}

func BenchmarkAudit(b *testing.B) {
	for _, size := range []struct{ agents, slots int }{{100, 20}, {1000, 20}, {10_000, 10}} {
		b.Run(fmt.Sprintf("agents=%d,leased=%d,waiting=4000", size.agents, size.agents*size.slots), func(b *testing.B) {
			r := auditBench(b, size.agents, size.slots)
			var worst time.Duration
			for b.Loop() {
				begun := time.Now()
				if found := r.Audit(r.now); found != nil {
					b.Fatal(found)
				}
				worst = max(worst, time.Since(begun))
			}
			b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
		})
	}
}
