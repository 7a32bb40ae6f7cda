package engine_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// world is what the shell, the broker, agents, producers and operators do around an engine, drawn from a
// seed. It knows the engine by what it exports: what it draws from is what the engine's effects say.
type world struct {
	chance  chance
	special *special // nil: everything may happen
	engine  *engine.Engine
	policy  *coordinator.Policy // as the files have it, without controls
	now     time.Time
	events  int  // of which something followed
	calm    bool // most of what happens is what should, and agents report by themselves
	beaten  time.Time
	seen    func(n int, now time.Time, ev coordinator.Event, write func(*encoder))

	open    bool // a session is
	began   time.Time
	journal []noted
	handle  coordinator.Handle
	token   uint64

	held      map[coordinator.Handle]coordinator.Event // deliveries that are not acknowledged
	again     []coordinator.Event                      // deliveries that the broker hands out once more
	published []*coordinator.Dispatch                  // and not confirmed
	working   []*coordinator.Dispatch                  // with their agents
	done      []*coordinator.Dispatch                  // the latest that ended
	moves     []coordinator.MoveToLane                 // not confirmed
	lanes     []inLane                                 // messages in lanes
	reading   map[string]int
	drops     []string
	queues    []coordinator.AgentID // asked for
	takenBack map[coordinator.AgentID]bool
	offers    []*coordinator.Offer
	owed      []coordinator.TaskID // failures without a delivery, not confirmed
	dead      []coordinator.AgentID
	results   []coordinator.ResultReported
	changed   bool   // the controls have
	before    func() // every event; nil: nothing is done
}

// noted is a record in the journal.
type noted struct {
	at     time.Time
	record coordinator.Record
}

// inLane is a message in a lane.
type inLane struct {
	lane string
	task *coordinator.Task
	copy bool
}

// newWorld begins a leader's term with a session.
func newWorld(
	seed uint64, special *special, seen func(int, time.Time, coordinator.Event, func(*encoder)),
) *world {
	w := &world{
		chance: chance{seed}, special: special, calm: seed%2 == 0, now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC),
		seen:   seen,
		engine: engine.New(),
		held:   make(map[coordinator.Handle]coordinator.Event),
	}
	w.engine.Record(true)
	w.policy = w.drawPolicy()
	w.began = w.now
	w.apply(coordinator.PolicyChanged{Policy: w.policy})
	w.openSession()
	w.muster()
	return w
}

// action is something that happens so often.
type action struct {
	weight int
	do     func()
}

// drawPolicy draws what the files say.
func (w *world) drawPolicy() *coordinator.Policy {
	if w.special != nil {
		return w.special.policy(w)
	}
	return w.drawAnyPolicy()
}

// actions are all that may happen.
func (w *world) actions() []action {
	if w.special != nil {
		return w.special.actions(w)
	}
	return []action{
		{14, w.sendTask}, {3, w.sendBurst}, {16, w.settle}, {12, w.tellResult}, {5, w.giveBack}, {10, w.report},
		{2, w.muster}, {16, w.pass},
		{6, w.move}, {6, w.comeOut}, {3, w.redeliver}, {4, w.askCalls}, {4, w.bid}, {4, w.claim}, {2, w.cancel},
		{1, w.order}, {4, w.lookAtQueue},
		{2, w.lookAtLane}, {6, w.answer}, {2, w.control}, {1, w.changePolicy}, {1, w.loseSession}, {1, w.takeOver},
		{1, w.hold}, {1, w.flap}, {2, w.ask},
	}
}

// play lets so many things happen.
func (w *world) play(events int) {
	actions, total := w.actions(), 0
	for _, a := range actions {
		total += a.weight
	}
	for w.events < events {
		at := w.chance.n(total - 1)
		for _, a := range actions {
			if at -= a.weight; at < 0 {
				a.do()
				break
			}
		}
	}
}

// rarely is true once in so many times, and where it is calm in four times as many.
func (w *world) rarely(times int) bool { return w.chance.oneIn(times * w.or(4, 1)) }

// or is the first number where it is calm, else the other.
func (w *world) or(calm, wild int) int {
	if w.calm {
		return calm
	}
	return wild
}

// apply gives the engine an event, and has what the shell does at once follow.
func (w *world) apply(ev coordinator.Event) {
	if w.before != nil {
		w.before()
	}
	effects := w.engine.Apply(w.now, ev, nil)
	records := w.engine.Records(nil)
	if len(effects)+len(records) > 0 { // how often the engine wants to look is its own business
		w.show(ev, func(out *encoder) { out.followed(effects, records) })
	}
	for _, r := range records {
		w.journal = append(w.journal, noted{w.now, r})
	}
	for _, f := range effects {
		w.follow(f)
	}
	if w.changed {
		w.changed = false
		w.apply(coordinator.PolicyChanged{Policy: w.withControls()})
	}
	if at, due := w.engine.NextDeadline(); due && !at.After(w.now) {
		if _, tick := ev.(coordinator.Tick); tick {
			panic(fmt.Sprintf("event %d: %v is due still after a tick at %v", w.events, at, w.now))
		}
		w.apply(coordinator.Tick{})
	}
}

func (w *world) show(ev coordinator.Event, write func(*encoder)) {
	w.events++
	w.seen(w.events, w.now, ev, write)
}

// follow takes note of an effect.
func (w *world) follow(f coordinator.Effect) {
	switch f := f.(type) {
	case *coordinator.Dispatch:
		w.published = append(w.published, f)
	case *coordinator.Fail:
		if f.Handle == 0 {
			w.owed = append(w.owed, f.Task.ID)
		}
		delete(w.held, f.Handle)
	case coordinator.Ack:
		delete(w.held, f.Handle)
	case coordinator.MoveToLane:
		w.moves = append(w.moves, f)
	case coordinator.ReadLane:
		w.reading[f.Lane] = f.Window
	case coordinator.DropLane:
		w.drops = append(w.drops, f.Lane)
	case coordinator.EnsureQueue:
		w.queues = append(w.queues, f.Agent)
	case coordinator.TakeBack:
		w.takenBack[f.Agent] = true
	case coordinator.LeaveQueue:
		delete(w.takenBack, f.Agent)
	case *coordinator.Offer:
		w.offers = append(w.offers, f)
	case coordinator.QuotaControlsStand:
		w.changed = true
	}
}

// withControls is the policy with the controls that stand.
func (w *world) withControls() *coordinator.Policy {
	p := *w.policy
	p.Quotas = controlled(p.Quotas, w.engine.QuotaControls())
	return &p
}

func (w *world) openSession() {
	w.open, w.reading, w.takenBack = true, make(map[string]int), make(map[coordinator.AgentID]bool)
	ev := coordinator.SessionOpened{}
	if w.chance.oneIn(4) {
		ev.Lost, ev.Connected = w.now.Add(-w.chance.seconds(0, 1, 3600)), w.now.Add(-w.chance.seconds(0, 60))
	}
	w.apply(ev)
}

// endSession leaves with the broker what is not acknowledged, and in doubt what is not confirmed.
func (w *world) endSession() {
	w.open = false
	for _, h := range slices.Sorted(maps.Keys(w.held)) {
		w.again = append(w.again, w.held[h])
	}
	clear(w.held)
	for _, d := range w.published {
		if w.chance.oneIn(2) {
			w.working = append(w.working, d)
		}
	}
	for _, m := range w.moves {
		if w.chance.oneIn(2) {
			w.lanes = append(w.lanes, inLane{m.Lane, m.Task, m.MaybeDuplicate})
		}
	}
	w.published, w.moves, w.drops, w.queues, w.reading, w.takenBack = nil, nil, nil, nil, nil, nil
}

func (w *world) loseSession() {
	if !w.open {
		w.openSession()
		return
	}
	if w.chance.oneIn(3) {
		w.apply(coordinator.DrainBegan{})
	}
	w.endSession()
	w.apply(coordinator.SessionLost{})
	if !w.chance.oneIn(4) {
		w.now = w.now.Add(w.chance.seconds(0, 0.2, 3, 40))
		w.openSession()
	}
}

// takeOver has another engine lead, which has folded the journal, or an image of the state.
func (w *world) takeOver() {
	if w.chance.oneIn(2) {
		w.journal = w.image()
	}
	at := w.now
	if w.open {
		w.endSession()
	}
	w.now = w.now.Add(w.chance.seconds(0, 1, 5, 60, 3600, -60))
	if w.chance.oneIn(3) {
		w.policy = w.drawPolicy()
	}
	e := engine.New()
	w.engine = e
	e.Follow()
	e.Apply(w.now, coordinator.PolicyChanged{Policy: w.policy}, nil)
	for i, r := range w.journal {
		if e.PolicyDue(r.at, r.record) {
			w.foldPolicy()
		}
		e.Fold(r.at, r.record)
		if i == len(w.journal)/2 {
			e.Apply(w.now, coordinator.AgentReported{Report: w.drawReport(pick(&w.chance, anyone...)), Live: true}, nil)
		}
	}
	if e.PolicyDue(at, nil) {
		w.foldPolicy()
	}
	e.Succeed(at, at.Sub(w.began))
	known := w.image()
	w.show(coordinator.Tick{}, func(out *encoder) {
		for _, r := range known {
			out.variant(r.record)
		}
	})
	e.Lead(w.now)
	e.Record(true)
	w.began, w.beaten, w.owed = w.now, w.now, nil
	for _, ev := range w.results[max(0, len(w.results)-w.chance.n(3)):] {
		ev.Live, ev.Untold = false, w.chance.oneIn(2)
		w.apply(ev)
	}
	w.muster()
	w.openSession()
}

func (w *world) foldPolicy() {
	if at, behind := w.engine.PolicyBehind(); behind {
		w.engine.FoldPolicy(at, w.withControls())
	}
}

// image is the state as records.
func (w *world) image() (all []noted) {
	image := w.engine.Image(w.now)
	for r := range image.Records {
		own := reflect.New(reflect.TypeOf(r).Elem())
		own.Elem().Set(reflect.ValueOf(r).Elem())
		all = append(all, noted{w.now, own.Interface().(coordinator.Record)})
	}
	return all
}

func (w *world) changePolicy() {
	if quotas := w.policy.Quotas; w.chance.oneIn(2) {
		w.policy = w.drawPolicy()
		if w.chance.oneIn(2) { // agents.yaml alone
			w.policy.Quotas = quotas
		}
	} else { // quotas.yaml alone
		p := *w.policy
		p.Quotas = w.drawQuotas()
		w.policy = &p
	}
	w.apply(coordinator.PolicyChanged{Policy: w.withControls()})
}

func (w *world) sendTask() {
	if w.open {
		w.deliver(func(h coordinator.Handle) coordinator.Event {
			return coordinator.TaskReceived{Handle: h, Task: w.drawTask(), MaybeDuplicate: w.chance.oneIn(20)}
		})
	}
}

// sendBurst sends tasks of one sort, so that they share batches, or agents bid for all of them.
func (w *world) sendBurst() {
	if !w.open {
		return
	}
	taskType := pick(&w.chance, "any", "any", "bid")
	for range 2 + w.chance.n(6) {
		w.deliver(func(h coordinator.Handle) coordinator.Event {
			return coordinator.TaskReceived{Handle: h, Task: &coordinator.Task{
				ID: coordinator.TaskID(fmt.Sprint("t", h)), Type: taskType, Priority: coordinator.PriorityNormal,
				AcceptedAt: w.now, ContentHash: 1, Group: "g1",
			}}
		})
	}
}

// deliver has the broker deliver something under the next handle.
func (w *world) deliver(make func(coordinator.Handle) coordinator.Event) {
	w.handle++
	ev := make(w.handle)
	w.held[w.handle] = ev
	w.apply(ev)
}

func (w *world) redeliver() {
	if !w.open || len(w.again) == 0 {
		return
	}
	for range 1 + w.chance.n(min(5, len(w.again)-1)) {
		ev := take(&w.chance, &w.again)
		w.deliver(func(h coordinator.Handle) coordinator.Event {
			switch ev := ev.(type) {
			case coordinator.TaskReceived:
				ev.Handle, ev.Redelivered = h, true
				return ev
			case coordinator.TaskReturned:
				ev.Handle, ev.Redelivered = h, true
				return ev
			}
			panic(fmt.Sprintf("%T is no delivery", ev))
		})
	}
}

// settle is the broker's answer to dispatches; one that cannot be known ends the session.
func (w *world) settle() {
	for range w.chance.n(3) {
		if len(w.published) == 0 {
			return
		}
		d := take(&w.chance, &w.published)
		outcome := coordinator.PublishConfirmed
		if w.rarely(6) {
			outcome = pick(&w.chance, faults...)
		}
		switch outcome {
		case coordinator.PublishConfirmed:
			w.working = append(w.working, d)
		case coordinator.PublishUnknown, coordinator.PublishAbandoned:
			w.apply(coordinator.DispatchSettled{Handle: d.Handle, Outcome: outcome})
			w.loseSession()
			return
		}
		w.apply(coordinator.DispatchSettled{Handle: d.Handle, Outcome: outcome})
	}
}

// at are the tasks that the agent has.
func (w *world) at(id coordinator.AgentID) []coordinator.TaskID {
	tasks := []coordinator.TaskID{}
	for _, d := range w.working {
		if d.Agent == id && !slices.Contains(tasks, d.Task.ID) {
			tasks = append(tasks, d.Task.ID)
		}
	}
	return tasks
}

// tellResult has an agent tell how a dispatch ended, now and then once more, or wrongly.
func (w *world) tellResult() {
	c := &w.chance
	for range 1 + c.n(2) {
		from := &w.working
		if w.rarely(12) {
			from = &w.done
		}
		if len(*from) == 0 {
			return
		}
		d := take(c, from)
		w.done = append(w.done[max(0, len(w.done)-20):], d)
		ev := coordinator.ResultReported{Live: true, Result: coordinator.Result{
			Task: d.Task.ID, Agent: d.Agent, DispatchID: d.DispatchID, Timestamp: w.now.Add(-c.seconds(0, 0, 1, 15)),
			Attempted: c.oneIn(2), Usage: w.drawUsage(),
			Outcome: pick(
				c, coordinator.OutcomeSucceeded, coordinator.OutcomeSucceeded, coordinator.OutcomeSucceeded,
				coordinator.OutcomeFailed, coordinator.OutcomeRejected, coordinator.OutcomeCancelled,
			),
			Duration: c.seconds(0, 0.5, 2, 20), RetryAfter: c.seconds(0, 0, 30, 1500), Error: pick(c, "", "out of memory"),
			Offset: int64(w.events),
		}}
		if ev.Result.Outcome == coordinator.OutcomeRejected && c.oneIn(2) { // and the message follows
			w.working = append(w.working, d)
		}
		switch c.n(15) {
		case 0:
			ev.Result.Agent = pick(c, anyone...)
		case 1:
			ev.Result.DispatchID = pick(c, "", string(d.Task.ID)+".9", "t1.1")
		}
		w.results = append(w.results[max(0, len(w.results)-10):], ev)
		w.apply(ev)
	}
}

// giveBack has dispatches come back.
func (w *world) giveBack() {
	c := &w.chance
	if !w.open || len(w.working) == 0 {
		return
	}
	d := take(c, &w.working)
	if c.oneIn(6) { // and comes once more
		w.working = append(w.working, d)
	}
	cause := coordinator.ReturnCause(c.n(coordinator.NumReturnCauses - 1))
	if w.takenBack[d.Agent] {
		cause = coordinator.ReturnTakenBack
	}
	w.comeBack(d, cause, cause == coordinator.ReturnTakenBack && c.oneIn(2))
}

func (w *world) comeBack(d *coordinator.Dispatch, cause coordinator.ReturnCause, inHand bool) {
	w.deliver(func(h coordinator.Handle) coordinator.Event {
		return coordinator.TaskReturned{
			Handle: h, Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Tried: d.Tried, Tries: d.Tries,
			Failed: d.Failed, Suspected: d.Suspected, Cause: cause, Redelivered: inHand, MaybeDuplicate: d.MaybeDuplicate,
		}
	})
}

func (w *world) report() {
	id := pick(&w.chance, anyone...)
	w.apply(coordinator.AgentReported{Report: w.drawReport(id), Live: !w.chance.oneIn(10)})
}

// muster has every agent report that it is ready.
func (w *world) muster() {
	w.now = w.now.Add(time.Millisecond)
	w.beaten = w.now
	known := listed
	switch {
	case w.special != nil:
		known = nil
		for i := range w.policy.Agents {
			known = append(known, w.policy.Agents[i].ID)
		}
	case w.policy.Discovery != nil:
		known = anyone
	}
	for _, id := range known {
		w.apply(coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{
			Agent: id, Status: coordinator.StatusReady, Available: 3, Timestamp: w.now, ActiveTasks: w.at(id),
			Active: len(w.at(id)), Capabilities: abilities[:2],
		}})
	}
}

// pass lets time go by, stopping at what is due as the shell does; where it is calm agents report meanwhile.
func (w *world) pass() {
	end := w.now.Add(w.chance.seconds(0.001, 0.02, 0.1, 0.3, 0.5, 0.5, 1, 1, 1, 2, 3, 7, 12, 31))
	if w.rarely(12) {
		end = w.now.Add(w.chance.seconds(65, 600, 3600, 86_400))
	}
	often := end.Sub(w.now) < 2*time.Minute
	for most := w.events + 100; w.events < most; { // what is due again and again is seen a hundred times
		at, due := w.engine.NextDeadline()
		if beat := w.beaten.Add(10 * time.Second); w.calm && often && (!due || beat.Before(at)) && !beat.After(end) {
			w.now = coordinator.Later(w.now, beat)
			w.muster()
			continue
		}
		if !due || at.After(end) {
			break
		}
		w.now = coordinator.Later(w.now, at)
		w.apply(coordinator.Tick{})
	}
	w.now = coordinator.Later(w.now, end)
	w.apply(coordinator.Tick{})
}

func (w *world) move() {
	for range w.chance.n(4) {
		if len(w.moves) == 0 {
			return
		}
		m := take(&w.chance, &w.moves)
		outcome := coordinator.PublishConfirmed
		if w.rarely(6) {
			outcome = pick(&w.chance, faults[:3]...)
		}
		if outcome == coordinator.PublishConfirmed {
			w.lanes = append(w.lanes, inLane{m.Lane, m.Task, m.MaybeDuplicate})
		}
		w.apply(coordinator.LaneMoved{Handle: m.Handle, Outcome: outcome})
	}
}

// comeOut delivers what lies in lanes that are being read.
func (w *world) comeOut() {
	for range 1 + w.chance.n(4) {
		at := slices.IndexFunc(w.lanes, func(m inLane) bool { return w.reading[m.lane] > 0 })
		if !w.open || at < 0 {
			return
		}
		m := w.lanes[at]
		w.lanes = slices.Delete(w.lanes, at, at+1)
		w.deliver(func(h coordinator.Handle) coordinator.Event {
			return coordinator.TaskReceived{
				Handle: h, Task: m.task, Lane: m.lane, MaybeDuplicate: m.copy, Redelivered: w.chance.oneIn(10),
			}
		})
	}
}

func (w *world) lookAtLane() {
	c := &w.chance
	if len(w.drops) > 0 {
		w.apply(coordinator.LaneSeen{Lane: take(c, &w.drops), Dropped: true, Missing: !c.oneIn(4)})
		return
	}
	names := w.engine.LanesWatched(w.now, 3)
	if len(names) == 0 || c.oneIn(5) {
		names = []string{pick(c, lanes...)}
	}
	for _, lane := range names {
		ready := 0
		for _, m := range w.lanes {
			if m.lane == lane {
				ready++
			}
		}
		w.apply(coordinator.LaneSeen{Lane: lane, Ready: ready, Missing: ready == 0 && c.oneIn(5)})
	}
	switch c.n(8) {
	case 0:
		w.apply(coordinator.LaneEnded{Lane: pick(c, lanes...)})
	case 1:
		w.apply(coordinator.IntakeChanged{Window: 1 + c.n(8)})
	}
}

func (w *world) lookAtQueue() {
	c := &w.chance
	id := pick(c, anyone...)
	if watched := w.engine.Watched(w.now, 3); len(watched) > 0 && !c.oneIn(4) {
		id = watched[0].Agent
	}
	consumers := 1
	if w.rarely(2) {
		consumers = 0
	}
	for range 1 + c.n(1) {
		w.apply(coordinator.QueueSeen{Agent: id, Ready: c.n(1), Consumers: consumers})
	}
}

func (w *world) askCalls() {
	w.token++
	ev := coordinator.CallAsked{Token: w.token, Calls: []coordinator.Call{w.drawCall()}}
	if w.chance.oneIn(5) {
		ev.Calls = append(ev.Calls, w.drawCall())
	}
	w.apply(ev)
}

func (w *world) bid() {
	c := &w.chance
	for range 1 + c.n(3) {
		if len(w.offers) == 0 {
			return
		}
		o := w.offers[len(w.offers)-1-c.n(min(6, len(w.offers)-1))]
		w.apply(coordinator.BidReceived{
			Agent: pick(c, o.Agent, o.Agent, o.Agent, o.Agent, pick(c, anyone...)), Task: o.Task.ID,
			AuctionID: pick(c, o.AuctionID, o.AuctionID, ""), Fitness: w.fitness(),
			Active: c.n(2), Duration: c.seconds(0, 1, 30), Relevance: w.fitness(),
		})
	}
	if c.oneIn(10) {
		w.apply(coordinator.OfferUnheard{Agent: pick(c, anyone...)})
	}
}

func (w *world) claim() {
	c := &w.chance
	w.token++
	if w.open {
		w.apply(coordinator.ClaimReceived{
			Agent: pick(c, anyone...), ClaimID: fmt.Sprint("c", w.token), MaxItems: 1 + c.n(3), Pending: c.n(4),
			Capacity: pick(c, 0, 0.1, 4), Wait: c.seconds(0, 1, 20), Token: w.token,
		})
	}
}

func (w *world) cancel() {
	w.token++
	w.apply(coordinator.CancelRequested{
		Task:   coordinator.TaskID(fmt.Sprint("t", max(0, int(w.handle)-w.chance.n(15)))),
		Reason: pick(&w.chance, "", "not wanted"), Token: w.token,
	})
}

func (w *world) order() {
	w.token++
	order := pick(
		&w.chance, coordinator.OrderCordon, coordinator.OrderDrain, coordinator.OrderUncordon, coordinator.OrderUncordon,
	)
	w.apply(coordinator.AgentOrdered{Agent: pick(&w.chance, anyone...), Order: order, Token: w.token})
}

// answer answers what the engine has asked for.
func (w *world) answer() {
	c := &w.chance
	for len(w.queues) > 0 {
		w.apply(coordinator.QueueChecked{Agent: take(c, &w.queues), Exists: !c.oneIn(5)})
	}
	for len(w.owed) > 0 {
		w.apply(coordinator.FailureTold{Task: take(c, &w.owed)})
	}
	if ids := slices.Sorted(maps.Keys(w.takenBack)); len(ids) > 0 && c.oneIn(3) {
		w.apply(coordinator.TakeBackEnded{Agent: pick(c, ids...)})
	}
}

func (w *world) control() {
	c := &w.chance
	ev := coordinator.QuotaControlsRequested{Token: uint64(c.n(1)), Set: []coordinator.QuotaControl{w.drawControl()}}
	if all := w.engine.QuotaControls(); len(all) > 0 && c.oneIn(2) {
		ev.Remove = []string{pick(c, all...).ID}
	}
	w.apply(ev)
}

func (w *world) hold() {
	w.apply(coordinator.PublishingHeld{Held: true})
	w.pass()
	w.apply(coordinator.PublishingHeld{})
}

// flap has an agent come and go.
func (w *world) flap() {
	id := pick(&w.chance, listed...)
	for i := range 2 + w.chance.n(6) {
		w.now = w.now.Add(w.chance.seconds(0.02, 0.3, 1.5))
		r := w.drawReport(id)
		if r.Status, r.Timestamp = coordinator.StatusReady, w.now; i%2 == 0 {
			r.Status = coordinator.StatusOffline
		}
		w.apply(coordinator.AgentReported{Report: r, Live: true})
	}
}

// ask asks all that readers ask: what they are told counts as what follows from an event.
func (w *world) ask() {
	told := w.answers(true)
	known := w.image()
	w.show(coordinator.Tick{}, func(out *encoder) {
		out.values(told...)
		for _, r := range known {
			out.variant(r.record)
		}
	})
}

// answers are what readers get about a task and a call; shell: and the shell, by what goes on where it was last.
func (w *world) answers(shell bool) (told []any) {
	c, e := &w.chance, w.engine
	var goOn []uintptr
	for _, f := range []any{e.Watched, e.LanesWatched, e.Audit} {
		goOn = append(goOn, reflect.ValueOf(f).Pointer())
	}
	task := w.drawTask()
	if ids := slices.Sorted(maps.Keys(w.held)); len(ids) > 0 && !c.oneIn(3) {
		switch ev := w.held[pick(c, ids...)].(type) {
		case coordinator.TaskReceived:
			task = ev.Task
		case coordinator.TaskReturned:
			task = ev.Task
		}
	}
	call := w.drawCall()
	question := &engine.QuotaQuestion{
		Group: call.Group, Agent: call.Agent, Type: call.Operation, Usage: call.Usage, NoBorrowing: call.NoBorrowing,
		Routes: call.Routes,
	}
	for _, asked := range [][]any{
		{e.Snapshot, w.now}, {e.Capabilities, w.now}, {e.Watched, w.now, 3}, {e.LanesWatched, w.now, 3},
		{e.Dispatching}, {e.Explain, w.now, task},
		{e.Place, w.now, task}, {e.LacksQuota, task}, {e.Delayed, task.ID}, {e.Gathering, task.ID},
		{e.Bidding, task.ID}, {e.WaitsForPreferred, task.ID},
		{e.Waiters(w.now).Why, task}, {e.HasAgent, coordinator.AgentID("x1")},
		{e.ReportsNearer, w.now, w.now.Add(time.Hour)}, {e.Audit, w.now},
		{e.IsOver, w.now, &coordinator.TaskReturned{Task: task, Agent: "a", Attempt: 1}},
		{e.Quotas(w.now).Explain, question}, {e.Quotas(w.now).Installed}, {e.Quotas(w.now).Missing},
		{e.QuotaControls}, {e.Quotas(w.now).IDs, allNodes}, {e.Quotas(w.now).Nodes, []string{"pool", "pool/g1", "p"}},
		{e.Quotas(w.now).Snapshot, 50, allNodes}, {e.Quotas(w.now).Page, "pool/g1", 3},
	} {
		if !shell && slices.Contains(goOn, reflect.ValueOf(asked[0]).Pointer()) {
			continue
		}
		in := make([]reflect.Value, len(asked)-1)
		for i, x := range asked[1:] {
			in[i] = reflect.ValueOf(x)
		}
		for _, v := range reflect.ValueOf(asked[0]).Call(in) {
			told = append(told, v.Interface())
		}
	}
	return told
}

// take takes one out of a list.
func take[T any](c *chance, list *[]T) T {
	at := c.n(len(*list) - 1)
	one := (*list)[at]
	*list = slices.Delete(*list, at, at+1)
	return one
}
