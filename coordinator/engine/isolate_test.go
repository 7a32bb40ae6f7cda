package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// wreckage is a fleet whose agents go down with whatever they have in hand two seconds after
// they begin a task that is poison, and are back three seconds later.
type wreckage struct {
	*rig
	hands  map[coordinator.AgentID][]*inHand
	downAt map[coordinator.AgentID]time.Time // when it will go down, as far as is known
	backAt map[coordinator.AgentID]time.Time // when it will be there again; zero: it is
	work   time.Duration                     // that harmless tasks take
	ends   map[coordinator.TaskID]string
	// crashes is how often an agent went down, shared how often with more than one task in hand.
	crashes, shared int
	seen            int // of the rig's dispatches
	failed          int // of its failures
	words           words
}

// words are what agents say of their work.
type words int

const (
	saysAll     words = iota // how each task ended, and which they run
	saysResults              // how each task ended
	saysNumbers              // how many they run
)

type inHand struct {
	coordinator.Dispatch
	until time.Time
}

func newWreckage(t testing.TB, agents, slots int, work time.Duration, words words) *wreckage {
	var fleet []*specBuilder
	for i := range agents {
		fleet = append(fleet, worker(coordinator.AgentID(fmt.Sprintf("a%d", i+1))).slots(slots))
	}
	p := policyOf(fleet...).set(func(s *coordinator.Settings) {
		s.AssignmentTimeout, s.StaleAfter, s.Breaker.Off = time.Hour, time.Hour, true
	})
	w := &wreckage{
		rig: ready(t, p), work: work, words: words,
		hands: map[coordinator.AgentID][]*inHand{}, ends: map[coordinator.TaskID]string{},
		downAt: map[coordinator.AgentID]time.Time{}, backAt: map[coordinator.AgentID]time.Time{},
	}
	for _, a := range p.Agents {
		w.report(a.ID)
		w.look(a.ID, 0, 1)
	}
	return w
}

func isPoison(id coordinator.TaskID) bool { return strings.HasPrefix(string(id), "poison") }

// take has the agents begin what they were given.
func (w *wreckage) take() {
	for ; w.seen < len(w.dispatches); w.seen++ {
		d := w.dispatches[w.seen]
		w.confirm(d.Handle)
		w.hands[d.Agent] = append(w.hands[d.Agent], &inHand{d, w.now.Add(w.work)})
		if isPoison(d.Task.ID) && w.downAt[d.Agent].IsZero() {
			w.downAt[d.Agent] = w.now.Add(2 * time.Second)
		}
	}
	for ; w.failed < len(w.failures); w.failed++ {
		f := &w.failures[w.failed]
		w.ends[f.Task.ID] = f.Failure.Reason.String()
	}
}

// second lets a second pass.
func (w *wreckage) second() {
	w.pass(time.Second)
	w.take()
	for i := range w.FleetAgents() {
		id := w.FleetAgents()[i].Spec().ID
		switch down, back := w.downAt[id], w.backAt[id]; {
		case !back.IsZero() && !w.now.Before(back):
			delete(w.backAt, id)
			w.report(id)
			w.look(id, 0, 1)
		case !back.IsZero():
		case !down.IsZero() && !w.now.Before(down):
			w.crash(id)
		default:
			w.finish(id)
		}
		w.take()
	}
}

// report is the agent's heartbeat.
func (w *wreckage) report(id coordinator.AgentID) {
	var ids []coordinator.TaskID
	for _, h := range w.hands[id] {
		ids = append(ids, h.Task.ID)
	}
	if w.words == saysAll {
		w.hear(beat(id).running(ids...))
		return
	}
	w.hear(beat(id).active(len(ids)))
}

// finish tells of what the agent has done.
func (w *wreckage) finish(id coordinator.AgentID) {
	w.hands[id] = slices.DeleteFunc(w.hands[id], func(h *inHand) bool {
		if isPoison(h.Task.ID) || w.now.Before(h.until) {
			return false
		}
		if w.words != saysNumbers {
			w.tell(says(id, h.Task.ID).of(h.DispatchID))
		}
		w.ends[h.Task.ID] = "done"
		return true
	})
	w.report(id)
}

// crash ends the agent's process. What it had in hand is delivered to the coordinator.
func (w *wreckage) crash(id coordinator.AgentID) {
	lost := w.hands[id]
	w.crashes++
	if len(lost) > 1 {
		w.shared++
	}
	delete(w.hands, id)
	delete(w.downAt, id)
	w.backAt[id] = w.now.Add(3 * time.Second)
	w.look(id, len(lost), 0)
	w.look(id, len(lost), 0)
	w.take()
	for _, h := range lost {
		w.returns(h.Dispatch, coordinator.ReturnTakenBack, true)
		w.take()
	}
}

// TestPoisonIsParkedAlone: three agents with four slots, twelve harmless tasks and one that
// ends its agent's process. Before, a harmless one was parked with it: what went down together
// went to the next agent together.
func TestPoisonIsParkedAlone(t *testing.T) {
	for name, words := range map[string]words{"agents say what they run": saysAll, "how tasks end": saysResults,
		"how many they run": saysNumbers} {
		t.Run(name, func(t *testing.T) { poisonIsParkedAlone(t, words) })
	}
}

func poisonIsParkedAlone(t *testing.T, words words) {
	w := newWreckage(t, 3, 4, 10*time.Second, words)
	for i := range 6 {
		w.assign(job(coordinator.TaskID(fmt.Sprintf("harmless-%d", i))))
	}
	w.assign(job("poison"))
	for i := range 6 {
		w.assign(job(coordinator.TaskID(fmt.Sprintf("harmless-%d", 6+i))))
	}
	w.take()
	for range 120 {
		w.second()
	}
	for i := range 12 {
		if id := coordinator.TaskID(fmt.Sprintf("harmless-%d", i)); w.ends[id] != "done" {
			t.Errorf("%s: %q, want done", id, w.ends[id])
		}
	}
	if w.ends["poison"] != coordinator.ReasonPoisoned.String() {
		t.Errorf("poison: %q, want poisoned", w.ends["poison"])
	}
	if w.crashes != 3 || w.shared == 0 {
		t.Errorf("%d agents went down, %d with several in hand; want 3, as for a task that is alone from the beginning",
			w.crashes, w.shared)
	}
	engine.CheckIndexes(t, w.Engine)
}

// An agent that claims gets a task that must be alone if it has nothing in hand, and nothing
// else while it has it.
func TestClaimAlone(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(4).pulls(coordinator.PullShared), worker("b").slots(4), worker("c").slots(4)).
		set(func(s *coordinator.Settings) {
			s.PoisonedAfter = 2 // suspected once is enough
		}))
	r.look("b", 0, 1)
	r.order("c", coordinator.OrderCordon)
	first, second := r.give(job("t1")), r.give(job("t2"))
	if first.Agent != "b" || second.Agent != "b" {
		t.Fatalf("they went to %s and %s", first.Agent, second.Agent)
	}
	want(t, r.look("b", 2, 0))
	want(t, r.look("b", 2, 0), "agent b gone", "take back agent.b")
	want(t, r.returns(first, coordinator.ReturnTakenBack, true))
	want(t, r.returns(second, coordinator.ReturnTakenBack, true))
	want(t, r.claim(claim("a", 3).waits(time.Minute)), "dispatch t1.2 a again?", "granted 1 to a agent_unavailable")
	r.confirm(r.latest().Handle)
	want(t, r.claim(claim("a", 3).waits(time.Minute)))
	want(t, r.assign(job("t3").not("b", "c")))
	if why := r.whyNot("a"); why != coordinator.KeptFree {
		t.Errorf("a is %v", why)
	}
	want(t, r.tell(says("a", "t1")), "completed t1.2 a succeeded", "dispatch t2.2 a again?",
		"granted 1 to a agent_unavailable")
	r.confirm(r.latest().Handle)
	want(t, r.tell(says("a", "t2")), "completed t2.2 a succeeded")
	want(t, r.claim(claim("a", 3)), "dispatch t3.1 a", "granted 1 to a no_unclaimed_items")
}

// TestAloneWithoutQuota: a task that must be alone waits for a seat. It is not tried again and again, for an
// agent that claims or for one that is pushed to, and goes when there is a seat.
func TestAloneWithoutQuota(t *testing.T) {
	for name, mode := range map[string]coordinator.PullMode{"claimed": coordinator.PullShared,
		"pushed": coordinator.PullOff} {
		t.Run(name, func(t *testing.T) {
			p := policyOf(worker("a").slots(4).pulls(mode), worker("b").slots(4), worker("c").slots(4))
			q := quotasOf().group("team", 1, seats(1)).group("others", 1, nil)
			// suspected once is enough
			r := ready(t, patient(p).quotas(q).set(func(s *coordinator.Settings) { s.PoisonedAfter = 2 }))
			r.order("a", coordinator.OrderCordon)
			r.order("c", coordinator.OrderCordon)
			first := r.give(job("t1").of("team").not("c"))
			r.give(job("beside").of("others").not("a", "c"))
			r.look("b", 0, 1)
			r.miss("b", 2)
			r.order("c", coordinator.OrderUncordon)
			want(t, r.assign(job("t2").of("team").not("a", "b")))
			want(t, r.returns(first, coordinator.ReturnTakenBack, true), "dispatch t2.1 c") // which has the seat
			r.confirm(r.latest().Handle)
			r.order("c", coordinator.OrderCordon)
			r.order("a", coordinator.OrderUncordon)
			r.claim(claim("a", 1).waits(time.Minute)) // returns, and does not try it again and again
			refused := r.AllRefusals()
			for range 10 {
				want(t, r.apply(coordinator.Tick{}))
			}
			if r.AllRefusals() != refused {
				t.Error("it is tried with each event")
			}
			effects := []string{"completed t2.1 c succeeded", "dispatch t1.2 a again?"}
			if mode != coordinator.PullOff {
				effects = append(effects, "granted 1 to a ")
			}
			want(t, r.tell(says("c", "t2")), effects...)
			engine.CheckIndexes(t, r.Engine)
			engine.CheckParked(t, r.Engine)
		})
	}
}

// TestOnlyPoisonIsParked: whatever the fleet and the number of tasks, harmless ones are done,
// and none that is poison is.
func TestOnlyPoisonIsParked(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		agents, slots := rapid.IntRange(2, 5).Draw(r, "agents"), rapid.IntRange(1, 4).Draw(r, "slots")
		w := newWreckage(t, agents, slots, time.Duration(rapid.IntRange(1, 20).Draw(r, "seconds of work"))*time.Second,
			rapid.SampledFrom([]words{saysAll, saysResults, saysNumbers}).Draw(r, "words"))
		harmless, poison := rapid.IntRange(0, 30).Draw(r, "harmless"), rapid.IntRange(0, 3).Draw(r, "poison")
		ids := make([]coordinator.TaskID, 0, harmless+poison)
		for i := range harmless {
			ids = append(ids, coordinator.TaskID(fmt.Sprintf("harmless-%d", i)))
		}
		for i := range poison {
			ids = append(ids, coordinator.TaskID(fmt.Sprintf("poison-%d", i)))
		}
		for _, id := range rapid.Permutation(ids).Draw(r, "order") {
			w.assign(job(id))
			w.take()
		}
		for s := 0; s < 2000 && len(w.ends) < len(ids); s++ {
			w.second()
		}
		for _, id := range ids {
			if done := w.ends[id] == "done"; w.ends[id] == "" || done == isPoison(id) {
				r.Errorf("%s: %q after %d crashes", id, w.ends[id], w.crashes)
			}
		}
		engine.CheckIndexes(t, w.Engine)
	})
}

// An agent that says no more than how many tasks it runs has the one that must be alone to itself
// until it runs none any more.
func TestAloneUntilItIsDone(t *testing.T) {
	r := ready(t, policyOf(worker("b").slots(4)).set(func(s *coordinator.Settings) {
		s.PoisonedAfter, s.AssignmentTimeout = 2, time.Hour // suspected once is enough
	}))
	r.look("b", 0, 1)
	first, second := r.give(job("t1")), r.give(job("t2"))
	want(t, r.miss("b", 2), "agent b gone", "take back agent.b")
	want(t, r.returns(first, coordinator.ReturnTakenBack, true))
	want(t, r.returns(second, coordinator.ReturnTakenBack, true))
	r.pass(time.Second)
	r.hear(beat("b"))
	want(t, r.look("b", 0, 1), "agent b online", "leave agent.b", "dispatch t1.2 b again?")
	r.confirm(r.latest().Handle)
	want(t, r.assign(job("t3")))
	for range 5 {
		r.pass(interval)
		want(t, r.hear(beat("b").active(1)))
	}
	r.pass(interval)
	want(t, r.hear(beat("b")), "dispatch t2.2 b again?")
	r.confirm(r.latest().Handle)
	want(t, r.pass(interval/2))
	want(t, r.hear(beat("b"))) // it may not have taken it yet
	want(t, r.pass(interval))
	want(t, r.hear(beat("b")), "dispatch t3.1 b")
}

// A leader that has no journal to go by knows from the message what its task is suspected of: the
// two that have gone down together twice do not go to the third agent together.
func TestSuspicionComesWithTheMessage(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2), worker("b").slots(2), worker("c").slots(2)))
	first, second := r.give(job("t1").not("b", "c")), r.give(job("t2").not("b", "c"))
	r.look("a", 0, 1)
	r.miss("a", 2)
	r.order("c", coordinator.OrderCordon)
	for _, d := range []coordinator.Dispatch{first, second} {
		d.Task.Excluded = nil
		r.returns(d, coordinator.ReturnTakenBack, true)
	}
	sent := r.dispatches[len(r.dispatches)-2:]
	for _, d := range sent {
		if d.Agent != "b" || !slices.Equal(d.Suspected, []coordinator.AgentID{"a"}) {
			t.Fatalf("%s to %s, suspected %v", d.DispatchID, d.Agent, d.Suspected)
		}
	}
	next := ready(t, policyOf(worker("a").slots(2), worker("b").slots(2), worker("c").slots(2)))
	next.order("a", coordinator.OrderCordon)
	next.hear(beat("b").active(2))
	next.look("b", 0, 1)
	next.miss("b", 2)
	want(t, next.returns(sent[0], coordinator.ReturnTakenBack, true), "dispatch t1.3 c again?")
	want(t, next.returns(sent[1], coordinator.ReturnTakenBack, true))
	next.confirm(next.latest().Handle)
	want(t, next.tell(says("c", "t1")), "completed t1.3 c succeeded", "dispatch t2.3 c again?")
}

// TestSuspicionSurvivesAnUnansweredDispatch: a dispatch comes back from an agent that went down with others
// in hand, while it is not known whether a later one has arrived, which was made of another copy of the task.
// The task is suspected there all the same.
func TestSuspicionSurvivesAnUnansweredDispatch(t *testing.T) {
	p := policyOf(worker("a").slots(2), worker("b").slots(2), worker("c").slots(2)).set(func(s *coordinator.Settings) {
		s.MaxRetryAttempts = 2
	})
	r := ready(t, p)
	first := r.give(job("t"))
	want(t, r.returns(first, coordinator.ReturnTakenBack, true), "dispatch t.2 b again?")
	second := r.latest()
	r.confirm(second.Handle)
	want(t, r.returns(second, coordinator.ReturnExpired, false), "fail t retries_exhausted")
	r.give(job("beside").not("a", "c"))
	want(t, r.returns(first, coordinator.ReturnTakenBack, true), "dispatch t.3 c again?") // its acknowledgement was lost
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	r.miss("c", 0)
	r.returns(second, coordinator.ReturnDeliveryLimit, true)
	if got := r.latest(); !slices.Equal(got.Suspected, []coordinator.AgentID{"a", "b"}) {
		t.Errorf("%s is suspected on %v, want it suspected on a and b", got.DispatchID, got.Suspected)
	}
}

// TestSuspicionSurvivesALostChannel: a task that is suspected on one agent loses its channel at the next,
// which works on it: it goes on there, and the first alone is suspected, whatever b has beside it.
func TestSuspicionSurvivesALostChannel(t *testing.T) {
	p := policyOf(worker("a").slots(2), worker("b").slots(2), worker("c").slots(2))
	for name, tt := range map[string]struct{ beside, another bool }{
		"alone on the second":                              {},
		"beside another on the second":                     {beside: true},
		"another leader":                                   {another: true},
		"another leader, and beside another on the second": {beside: true, another: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := ready(t, p)
			first := r.give(job("t").not("b", "c"))
			r.give(job("other").not("b", "c"))
			first.Task.Excluded = []coordinator.AgentID{"c"}
			r.look("a", 0, 1)
			r.miss("a", 2)
			r.returns(first, coordinator.ReturnTakenBack, true)
			second := r.latest()
			if second.Agent != "b" || !slices.Equal(second.Suspected, []coordinator.AgentID{"a"}) {
				t.Fatalf("%s went to %s, suspected on %v", second.DispatchID, second.Agent, second.Suspected)
			}
			r.confirm(second.Handle)
			if tt.another {
				r = ready(t, p)
			}
			if tt.beside {
				r.give(job("beside").not("a", "c"))
			}
			r.hear(beat("b").running("t"))
			r.returns(second, coordinator.ReturnDeliveryLimit, true)
			got := r.latest()
			if got.Agent != "b" || got.Attempt != second.Attempt || !slices.Equal(got.Suspected, []coordinator.AgentID{"a"}) {
				t.Errorf("%s goes on at %s, suspected on %v, want b and a", got.DispatchID, got.Agent, got.Suspected)
			}
		})
	}
}

// TestCondemnedWhereItWasSuspected: of two copies of a dispatch the one that knows less comes back from an
// agent that went down with it alone. The task has failed there and wherever it was suspected, and has been
// tried on all of them.
func TestCondemnedWhereItWasSuspected(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(2), worker("b").slots(2), worker("c").slots(2)))
	first := r.give(job("t").not("b", "c"))
	r.give(job("other").not("b", "c"))
	first.Task.Excluded = nil
	r.order("c", coordinator.OrderCordon)
	r.look("a", 0, 1)
	r.miss("a", 2)
	r.returns(first, coordinator.ReturnTakenBack, true)
	second := r.latest()
	r.confirm(second.Handle)
	r.order("c", coordinator.OrderUncordon)
	r.look("b", 0, 1)
	r.miss("b", 1)
	second.Tried, second.Suspected = nil, nil // the older copy was made before a had the task
	r.returns(second, coordinator.ReturnTakenBack, true)
	got := r.latest()
	if both := []coordinator.AgentID{"a", "b"}; got.Agent != "c" || !slices.Equal(got.Failed, both) ||
		!slices.Equal(slices.Sorted(slices.Values(got.Tried)), both) {
		t.Errorf("%s to %s, failed on %v, tried on %v; want c, both on a and b", got.DispatchID, got.Agent, got.Failed,
			got.Tried)
	}
}

// TestResumedUnderAnotherPolicy: a task that must be alone by the policy under which it was dispatched
// need not be by the next one. Its message comes again, and it goes the same way: its agent has room for
// what waits.
func TestResumedUnderAnotherPolicy(t *testing.T) {
	p := policyOf(worker("a").slots(2), worker("b").slots(2))
	p.Settings.PoisonedAfter = 2
	r := leads(t, p)
	d := r.give(job("t").prefers("b"))
	r.give(job("beside").prefers("b"))
	want := func(what string, got []string, dispatches ...string) {
		t.Helper()
		got = slices.DeleteFunc(got, func(f string) bool { return !strings.HasPrefix(f, "dispatch ") })
		if !slices.Equal(got, dispatches) {
			t.Errorf("%s: %q, want %q", what, got, dispatches)
		}
	}
	want("b goes down with both", r.returns(d, coordinator.ReturnTakenBack, true), "dispatch t.2 a again?")
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	r.hear(beat("a").running())
	want("another", r.assign(job("waits").not("b")))
	next := policyOf(worker("a").slots(2), worker("b").slots(2))
	next.Settings.PoisonedAfter = 3
	want("two failures more may be", r.install(next))
	want("its message again", r.returns(d, coordinator.ReturnTakenBack, true), "dispatch t.2 a again?",
		"dispatch waits.1 a")
}

// TestResumedInCompany: a task need not be alone by the policy under which it was dispatched, and has company
// at its agent. By the next policy it must be, and its message comes again: it goes the same way, and is as
// little to blame for what becomes of that agent as what is beside it.
func TestResumedInCompany(t *testing.T) {
	p := policyOf(worker("a").slots(2), worker("b").slots(2), worker("c"))
	r := leads(t, p)
	d := r.give(job("t").prefers("b"))
	r.give(job("beside").prefers("b"))
	r.give(job("company").prefers("a"))
	r.give(job("busy").prefers("c"))
	r.returns(d, coordinator.ReturnTakenBack, true)
	second := r.latest()
	if second.Agent != "a" || second.Task.ID != "t" {
		t.Fatalf("%s goes to %s, want t to a", second.Task.ID, second.Agent)
	}
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	r.hear(beat("a").running("company"))
	next := policyOf(worker("a").slots(2), worker("b").slots(2), worker("c"))
	next.Settings.PoisonedAfter = 2
	r.install(next)
	r.returns(d, coordinator.ReturnTakenBack, true)
	if resumed := r.latest(); resumed.DispatchID != second.DispatchID {
		t.Fatalf("%s follows, want %s again", resumed.DispatchID, second.DispatchID)
	}
	r.confirm(r.latest().Handle)
	for _, f := range r.returns(r.latest(), coordinator.ReturnTakenBack, true) {
		if strings.HasPrefix(f, "fail ") {
			t.Error(f)
		}
	}
}

// A task that had to be alone with its agent is cancelled while its dispatch there is in doubt, and an earlier one
// comes back: the agent's slots are free again, for what waits.
func TestCancelledTaskLeavesItsAgentToOthers(t *testing.T) {
	r := boot(t, policyOf(worker("a").slots(2), worker("d").slots(2)).set(func(s *coordinator.Settings) {
		s.PoisonedAfter = 2 // one suspicion, and it must be alone: 1 >= min(2, 3) - 1
	}))
	r.hear(beat("a"))
	first := r.give(job("t1"))
	r.give(job("t2"))
	r.hear(beat("a").running("t1", "t2"))
	r.miss("a", 0) // it went down with both: each is suspected
	r.hear(beat("d"))
	want(t, r.returns(first, coordinator.ReturnTakenBack, true), "dispatch t1.2 d again?")
	r.settle(r.latest().Handle, coordinator.PublishUnknown)
	want(t, r.assign(job("t3"))) // waits: t1 is to be alone
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	want(t, r.redeliver(job("t3")))
	r.now = r.now.Add(2 * time.Second)
	want(t, r.hear(beat("d"))) // it counts t1, the dispatch of which was never answered
	want(t, r.withdraw("t1"), "withdraw t1.2 d", "cancel t1: asked")
	want(t, r.returns(first, coordinator.ReturnTakenBack, true), "withdraw t1.2 d", "fail t1 cancelled",
		"dispatch t3.1 d again?")
}
