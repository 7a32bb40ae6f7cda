package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/invariant"
)

// checkAudit: the audit, which looks at the books of a coordinator that runs, never
// finds anything; nor with one that follows, nor with one that takes over at this
// moment. That it changes nothing shows when the history is repeated without it.
func (h *history) checkAudit() {
	h.t.Helper()
	if h.e.Policy() == nil {
		return
	}
	books := map[string]*engine.Engine{"the engine": h.e, "its twin": h.twin}
	if h.imaged%32 == 0 {
		heir := engine.New()
		heir.Apply(h.now, coordinator.PolicyChanged{Policy: h.e.Policy()}, nil)
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
//	aside     its strategy knows no agent for it
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
func (r *rig) open(id coordinator.TaskID) *engine.OpenTask {
	r.t.Helper()
	t := r.OpenTask(id)
	if t == nil {
		r.t.Fatalf("%s is not open", id)
	}
	return t
}

func TestAuditFindsNothing(t *testing.T) {
	r := auditRig(t)
	states := map[coordinator.TaskID]engine.TaskState{
		"has": engine.StateLeased, "back": engine.StateDelayed, "on-way": engine.StateDispatching,
		"early": engine.StateWaiting, "late": engine.StateWaiting, "together": engine.StateGathering,
	}
	for id, s := range states {
		if o := r.open(id); o.State() != s {
			t.Errorf("%s is in state %d, want %d", id, o.State(), s)
		}
	}
	if found := r.Audit(r.now); found != nil {
		t.Errorf("found in books that balance: %+v", found)
	}
	if found := engine.New().Audit(epoch); found != nil {
		t.Errorf("found in an engine that knows nothing: %+v", found)
	}
}

// TestAuditSpeaks breaks the books in one place at a time.
func TestAuditSpeaks(t *testing.T) {
	for _, tc := range engine.Spoils {
		t.Run(tc.Name, func(t *testing.T) {
			r := auditRig(t)
			tc.Spoil(engine.Books{Engine: r.Engine})
			found := r.Audit(r.now)
			i := slices.IndexFunc(found, func(v invariant.Violation) bool { return v.Invariant == tc.Want })
			if i < 0 {
				t.Fatalf("found %+v, want %s", found, tc.Want)
			}
			v := found[i]
			if ids := strings.Join(v.IDs, " "); tc.IDs != "*" && ids != tc.IDs || v.Text == "" || v.Count == 0 {
				t.Errorf("%s: %q, %d times, ids %q, want %q", v.Invariant, v.Text, v.Count, ids, tc.IDs)
			}
			if again := r.Audit(r.now); len(again) != len(found) {
				t.Errorf("found %+v, the next time %+v: it does not go away by itself", found, again)
			}
		})
	}
}

// TestAuditOfWholes: what is only seen as a whole is looked at once in a few audits.
func TestAuditOfWholes(t *testing.T) {
	for name, spoil := range engine.WholeSpoils {
		r := auditRig(t)
		spoil(engine.Books{Engine: r.Engine})
		found := 0
		for range engine.AuditWholeEvery {
			if v := r.Audit(r.now); len(v) == 1 && v[0].Text != "" {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: found by %d audits, want 1", name, found)
		}
	}
}

// What was due is done by the next event; a timer that is not is broken.
func TestAuditFindsWhatIsPassedOver(t *testing.T) {
	r := auditRig(t)
	engine.Books{Engine: r.Engine}.PassOver("early", r.now.Add(-time.Second))
	if found := r.Audit(r.now); found != nil {
		t.Fatalf("what has just become due is none: %+v", found)
	}
	engine.Books{Engine: r.Engine}.At(r.now.Add(time.Second)) // an event that did not do it
	found := r.Audit(r.now.Add(time.Second))
	if len(found) != 1 || found[0].Invariant != invariant.Timers ||
		!strings.Contains(found[0].Text, "passed over") {
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
		engine.Books{Engine: r.Engine}.NeverExpires(b.ID)
	}
	found := r.Audit(r.now)
	if len(found) != 1 || found[0].Count != 12 || len(found[0].IDs) != invariant.MaxIDs ||
		!slices.IsSorted(found[0].IDs) {
		t.Fatalf("found %+v, want one violation of 12 tasks with 8 sorted ids", found)
	}
	if again := r.Audit(r.now); !slices.Equal(again[0].IDs, found[0].IDs) || again[0].Text != found[0].Text {
		t.Errorf("the same books give %+v, then %+v", found, again)
	}
}

// A delivery whose task has ended before the broker's answer is a dispatch if that is a
// confirm; otherwise nothing is left to be done for it, and it counts as dropped (S14).
func TestDeliveryOfATaskThatHasEnded(t *testing.T) {
	for outcome, dropped := range map[coordinator.PublishOutcome]bool{
		coordinator.PublishConfirmed: false, coordinator.PublishRejected: true, coordinator.PublishUnroutable: true,
		coordinator.PublishNotSent: true,
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
		p.Agents = append(p.Agents, worker(coordinator.AgentID(fmt.Sprintf("agent-%05d", i))).
			can("a", "b", fmt.Sprint("c", i%50)).slots(slots).AgentSpec)
	}
	r := ready(b, p)
	for i := range agents * slots {
		r.assign(job(coordinator.TaskID(fmt.Sprint("leased-", i))))
		r.confirm(r.last)
	}
	for i := range 4000 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("waits-", i))).needs("a", fmt.Sprint("c", i%50)).
			prio(coordinator.Priority(i % 4)))
	}
	if n := r.PendingTotal(); n != 4000 {
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
