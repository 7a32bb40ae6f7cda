package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestGone: an agent whose consumer has left its queue gets nothing more, and what
// waits in its queue goes to others, although its heart goes on beating.
func TestGone(t *testing.T) {
	r := tracking(t, policyOf(worker("a").slots(2), worker("b").slots(2)))
	r.give(job("t1").prefers("a"))
	d := r.latest()
	want(t, r.look("a", 1, 1)) // one ready, one consumer: all is well
	want(t, r.look("a", 1, 0)) // it may be connecting again …
	want(t, r.look("a", 1, 1)) // … it was
	want(t, r.miss("a", 1), "agent a gone", "take back agent.a")
	if got := r.whyNot("a"); got != coordinator.WentGone {
		t.Errorf("%v, want gone", got)
	}
	want(t, r.returns(d, coordinator.ReturnTakenBack, false), "dispatch t1.2 b again?")
	want(t, r.look("a", 1, 1)) // the consumer may be another program's: the agent has not reported since
	r.pass(time.Second)
	want(t, r.hear(beat("a").running()))        // its hands are tied
	want(t, r.look("a", 0, 0), "leave agent.a") // nothing to take, nothing to come
	want(t, r.look("a", 0, 1), "agent a online")
	want(t, r.look("a", 0, 1))
}

// TestGoneThenSilent: no heartbeat makes an agent present whose consumer is gone,
// nor does its silence change what it is.
func TestGoneThenSilent(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	r.look("a", 0, 1)
	r.give(job("t"))
	want(t, r.miss("a", 0), "agent a gone", "take back agent.a") // it holds t: that will come
	want(t, r.pass(staleAfter))
	want(t, r.hear(beat("a").running()))
	want(t, r.pass(staleAfter))
	want(t, r.look("a", 0, 1), "agent a stale") // its consumer is back, its heart is not
}

// TestConsumersAfterANewSession: agents connect again in their own time. Within the
// grace only a consumer that was seen in this session is missed.
func TestConsumersAfterANewSession(t *testing.T) {
	start := func(t *testing.T) *rig {
		r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
		r.give(job("t"))
		r.look("a", 0, 1)
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		want(t, r.miss("a", 0))
		return r
	}
	t.Run("it comes", func(t *testing.T) {
		r := start(t)
		want(t, r.look("a", 0, 1))
		want(t, r.miss("a", 0), "agent a gone", "take back agent.a")
	})
	t.Run("it does not", func(t *testing.T) {
		r := start(t)
		r.pass(interval - 1)
		want(t, r.look("a", 0, 0))
		r.pass(1)
		want(t, r.look("a", 0, 0), "agent a gone", "take back agent.a")
	})
	t.Run("looked at again", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a")))
		r.Watched(r.now, 1)
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{})
		if list := r.Watched(r.now, 1); len(list) != 1 {
			t.Error("the new session does not look whether its consumer is there")
		}
	})
}

// TestTheOnlyAgentIsAwaited: what an agent had in hand when its connection broke goes
// to another. Where there is none, it may have it once more, rather than none.
func TestTheOnlyAgentIsAwaited(t *testing.T) {
	start := func(t *testing.T, workers ...*specBuilder) (*rig, coordinator.Dispatch) {
		r := tracking(t, policyOf(workers...))
		d := r.give(job("t").prefers("a"))
		r.look("a", 0, 1)
		r.miss("a", 1)
		return r, d
	}
	t.Run("another", func(t *testing.T) {
		r, d := start(t, worker("a"), worker("b"))
		want(t, r.returns(d, coordinator.ReturnTakenBack, true), "dispatch t.2 b again?")
		if d := r.latest(); !slices.Equal(d.Tried, []coordinator.AgentID{"a"}) || !slices.Equal(d.Failed, d.Tried) {
			t.Errorf("tried %v, failed %v, want a in both", d.Tried, d.Failed)
		}
	})
	t.Run("none", func(t *testing.T) {
		r, d := start(t, worker("a"))
		want(t, r.returns(d, coordinator.ReturnTakenBack, true))
		r.pass(time.Second)
		r.hear(beat("a").running())
		want(t, r.look("a", 0, 1), "agent a online", "leave agent.a", "dispatch t.2 a again?")
	})
	t.Run("none, and it has done it", func(t *testing.T) {
		r, d := start(t, worker("a"))
		r.returns(d, coordinator.ReturnTakenBack, true)
		want(t, r.tell(says("a", "t").of("t.1")), "completed t.1 a succeeded late", "ack 2")
	})
	t.Run("none, and it does not come back", func(t *testing.T) {
		r, d := start(t, worker("a"))
		r.returns(d, coordinator.ReturnTakenBack, true)
		want(t, r.pass(30*time.Second), "fail t no_agents_online") // assignment_timeout
	})
	t.Run("once too often", func(t *testing.T) {
		r, d := start(t, worker("a"))
		r.install(policyOf(worker("a")).set(func(s *coordinator.Settings) { s.MaxRetryAttempts = 1 }))
		want(t, r.returns(d, coordinator.ReturnTakenBack, true), "fail t retries_exhausted")
	})
}

// TestHeldByUs: a session that ends while we consume an agent's queue makes
// redelivered what was in our hands. That is not the agent's failure.
func TestHeldByUs(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b")))
	d := r.give(job("t").prefers("a"))
	r.hear(beat("a").running().status(coordinator.StatusOffline))
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	want(t, r.look("a", 1, 0), "take back agent.a")
	want(t, r.returns(d, coordinator.ReturnTakenBack, true), "dispatch t.2 b again?")
	if d := r.latest(); len(d.Tried)+len(d.Failed) > 0 {
		t.Errorf("tried %v, failed %v, want neither", d.Tried, d.Failed)
	}
	r.confirm(r.last)
	r.look("a", 0, 0) // empty: from here on what is redelivered was in its hands
	if a := r.FleetAgent("a"); a.HeldByUs() {
		t.Error("its queue has been empty, and redeliveries are ours still")
	}
}

// TestAgentsThatFetch: one that never had a consumer fetches its messages one by one,
// and nothing follows from there being none.
func TestAgentsThatFetch(t *testing.T) {
	r := ready(t, policyOf(worker("a")))
	r.give(job("t"))
	want(t, r.look("a", 1, 0))
	r.look("a", 1, 1)
	r.pass(time.Second)
	want(t, r.hear(beat("a").status(coordinator.StatusOffline)), "agent a offline", "take back agent.a")
	want(t, r.look("a", 0, 0), "leave agent.a") // nothing of its is expected: it is a plain agent
	r.pass(time.Second)
	want(t, r.hear(beat("a")), "agent a online")
	want(t, r.look("a", 1, 0)) // it may have come back as one that fetches
}

// TestDiedBeforeWeBegan: the queue of an agent that has never reported is taken back
// when it could have been heard, not before.
func TestDiedBeforeWeBegan(t *testing.T) {
	r := boot(t, policyOf(worker("a"))) // 30 s since the session opened
	want(t, r.look("a", 1, 0))
	r.pass(staleAfter - interval)
	want(t, r.look("a", 1, 1)) // it has a consumer
	want(t, r.look("a", 1, 0), "take back agent.a")
	want(t, r.look("a", 0, 0), "leave agent.a")
}

// TestOrders: cordon keeps new work away, drain takes back what waits as well, and
// uncordon ends both. What the agent runs it finishes.
func TestOrders(t *testing.T) {
	r := tracking(t, policyOf(worker("a").slots(2)).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
	r.give(job("t1"))
	want(t, r.order("a", coordinator.OrderCordon))
	if got := r.whyNot("a"); got != coordinator.Cordoned {
		t.Errorf("%v, want cordoned", got)
	}
	want(t, r.assign(job("t2")))
	want(t, r.order("a", coordinator.OrderUncordon), "dispatch t2.1 a")
	r.confirm(2)
	want(t, r.order("a", coordinator.OrderDrain), "take back agent.a")
	want(t, r.returns(r.latest(), coordinator.ReturnTakenBack, false)) // t2 waits: there is no other
	want(t, r.look("a", 0, 1))                                         // t1 is running yet
	if a := r.seen("a"); !a.Draining || a.Drained || a.Leased != 1 {
		t.Errorf("draining %v, drained %v, %d leased", a.Draining, a.Drained, a.Leased)
	}
	want(t, r.tell(says("a", "t1")), "completed t1.1 a succeeded")
	want(t, r.look("a", 0, 1), "leave agent.a")
	if a := r.seen("a"); !a.Drained {
		t.Error("it has nothing left, and is not drained")
	}
	want(t, r.order("nobody", coordinator.OrderDrain))
	r.install(policyOf(worker("b")))
	r.install(policyOf(worker("a"), worker("b")))
	if a := r.seen("a"); !a.Draining {
		t.Error("the order does not outlive the agent's absence")
	}
	want(t, r.order("a", coordinator.OrderUncordon))
}

// TestDrainedIsNotResumed: a dispatch that expires while its agent is being drained
// goes elsewhere even if the agent has begun with it; a cordoned agent goes on.
func TestDrainedIsNotResumed(t *testing.T) {
	for order, lines := range map[coordinator.Order][]string{
		coordinator.OrderCordon: {"dispatch t.1 a again?"},
		coordinator.OrderDrain:  {"withdraw t.1 a", "dispatch t.2 b again?"}, // a may go on until it hears
	} {
		r := tracking(t, policyOf(worker("a"), worker("b")))
		d := r.give(job("t"))
		r.pass(time.Second)
		r.hear(beat("a").running("t"))
		r.order("a", order)
		want(t, append(r.returns(d, coordinator.ReturnExpired, false), r.pass(250*time.Millisecond)...), lines...)
	}
}

// TestFlapping: 20 times a second for a minute. Two departures cost nothing; from the
// third on the agent is held to be unsteady for 1, 2, 4, … 30 s, and the world hears
// nothing of it meanwhile.
func TestFlapping(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b").can("x")))
	r.assign(job("waits").needs("x"))
	counts := make(map[string]int)
	count := func(lines []string) {
		for _, line := range lines {
			counts[strings.Fields(line)[0]]++
		}
	}
	for range 60 * 20 {
		r.pass(25 * time.Millisecond)
		count(r.hear(beat("a").running().status(coordinator.StatusOffline)))
		r.pass(25 * time.Millisecond)
		count(r.hear(beat("a").running()))
	}
	// Offline, online, offline, online, and offline as the last word: 5. Three times it
	// is taken back, and left twice: while it is unsteady that does not begin anew.
	if counts["agent"] != 5 || counts["take"] != 3 || counts["leave"] != 2 || len(counts) != 3 {
		t.Errorf("1,200 departures brought %v, want 5 changes told, 3 take backs, 2 leaves", counts)
	}
	if got := r.whyNot("a"); got != coordinator.Unsteady {
		t.Errorf("%v, want unsteady", got)
	}
	want(t, r.assign(job("t").not("b")))
	want(t, r.pass(engine.FlapMax-25*time.Millisecond-1)) // since it last left
	r.pass(0)
	want(t, r.pass(1), "agent a online", "leave agent.a", "dispatch t.1 a")
	r.confirm(r.last)
	r.pass(engine.FlapMemory) // and after as long again all is forgotten
	want(t, r.hear(beat("a").running("t").status(coordinator.StatusOffline)), "agent a offline", "take back agent.a")
	r.pass(time.Millisecond)
	want(t, r.hear(beat("a").running("t")), "agent a online", "leave agent.a")
}

// TestManyVanish: 500 agents fall silent at once. At most maxTakeBacks queues are
// consumed for others at a time, and all have their turn.
func TestManyVanish(t *testing.T) {
	const n = 500
	p := policyOf(worker("zz").slots(2 * n))
	for i := range n {
		p.Agents = append(p.Agents, worker(coordinator.AgentID(fmt.Sprintf("a%03d", i))).AgentSpec)
	}
	r := tracking(t, p)
	full := beat("zz").running().available(0) // what is dispatched goes to the others
	r.hear(full)
	waiting := make(map[coordinator.AgentID]coordinator.Dispatch)
	for i := range n {
		d := r.give(job(coordinator.TaskID(fmt.Sprint("t", i))))
		waiting[d.Agent] = d
	}
	if len(waiting) != n {
		t.Fatalf("%d agents have a task, want %d", len(waiting), n)
	}
	r.pass(staleAfter - time.Second)
	r.hear(beat("zz").running().available(2 * n))
	open := make(map[string]bool)
	follow := func(lines []string) {
		for _, line := range lines {
			if queue, ok := strings.CutPrefix(line, "take back "); ok {
				open[queue] = true
			}
			if queue, ok := strings.CutPrefix(line, "leave "); ok {
				delete(open, queue)
			}
		}
		if len(open) > engine.MaxTakeBacks {
			t.Fatalf("%d queues are taken back at once", len(open))
		}
	}
	follow(r.pass(time.Second))
	if len(open) != engine.MaxTakeBacks {
		t.Fatalf("%d queues are taken back, want %d", len(open), engine.MaxTakeBacks)
	}
	seconds := 0
	for ; len(waiting) > 0 && seconds < 10; seconds++ {
		for id, d := range waiting {
			if open[d.Queue] {
				follow(r.returns(d, coordinator.ReturnTakenBack, false))
				delete(waiting, id)
			}
		}
		for _, w := range r.Watched(r.now, 2*n) {
			ready := 0
			if _, ok := waiting[w.Agent]; ok {
				ready = 1
			}
			follow(r.look(w.Agent, ready, 0))
		}
		follow(r.pass(time.Second))
	}
	if len(waiting) > 0 || seconds > 3 { // 256, then the other 244
		t.Errorf("%d tasks are still in the queues of the dead after %d s", len(waiting), seconds)
	}
	if got := r.seen("zz").Uncovered; got != n {
		t.Errorf("zz has %d of the %d tasks", got, n)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestPlacesAreGivenUp: with all places taken, a queue from which nothing comes for
// the moment does not keep one.
func TestPlacesAreGivenUp(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b")))
	r.give(job("t"))
	r.hear(beat("a").running().status(coordinator.StatusOffline)) // it has t in hand
	want(t, r.look("a", 0, 0))                                    // that may come: the consumer stays
	r.SetTakeBacks(engine.MaxTakeBacks)
	want(t, r.look("a", 0, 0), "leave agent.a")
	want(t, r.look("a", 1, 0), "take back agent.a") // now it has come
}

// TestTakeBackAcrossSessions: what the shell did in one session it does in the next
// only when it is asked again.
func TestTakeBackAcrossSessions(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	want(t, r.order("a", coordinator.OrderDrain), "take back agent.a")
	want(t, r.apply(coordinator.SessionLost{}))
	want(t, r.look("a", 1, 0)) // nothing can be begun
	r.apply(coordinator.SessionOpened{})
	want(t, r.look("a", 1, 0), "take back agent.a")
	want(t, r.apply(coordinator.TakeBackEnded{Agent: "a"})) // its queue was deleted under it
	want(t, r.look("a", 1, 0), "take back agent.a")
	want(t, r.install(policyOf(worker("b"))), "leave agent.a") // its queue may be any agent's
}

// TestRenamedQueueIsLeft: under its old name.
func TestRenamedQueueIsLeft(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	r.order("a", coordinator.OrderDrain)
	p := policyOf(worker("a"))
	p.Agents[0].Queue = "work.a"
	want(t, r.install(p), "leave agent.a")
	want(t, r.look("a", 1, 1), "take back work.a")
}

// TestKilledAmongAThousand: an agent that is killed is missed within five seconds, however many
// there are, and with a bounded number of looks, whether they are idle or have a task each; the
// same after a take-over by a coordinator that has stood by, and of those killed before it.
func TestKilledAmongAThousand(t *testing.T) {
	const agents, kills = 1000, 10
	var workers []*specBuilder
	name := func(i int) coordinator.AgentID { return coordinator.AgentID(fmt.Sprintf("a%03d", i%agents)) }
	for i := range agents {
		workers = append(workers, worker(name(i)))
	}
	for label, c := range map[string]struct{ busy, takeOver bool }{
		"idle":                   {},
		"idle, with a take-over": {takeOver: true},
		"busy":                   {busy: true},
		"busy, with a take-over": {busy: true, takeOver: true},
	} {
		t.Run(label, func(t *testing.T) {
			r := tracking(t, policyOf(workers...).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
			for i := range agents {
				if c.busy {
					r.give(lasting(coordinator.TaskID(fmt.Sprint("t", i)), time.Hour).prefers(name(i)))
				}
			}
			begun, looks := r.now, 0
			killed, gone := map[coordinator.AgentID]bool{}, 0
			watch := func(d time.Duration) {
				for end := r.now.Add(d); r.now.Before(end); r.now = r.now.Add(500 * time.Millisecond) {
					for _, w := range r.Watched(r.now, 500) {
						looks++
						there := 1
						if killed[w.Agent] {
							there = 0
						}
						if slices.Contains(r.look(w.Agent, 0, there), fmt.Sprintf("agent %s gone", w.Agent)) {
							gone++
						}
					}
				}
			}
			watch(5 * time.Second)
			if c.takeOver {
				r.apply(coordinator.SessionLost{})
				for i := range kills {
					killed[name(i*811+5)] = true
				}
				r.apply(coordinator.SessionOpened{Connected: r.now.Add(-time.Minute)})
				watch(4500 * time.Millisecond)
				if gone != kills {
					t.Errorf("%d of the %d that were killed before are gone within 5 s", gone, kills)
				}
			}
			for i := range kills {
				gone = 0
				id := name(i * 617)
				killed[id] = true
				watch(4500 * time.Millisecond)
				if gone != 1 || r.whyNot(id) != coordinator.WentGone {
					t.Errorf("%s: %d are gone within 5 s, want it alone", id, gone)
				}
				watch(500 * time.Millisecond * time.Duration(i))
			}
			// Each session begins with a look at all, and those that are gone are looked at each second.
			most := 2*agents + int(r.now.Sub(begun).Seconds())*(300+2*kills)
			if looks > most {
				t.Errorf("%d looks in %s, want %d at most", looks, r.now.Sub(begun), most)
			}
		})
	}
}

// TestUnattendedAfterATakeOver: an agent that the leader before has seen with a consumer, and
// this one has not, gets nothing from the first look on; it is gone when agents have had the
// time to come back, since this session was connected.
func TestUnattendedAfterATakeOver(t *testing.T) {
	start := func(t *testing.T, connected time.Duration) *rig {
		r := tracking(t, policyOf(worker("a"), worker("b")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
		r.look("a", 0, 1)
		r.apply(coordinator.SessionLost{})
		r.apply(coordinator.SessionOpened{Connected: r.now.Add(-connected)})
		want(t, r.look("a", 0, 0))
		if why := r.whyNot("a"); why != coordinator.WentGone {
			t.Errorf("%v, want gone", why)
		}
		want(t, r.assign(job("t").prefers("a")), "dispatch t.1 b")
		return r
	}
	t.Run("just connected", func(t *testing.T) {
		r := start(t, 0)
		want(t, r.assign(job("t2")))
		want(t, r.look("a", 0, 1), "dispatch t2.1 a") // it had lost its connection, too
	})
	t.Run("it does not come back", func(t *testing.T) {
		r := start(t, 0)
		r.pass(interval)
		want(t, r.look("a", 0, 0))
		want(t, r.look("a", 0, 0), "agent a gone", "take back agent.a", "leave agent.a")
	})
	t.Run("has stood by for long", func(t *testing.T) {
		r := start(t, interval)
		want(t, r.look("a", 0, 0), "agent a gone", "take back agent.a", "leave agent.a")
	})
}

// TestOldGoodbyes: a session reads again what agents have told a while ago. A goodbye that is older than
// the last look at the agent's queue says nothing of its consumer, whether records tell of that look or an
// image: killed while none led, the agent is missed as any other.
func TestOldGoodbyes(t *testing.T) {
	for _, image := range []bool{false, true} {
		for _, later := range []bool{false, true} {
			p := policyOf(worker("a"), worker("b")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour })
			r := tracking(t, p)
			r.Record(true)
			r.look("a", 0, 1)
			r.now = r.now.Add(time.Second)
			goodbye := r.now
			r.hear(beat("a").status(coordinator.StatusOffline).stamped(goodbye))
			r.now = r.now.Add(time.Second)
			r.hear(beat("a").running().stamped(r.now))
			r.look("a", 0, 1)
			if later {
				goodbye = r.now.Add(time.Second) // no leader has heard it
			}
			next := &rig{Engine: engine.New(), t: t, now: r.now.Add(2 * time.Second)}
			next.apply(coordinator.PolicyChanged{Policy: r.Policy()})
			next.Follow()
			fold := func(rec coordinator.Record) bool { next.Fold(r.now, copied(rec)); return true }
			if image {
				r.Image(r.now).Records(fold)
			} else {
				for _, rec := range r.Records(nil) {
					fold(rec)
				}
			}
			next.hear(beat("a").status(coordinator.StatusOffline).stamped(goodbye).fromPast())
			next.hear(beat("a").running().stamped(goodbye.Add(time.Second)).fromPast())
			next.hear(beat("b").running().stamped(goodbye).fromPast())
			next.Lead(next.now)
			next.apply(coordinator.SessionOpened{Connected: next.now.Add(-interval)})
			next.look("a", 0, 0)
			next.look("a", 0, 0)
			want := coordinator.WentGone
			if later { // it may be one that fetches now
				want = coordinator.Eligible
			}
			if why := next.whyNot("a"); why != want {
				t.Errorf("image %t, a later goodbye %t: %v, want %v", image, later, why, want)
			}
		}
	}
}

// TestWatched: whose queues are looked at, and how often.
func TestWatched(t *testing.T) {
	r := tracking(t, policyOf(worker("a"), worker("b"), worker("c"), worker("d"), worker("e")))
	watched := func(most int) (ids []string) {
		for _, w := range r.Watched(r.now, most) {
			ids = append(ids, string(w.Agent))
		}
		return ids
	}
	r.hear(beat("d").running().status(coordinator.StatusOffline))
	r.look("d", 0, 0)
	r.order("e", coordinator.OrderDrain)
	r.look("e", 0, 1) // drained
	r.give(job("t").prefers("a"))
	steps := []struct {
		after time.Duration
		most  int
		want  []string
	}{
		{0, 9, []string{"a", "b", "c", "d", "e"}},          // everybody once: only a consumer that was seen can be missed
		{time.Second, 9, []string{"a"}},                    // each second while there is work
		{3 * time.Second, 9, []string{"a", "b", "c", "e"}}, // 4 s: an agent online is missed within 5 s
		{time.Second, 9, []string{"a", "d"}},               // every 5 s those that have left
		{engine.IdleLook, 2, []string{"a", "d"}},           // not more than asked for …
		{0, 2, []string{"e", "b"}},                         // … and then from where it stopped: a was looked at just now
		{0, 2, []string{"c"}},
		{engine.WorkLook, 1, []string{"a"}},
		{0, 0, nil},
	}
	for i, s := range steps {
		r.now = r.now.Add(s.after)
		if got := watched(s.most); !slices.Equal(got, s.want) {
			t.Errorf("look %d: %v, want %v", i, got, s.want)
		}
	}
}
