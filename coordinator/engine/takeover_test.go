package engine_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// succession is one random run over several leaders. Each is killed at some event, and
// the next is a new engine that has folded what those before it have recorded.
type succession struct {
	t *rapid.T
	e *engine.Engine
	l *ledger // of the world: it outlives leaders
	settings
	now   time.Time     // by the leader's clock
	ahead time.Duration // how far that is ahead of the agents' and the world's
	began time.Time     // when the leader at hand began to lead

	journal []entry
	dying   agony
	led     bool                        // its session is open
	unsent  map[coordinator.Handle]bool // recorded by a dying leader, and never published
	untold  map[coordinator.TaskID]bool // whose ends a dying leader has recorded, and not announced

	handle  coordinator.Handle
	outOf   int                          // the message being delivered out of a lane; 0: none
	lost    []*receipt                   // what the broker will hand out again
	former  *receipt                     // of the message being delivered again
	arrived []*coordinator.Dispatch      // that an agent has, may have, or had
	heard   map[string]bool              // dispatches that certainly arrived: their agents have told of them
	results []coordinator.ResultReported // of this leader's term, in the order of their stream
	reading map[coordinator.TaskID]bool  // of which results are being read again
	owed    []coordinator.TaskID         // failures without a delivery, not confirmed yet
	reached map[string]bool              // what has been told of budgets, in all terms
	held    bool                         // an alarm holds up publishers
	stalls  stalls                       // of this leader's term
	dead    coordinator.AgentID          // was killed while none led; empty: none
}

// settings are drawn once for a run.
type settings struct {
	policy    *coordinator.Policy
	early     bool // agents may be faster than the broker's confirm
	snapshots bool // the journal is cut off at a snapshot now and then
}

// entry is one record in the journal, or the claim with which a term begins (nil).
type entry struct {
	at     time.Time
	record coordinator.Record
}

// agony is how much of what a leader does still becomes of it.
type agony uint8

const (
	alive    agony = iota
	recorded       // the journal has it, the world does not
	silent         // not even the journal has it
)

// TestTakeOvers kills leaders at any event, up to three of whose events after that are
// in the journal, with nothing having followed from them, or are lost; then the one that has
// folded the journal leads. Held against the ledger, which knows nothing of leaders: no
// task is given to a second agent while one has it, no dispatch id stands for two
// dispatches, nothing that has ended begins again because its message is delivered once
// more or its acknowledgement was lost, every end is announced, and every task that
// was sent once is led to its end.
//
// Left out: the fleet, which is always there and idle, its policy, orders and breakers
// (TestHistories compares what a follower knows of them); batches; a producer that
// sends a task once more before it was told the end of the last; and a new submission
// under an id while a message of its last task may still come: the two cannot be told apart. Where there
// are lanes, or quotas, no id is used again.
func TestTakeOvers(t *testing.T) {
	const runs = 10 // each is short
	rapid.Check(t, func(t *rapid.T) {
		for range runs {
			takeOvers(t)
		}
	})
}

// takeOvers plays one run.
func takeOvers(t *rapid.T) {
	slots, laned := 3, rapid.Bool().Draw(t, "lanes")
	if laned { // tasks have to wait before they can be moved
		slots = 1
	}
	p := policyOf(worker("a").slots(slots), worker("b").slots(slots), worker("c").slots(slots)).
		set(func(s *coordinator.Settings) {
			s.DedupeWindow, s.Breaker = 240*time.Hour, coordinator.Breaker{Off: true}
		})
	if laned {
		p.lanes(rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "room"))
		p.Settings.AssignmentTimeout = 600 * time.Second
	}
	s := &succession{t: t, l: newLedger(), now: epoch, heard: make(map[string]bool), reached: make(map[string]bool),
		settings: settings{
			policy: &p.Policy, early: rapid.Bool().Draw(t, "results before the confirm"),
			snapshots: rapid.Bool().Draw(t, "snapshots in between"),
		}}
	if rapid.Bool().Draw(t, "quotas") {
		p.Quotas = drawQuotas(t)
	}
	s.lead()
	for _, a := range p.Agents {
		s.apply(coordinator.QueueSeen{Agent: a.ID, Consumers: 1})
	}
	actions := map[string]func(*rapid.T){
		"": func(*rapid.T) {}, "muster": func(*rapid.T) { s.muster() }, "snapshot": s.snapshot, "crash": s.crash,
	}
	for name, action := range s.deeds() {
		actions[name] = func(t *rapid.T) {
			if !action(t) {
				t.Skip("there is nothing for it")
			}
		}
	}
	for _, often := range []string{"task", "settle", "result", "move", "lane"} {
		actions[often+" again"] = actions[often]
	}
	t.Repeat(actions)
	s.finish()
}

// lead has a new engine fold the journal and take over.
func (s *succession) lead() {
	e := engine.New()
	e.Apply(s.now, coordinator.PolicyChanged{Policy: s.policy}, nil)
	e.Follow()
	s.journal = append(s.journal, entry{at: s.now})
	began, last := s.journal[0].at, s.journal[0].at
	for _, r := range s.journal[1:] {
		if r.record == nil {
			e.Succeed(last, last.Sub(began))
			began, last = r.at, r.at // what it has written counts from here
			continue
		}
		last = r.at
		e.Fold(r.at, r.record)
	}
	s.l.engine = e
	s.e, s.began, s.dying, s.led = e, s.now, alive, false
	s.unsent, s.untold = make(map[coordinator.Handle]bool), make(map[coordinator.TaskID]bool)
	e.Lead(s.now)
	e.Record(true)
	results := s.results
	s.results, s.reading = nil, make(map[coordinator.TaskID]bool)
	for _, ev := range results {
		s.reading[ev.Result.Task] = true
	}
	s.muster()
	for _, ev := range results { // of which the journal does not say that their ends are announced
		ev.Live, ev.Untold = false, true
		s.apply(ev)
	}
	s.reading = nil
	s.apply(coordinator.SessionOpened{})
	s.stalls = stalls{over: s.now}
	if s.held {
		s.do(coordinator.PublishingHeld{Held: true})
	}
}

// muster has every agent report that it is ready and idle.
func (s *succession) muster() {
	for _, a := range s.policy.Agents {
		s.apply(coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{
			Agent: a.ID, Status: coordinator.StatusReady, Available: 3, Timestamp: s.real(), ActiveTasks: []coordinator.TaskID{},
		}})
	}
}

// crash kills the leader. Some of what it did last has come to less than it believed.
func (s *succession) crash(t *rapid.T) {
	const agonies, most = 3, 500 * time.Millisecond
	if s.now.Add(agonies*most).Sub(s.began) >= engine.ShortSession { // the broker has handed out everything by then
		for len(s.lost) > 0 {
			s.deliverAgain(0)
		}
	}
	s.apply(coordinator.Tick{})
	s.results = slices.DeleteFunc(s.results, func(ev coordinator.ResultReported) bool { // of which the journal knows
		return s.real().Sub(ev.Result.Timestamp) >= engine.EndsTold
	})
	again := max(0, len(s.results)-rapid.IntRange(0, 3).Draw(t, "results read again"))
	deeds := s.deeds()
	for range rapid.IntRange(0, agonies).Draw(t, "last events") {
		s.now = s.now.Add(time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, "after")))
		if s.dying != silent {
			s.dying = rapid.SampledFrom([]agony{recorded, silent}).Draw(t, "agony")
		}
		deeds[rapid.SampledFrom([]string{"task", "settle", "result", "return", "redeliver", "cancel", "call", "move",
			"lane"}).Draw(t, "event")](t)
	}
	s.results = slices.Delete(s.results, 0, again)
	s.loseDeliveries(t)
	s.now = s.now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms without a leader")) * time.Millisecond)
	if s.policy.Quotas != nil && rapid.IntRange(0, 3).Draw(t, "quotas.yaml has changed meanwhile at 0") == 0 {
		p := *s.policy // what the journal has of other quotas is folded
		p.Quotas = drawQuotas(t)
		s.policy = &p
		clear(s.reached) // of other budgets
	}
	before := s.ahead
	s.now = s.real()
	s.ahead = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Minute, 2 * time.Hour, 100 * time.Hour}).
		Draw(t, "its clock is ahead")
	if s.now = s.now.Add(s.ahead); s.ahead < before { // a period that had passed is at hand again
		clear(s.reached)
	}
	t.Logf("=== taken over, %d results are read again, the clock is %v ahead", len(s.results), s.ahead)
	s.lead()
	s.killMeanwhile(t)
}

// snapshot cuts the journal off: it begins with what the leader knows.
func (s *succession) snapshot(t *rapid.T) {
	if !s.snapshots {
		t.Skip("without snapshots")
	}
	t.Logf("%s  snapshot", s.now.Format("15:04:05.000"))
	s.journal = []entry{{at: s.began}}
	s.e.Image(s.now).Records(func(r coordinator.Record) bool {
		s.journal = append(s.journal, entry{s.now, copied(r)})
		return true
	})
}

// do applies an event, telling first what is due.
func (s *succession) do(ev coordinator.Event) {
	if s.dying == alive {
		s.apply(coordinator.Tick{})
	}
	s.tell(ev)
	s.apply(ev)
	for len(s.owed) > 0 && s.dying == alive {
		id := s.owed[0]
		s.owed = s.owed[1:]
		s.apply(coordinator.FailureTold{Task: id})
	}
}

// apply calls the engine, and has happen what its agony lets happen.
func (s *succession) apply(ev coordinator.Event) {
	s.t.Helper()
	effects := s.e.Apply(s.now, ev, nil)
	records := s.e.Records(nil)
	if _, tick := ev.(coordinator.Tick); !tick || len(effects) > 0 {
		s.t.Logf("%s  %s", s.now.Format("15:04:05.000"), showEvent(ev))
	}
	if s.dying != silent {
		for _, r := range records {
			s.journal = append(s.journal, entry{s.now, r})
		}
	}
	if s.dying == alive {
		s.checkAwaited(effects)
	}
	for _, f := range effects {
		s.t.Logf("                %s%s", [...]string{"→ ", "recorded, but no ", "no "}[s.dying], describe(f))
		if err := s.judge(f); err != nil {
			s.t.Fatal(err)
		}
	}
	if s.dying == alive {
		s.checkHeld()
		s.checkLanes()
	}
	if _, opened := ev.(coordinator.SessionOpened); opened {
		s.led = true
	}
	if s.led { // before that what is lost may not have been given back
		engine.CheckHolds(s.t, s.e)
	}
}
