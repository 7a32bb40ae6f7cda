package engine_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// history is one random run: the engine under test, the naive model and the
// ledger beside it, and everything that happened, so that it can be repeated.
type history struct {
	t     *rapid.T
	e     *engine.Engine
	m     *model
	l     *ledger
	now   time.Time
	steps []step

	handle   coordinator.Handle
	token    uint64
	session  bool
	opened   time.Time                               // when it was
	skew     map[coordinator.AgentID]time.Duration   // how wrong each agent's clock is
	plain    map[coordinator.AgentID]bool            // which say no more than how many tasks they run
	lost     []*receipt                              // what the broker will hand out again
	arrived  []*coordinator.Dispatch                 // dispatches an agent has or may have
	checking []coordinator.AgentID                   // EnsureQueue not yet answered
	answered bool                                    // the cancel being applied
	former   *receipt                                // of the message being delivered again
	moment   []*coordinator.Dispatch                 // of the event being applied, so far
	waiters  map[coordinator.Handle]*engine.OpenTask // that waited before it
	owed     []coordinator.TaskID                    // failures without a delivery, not confirmed yet
	outOf    int                                     // the message being delivered out of a lane; 0: none
	twin     *engine.Engine                          // follows what the engine records
	past     []written                               // all that it has followed
	restored *engine.Engine                          // follows from a snapshot of earlier on
	imaged   int                                     // how many events it has followed
	limited  bool                                    // there are quotas
	gone     *coordinator.Quotas                     // that were taken away last
	laned    bool                                    // and lanes with them
	stalls   stalls
}

// step is one call of Apply and what came of it.
type step struct {
	at      time.Time
	event   coordinator.Event
	effects []coordinator.Effect
}

// TestHistories holds the engine against the model and the ledger over random
// histories of everything that can happen: never above capacity, never an agent
// that may not have it, the strategy's choice, the pending order, work
// conservation, slots as the model counts them, no task with two agents, every
// delivery and every task ended once, and indexes that equal a recomputation.
// After each history nothing is left over, every slot is free again, and it
// repeats with equal effects.
func TestHistories(t *testing.T) {
	histories(t, func(h *history) map[string]func(*rapid.T) {
		return map[string]func(*rapid.T){
			"task": h.sendTask, "result": h.sendResult, "return": h.returnOne, "look": h.look,
		}
	})
}

// TestBatchHistories is the same with many new tasks of one kind at a time, so that
// batches form in every way there is. So many run out of time that agents are
// ejected.
func TestBatchHistories(t *testing.T) {
	histories(t, func(h *history) map[string]func(*rapid.T) {
		return map[string]func(*rapid.T){"burst": h.sendBurst, "cancel of one": h.cancelNew}
	})
}

// histories plays random histories: of what happens in all of them, and of what is
// given, which happens often.
func histories(t *testing.T, often func(h *history) map[string]func(*rapid.T)) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		frequent := often(h)
		h.changePolicy(t)
		h.openSession(t)
		h.muster(t)
		actions := map[string]func(*rapid.T){
			"":           func(*rapid.T) {},
			"policy":     h.changePolicy,
			"session":    h.changeSession,
			"redelivery": h.redeliver,
			"queue":      h.answerQueue,
			"cancel":     h.cancel,
			"order":      h.order,
			"control":    h.control,
			"flap":       h.flap,
			"alarm":      h.alarm,
			"kill":       h.kill,
			"muster":     h.muster,
			"move":       h.settleMove,
			"move again": h.settleMove,
			"lane":       h.outOfLane,
			"lane again": h.outOfLane,
			"lanes":      h.quietLanes,
		}
		frequent["report"], frequent["settle"], frequent["time"] = h.sendReport, h.settleOne, h.pass
		for name, action := range frequent {
			for i := range 3 {
				actions[fmt.Sprint(name, " ", i)] = action
			}
		}
		t.Repeat(actions)
		h.finish()
		h.repeat("again", false, false)
		h.repeat("with the agents listed in another order", true, false)
		h.repeat("without the ticks between events", false, true)
	})
}

func newHistory(t *rapid.T) *history {
	h := &history{
		t: t, e: engine.New(), m: newModel(), l: newLedger(), now: epoch,
		skew: make(map[coordinator.AgentID]time.Duration), plain: make(map[coordinator.AgentID]bool),
	}
	h.m.engine, h.l.engine = h.e, h.e
	h.e.Record(true)
	h.twin = engine.New()
	h.twin.Follow()
	for _, id := range agentIDs {
		h.skew[id] = rapid.SampledFrom([]time.Duration{0, 0, -10 * time.Minute, 10 * time.Minute}).
			Draw(t, "clock of "+string(id))
		h.plain[id] = rapid.Bool().Draw(t, string(id)+" is plain")
	}
	return h
}

// do applies an event, telling first what is due, and judges the effects.
func (h *history) do(ev coordinator.Event) {
	h.t.Helper()
	h.m.tick(h.now)
	h.apply(coordinator.Tick{})
	if _, isTick := ev.(coordinator.Tick); isTick {
		return
	}
	h.tell(ev)
	h.apply(ev)
}

// pay confirms what no delivery stands behind.
func (h *history) pay() {
	for len(h.owed) > 0 {
		id := h.owed[0]
		h.owed = h.owed[1:]
		h.apply(coordinator.FailureTold{Task: id})
	}
}

// tell lets model and ledger know of an event before the engine does.
func (h *history) tell(ev coordinator.Event) {
	m, l := h.m, h.l
	m.returned = nil
	switch ev := ev.(type) {
	case coordinator.PolicyChanged:
		m.install(h.now, ev.Policy)
	case coordinator.SessionOpened:
		m.openSession(h.now)
		h.stalls.end(h.now)
	case coordinator.PublishingHeld:
		if m.hold(h.now, ev.Held); ev.Held {
			h.stalls.begin(h.now)
		} else {
			h.stalls.end(h.now)
		}
	case coordinator.AgentReported:
		m.heard(h.now, ev.Report, ev.Live)
	case coordinator.QueueSeen:
		m.seen(h.now, ev)
	case coordinator.AgentOrdered:
		switch a := m.agents[ev.Agent]; {
		case a == nil || !a.listed:
		case ev.Order == coordinator.OrderUncordon:
			delete(m.orders, ev.Agent)
		default:
			m.orders[ev.Agent] = ev.Order
		}
	case coordinator.TakeBackEnded:
		delete(l.taken, ev.Agent)
	case coordinator.TaskReceived:
		l.receive(&receipt{handle: ev.Handle, task: ev.Task, redelivered: ev.Redelivered, lane: ev.Lane,
			maybe: ev.MaybeDuplicate, message: h.message(ev.Handle)})
	case coordinator.LaneMoved:
		h.moveSettled(ev)
	case coordinator.LaneSeen:
		if ev.Dropped {
			delete(l.dropping, ev.Lane)
		}
	case coordinator.TaskReturned:
		l.receive(&receipt{handle: ev.Handle, task: ev.Task, redelivered: ev.Redelivered, returned: &ev,
			message: h.message(ev.Handle)})
		if a := l.attempt(ev.Task.ID, ev.Agent, ev.Attempt); a != nil {
			a.standing = past
		}
		if a := m.agents[ev.Agent]; a != nil {
			if m.returned = a.slot(coordinator.DispatchID(ev.Task, ev.Attempt)); m.returned != nil {
				a.drop(m.returned)
			}
		}
	case coordinator.DispatchSettled:
		if r := l.receipts[ev.Handle]; r != nil && r.live != nil {
			h.settled(r, ev.Outcome)
		}
	case coordinator.QueueChecked:
		if a := m.agents[ev.Agent]; ev.Exists && a.listed {
			a.noQueue, a.coolsAt = false, time.Time{}
		}
	case coordinator.SessionLost:
		m.hold(h.now, false)
		h.stalls.begin(h.now)
		clear(l.taken)
		clear(l.dropping)
		for _, handle := range slices.Sorted(maps.Keys(l.receipts)) {
			if r := l.receipts[handle]; r.open && r.live != nil {
				h.settled(r, coordinator.PublishUnknown)
			} else if r.open {
				if r.moving != nil && handle%2 == 0 {
					l.putInLane(r)
				}
				r.moving = nil
				r.open, r.void = false, true
				h.lost = append(h.lost, r)
			} else if h.now.Sub(r.acked) < engine.AckDoubt && handle%2 == 0 {
				h.lost = append(h.lost, r) // its acknowledgement was lost
				r.acked = time.Time{}
			}
		}
	case coordinator.DrainBegan:
		clear(l.taken)
		for _, handle := range slices.Sorted(maps.Keys(l.receipts)) {
			if r := l.receipts[handle]; r.open && r.live == nil && r.moving == nil {
				r.open, r.void = false, true
				h.lost = append(h.lost, r)
			}
		}
	}
}

// message names the message of a delivery: by its first handle.
func (h *history) message(handle coordinator.Handle) int {
	if h.former != nil {
		return h.former.message
	}
	if h.outOf != 0 {
		return h.outOf
	}
	return int(handle)
}

// settled notes what the broker has said, or will never say, of a dispatch.
func (h *history) settled(r *receipt, o coordinator.PublishOutcome) {
	d := r.live
	a := h.l.life(d.Task.ID).attempts[coordinator.AttemptID(d.Task.ID, d.Attempt)]
	r.live = nil
	if o != coordinator.PublishConfirmed && o != coordinator.PublishUnknown {
		h.arrived = slices.DeleteFunc(h.arrived, func(x *coordinator.Dispatch) bool { return x == d }) // it never did
	}
	if o == coordinator.PublishAbandoned && a.Dispatch == d && a.again {
		o = coordinator.PublishUnknown // of its earlier copy it is still not known
	}
	h.m.settled(h.now, d, o, a.Dispatch != d || a.standing == past)
	now := past
	switch o {
	case coordinator.PublishConfirmed:
		now = withAgent
	case coordinator.PublishUnknown:
		now = unanswered
	}
	if o == coordinator.PublishUnknown || o == coordinator.PublishAbandoned {
		r.open, r.void = false, true
		h.lost = append(h.lost, r)
	}
	a.arrived, a.settled = a.arrived || now != past, h.now
	if a.Dispatch == d && a.standing == published {
		a.standing = now
	}
}

// apply calls the engine, judges every effect in order, then looks at the whole.
func (h *history) apply(ev coordinator.Event) {
	h.t.Helper()
	waiting := h.inState(engine.StateWaiting)
	h.waiters = make(map[coordinator.Handle]*engine.OpenTask, len(waiting))
	for other := range waiting {
		h.waiters[other] = h.e.HeldTask(other)
	}
	h.m.ejectedBefore = allEjections(h.e)
	h.m.isolating = h.e.IsIsolating()
	h.m.suspected = h.e.Suspects()
	effects := h.e.Apply(h.now, ev, nil)
	h.m.ejected = allEjections(h.e)
	h.steps = append(h.steps, step{h.now, ev, effects})
	h.t.Logf("%s  %s", h.now.Format("15:04:05.000"), showEvent(ev))
	h.letGo(effects)
	h.moment = nil
	for _, f := range effects {
		h.t.Logf("                → %s", describe(f))
		if err := h.judge(ev, f, waiting); err != nil {
			h.t.Fatal(err)
		}
	}
	h.checkBatches()
	h.checkStates()
	h.checkSlots()
	engine.CheckIndexes(h.t, h.e)
	h.checkQuotas()
	h.follow(ev)
	h.checkLanes()
	h.checkAudit()
	h.pay()
}

// checkBatches: dispatches that share a batch are as many as they say, of one kind,
// at one agent, and first ones; one that shares none could have had none to share with.
func (h *history) checkBatches() {
	h.t.Helper()
	size := make(map[string]int)
	for _, d := range h.moment {
		size[d.BatchID]++
	}
	for _, d := range h.moment {
		r := h.l.receipts[d.Handle]
		if d.BatchID == "" {
			if d.BatchSize != 0 {
				h.t.Fatalf("%s goes alone in a batch of %d", d.DispatchID, d.BatchSize)
			}
			continue
		}
		first := h.moment[slices.IndexFunc(h.moment, func(o *coordinator.Dispatch) bool { return o.BatchID == d.BatchID })]
		most := h.m.policy.Routes[d.Task.Type].Batch.MaxSize
		switch {
		case d.BatchSize != size[d.BatchID] || d.BatchSize < 2 || d.BatchSize > most:
			h.t.Fatalf("%s in a batch of %d, which has %d, at most %d", d.DispatchID, d.BatchSize, size[d.BatchID], most)
		case first.DispatchID != d.BatchID || d != first && !h.m.sameBatch(first, d):
			h.t.Fatalf("%s to %s shares the batch %s of %s to %s", d.DispatchID, d.Agent, d.BatchID, first.DispatchID,
				first.Agent)
		case r.redelivered || r.returned != nil || d.MaybeDuplicate || len(d.Tried) > 0:
			h.t.Fatalf("%s has been here before, and shares the batch %s", d.DispatchID, d.BatchID)
		}
	}
}

// checkSlots: every agent has as many tasks as the model counts.
func (h *history) checkSlots() {
	h.t.Helper()
	for _, a := range h.e.FleetAgents() {
		b := h.m.agents[a.Spec().ID]
		if a.InFlight() != b.outstanding() || a.Uncovered() != b.uncovered() || a.State() != b.state {
			h.t.Fatalf("%s (%s): %d in flight, %d uncovered, credit %d; by the model (%s) %d, %d, %d", a.Spec().ID, a.State(),
				a.InFlight(), a.Uncovered(), a.Credit(), b.state, b.outstanding(), b.uncovered(), b.credit())
		}
		if taken := a.TakenQueue() != ""; taken != h.l.taken[a.Spec().ID] {
			h.t.Fatalf("%s: taken back %v", a.Spec().ID, taken)
		}
	}
}

// checkStates: every open delivery is held by the engine in exactly one state,
// nothing else is, and while a task waits no eligible agent is idle. Of a task that is
// being moved for the second time the lane may hand out the copy of the first: that is
// kept beside it.
func (h *history) checkStates() {
	h.t.Helper()
	beside := make(map[coordinator.Handle]*engine.OpenTask)
	for _, o := range h.e.HeldTasks() {
		if o.Early() != nil {
			beside[o.Early().Handle] = o
		}
	}
	for handle, r := range h.l.receipts {
		o := h.e.HeldTask(handle)
		switch moving := beside[handle]; {
		case moving != nil:
			if !r.open && !r.void || o != nil || moving.State() != engine.StateMoving || moving.Task().ID != r.task.ID {
				h.t.Fatalf("handle %d (%s): open %v, held %v, kept beside %s in state %d", handle, r.task.ID, r.open, o != nil,
					moving.Task().ID, moving.State())
			}
			continue
		case r.open != (o != nil):
			h.t.Fatalf("handle %d (%s): open %v, held by the engine %v", handle, r.task.ID, r.open, o != nil)
		case o == nil:
			continue
		case o.State() == engine.StateDeciding || o.State() == engine.StateLeased:
			h.t.Fatalf("handle %d (%s) was left in state %d", handle, r.task.ID, o.State())
		case (o.State() == engine.StateMoving) != (r.moving != nil):
			h.t.Fatalf("handle %d (%s): state %d, moving %v", handle, r.task.ID, o.State(), r.moving != nil)
		case (o.State() == engine.StateDispatching) != (r.live != nil):
			h.t.Fatalf("handle %d (%s): dispatching %v, live %v", handle, r.task.ID, o.State() == engine.StateDispatching,
				r.live != nil)
		case o.State() == engine.StateGathering:
			limits := h.m.policy.Routes[r.task.Type].Batch
			if limits.MaxSize < 2 || r.redelivered || r.returned != nil || !h.now.Before(r.task.AcceptedAt.Add(limits.MaxWait)) {
				h.t.Fatalf("%s still waits for others at %v: %+v", r.task.ID, h.now, limits)
			}
		case o.State() == engine.StateWaiting && h.e.IsParked(o):
		case o.State() == engine.StateWaiting:
			if err := r.learnTried(o.Tried(), h.l.spared(handle)); err != nil {
				h.t.Fatal(err)
			}
			trusted := func(id coordinator.AgentID) bool { return !h.m.ejected.from(id, h.m.required(r.task)) }
			if a := h.m.best(h.now, r.task, o.Barred(), trusted); a != nil && !o.Alone() {
				h.t.Fatalf("%s waits although %s could take it; in its class %+v goes first", r.task.ID, a.spec.ID,
					h.e.FirstOfClass(o))
			}
		}
		if !o.Over() {
			if err := h.l.mayLive(r); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

func (h *history) inState(s engine.TaskState) map[coordinator.Handle]bool {
	set := make(map[coordinator.Handle]bool)
	for handle, o := range h.e.HeldTasks() {
		if o.State() == s {
			set[handle] = true
		}
	}
	return set
}

// finish delivers what is to be delivered again, settles everything, answers
// every question, lets all deadlines pass and every agent report that it is idle:
// then nothing may be held, waiting, with an agent, or scheduled any more.
func (h *history) finish() {
	h.t.Helper()
	if !h.session {
		h.openSession(nil)
	}
	if h.m.held {
		h.do(coordinator.PublishingHeld{})
	}
	roomy := *h.e.Policy()
	roomy.LaneRoom = 0       // else what comes out of lanes, whether they are read or not, goes back at once
	if roomy.Quotas != nil { // days go on for ever
		q := *roomy.Quotas
		q.Adjustment, roomy.Quotas = coordinator.Adjustment{}, &q
	}
	h.do(coordinator.PolicyChanged{Policy: &roomy})
	for range 10_000 {
		for len(h.lost) > 0 {
			h.deliverAgain(0)
		}
		for _, handle := range slices.Sorted(maps.Keys(h.inState(engine.StateDispatching))) {
			h.do(coordinator.DispatchSettled{Handle: handle, Outcome: coordinator.PublishConfirmed})
		}
		for _, handle := range h.l.moves() {
			h.do(coordinator.LaneMoved{Handle: handle, Outcome: coordinator.PublishConfirmed})
		}
		for len(h.l.lanes) > 0 {
			h.comesOut(0)
		}
		for len(h.checking) > 0 {
			h.answer(true)
		}
		at, ok := h.e.NextDeadline()
		if !ok {
			break
		}
		if at.After(h.now) {
			h.now = at
		}
		h.do(coordinator.Tick{})
	}
	if at, ok := h.e.NextDeadline(); ok {
		h.t.Fatalf("a timer is left: %v", at)
	}
	for range 2 { // one to teach the clock, one that is known to be newer than all else
		h.now = h.now.Add(time.Hour)
		for _, a := range h.e.FleetAgents() {
			r := coordinator.AgentReport{Agent: a.Spec().ID, Status: coordinator.StatusOffline, Timestamp: h.now}
			if !h.plain[a.Spec().ID] {
				r.ActiveTasks = []coordinator.TaskID{}
			}
			h.do(coordinator.AgentReported{Report: r, Live: true})
		}
		h.do(coordinator.PolicyChanged{Policy: h.e.Policy()}) // agents that have left are forgotten
	}
	h.checkEmpty()
}

// checkEmpty: nothing is left over.
func (h *history) checkEmpty() {
	h.t.Helper()
	e := h.e
	if len(e.HeldTasks())+e.ActiveClasses()+e.PendingTotal()+e.AgentsLeft() > 0 {
		h.t.Fatalf("left over: held %d, active classes %d, pending %v, agents that left %d",
			len(e.HeldTasks()), e.ActiveClasses(), e.PendingTotal(), e.AgentsLeft())
	}
	for _, o := range e.OpenTasks() {
		if o != nil {
			h.t.Fatalf("%s is still open, state %d, with %s", o.Task().ID, o.State(), o.DispatchID())
		}
	}
	for _, a := range e.FleetAgents() {
		if a.InFlight() != 0 || a.Uncovered() != 0 || a.Credit() != 0 || len(a.Open()) != 0 {
			h.t.Fatalf("%s has %d in flight, %d uncovered, credit %d, %d on its account",
				a.Spec().ID, a.InFlight(), a.Uncovered(), a.Credit(), len(a.Open()))
		}
	}
	for handle, r := range h.l.receipts {
		if r.open || r.ended == r.void {
			h.t.Fatalf("handle %d (%s): open %v, ended %v, void %v", handle, r.task.ID, r.open, r.ended, r.void)
		}
	}
	for id, life := range h.l.lives {
		if life.ended != notEnded {
			continue
		}
		for _, a := range life.attempts {
			name := a.DispatchID
			if a.standing != past {
				h.t.Fatalf("%s has not ended: %s is with %s", id, name, a.Agent)
			}
		}
	}
}

// repeat runs the history through a fresh engine and compares the effects.
func (h *history) repeat(how string, shuffle, withoutTicks bool) {
	h.t.Helper()
	var before, after []coordinator.Effect
	e := engine.New()
	for i, s := range h.steps {
		before = append(before, s.effects...)
		ev := s.event
		if p, ok := ev.(coordinator.PolicyChanged); ok && shuffle {
			q := *p.Policy
			q.Agents = slices.Clone(q.Agents)
			slices.Reverse(q.Agents)
			ev = coordinator.PolicyChanged{Policy: &q}
		}
		if _, ok := ev.(coordinator.Tick); ok && withoutTicks && i+1 < len(h.steps) && h.steps[i+1].at.Equal(s.at) {
			continue // the next event does the same first
		}
		after = e.Apply(s.at, ev, after)
	}
	for i := range min(len(before), len(after)) {
		if !reflect.DeepEqual(before[i], after[i]) {
			h.t.Fatalf("the same history gives other effects %s: effect %d is %s instead of %s\n%+v\n%+v", how, i,
				describe(after[i]), describe(before[i]), after[i], before[i])
		}
	}
	if len(before) != len(after) {
		h.t.Fatalf("the same history gives other effects %s: %d instead of %d", how, len(after), len(before))
	}
}
