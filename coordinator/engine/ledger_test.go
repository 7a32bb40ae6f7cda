package engine_test

import (
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// ledger follows every delivery and every task from its acceptance to its end by
// the events and effects alone, and objects to what must never happen: a delivery
// that ends twice or before its dispatch is settled, a task that is with two
// agents, ends twice, or comes to life again although it was done.
type ledger struct {
	receipts map[coordinator.Handle]*receipt
	lives    map[coordinator.TaskID]*life
	taken    map[coordinator.AgentID]bool // queues that the shell consumes for others
	lanes    []*laned                     // what is in them
	dropping map[string]bool              // lanes whose deletion is ordered and not answered
	engine   *engine.Engine               // asked with which agents a task is suspected to have gone down in company
}

// receipt is a delivery of task.assign or of a return. Exactly one of open, ended
// and void holds.
type receipt struct {
	handle            coordinator.Handle
	task              *coordinator.Task
	returned          *coordinator.TaskReturned // nil: from task.assign
	redelivered       bool
	tried             []coordinator.AgentID
	open, ended, void bool
	again             bool                  // void, and delivered again as another receipt
	acked             time.Time             // when it was acknowledged, its dispatch confirmed
	message           int                   // which message it is; the broker may deliver one often
	live              *coordinator.Dispatch // published and not settled
	lane              string                // that it came out of; empty: none
	maybe             bool                  // it said that it may be a copy
	moving            *coordinator.MoveToLane
}

// life is what is known of a task id.
type life struct {
	ended    conclusion
	told     time.Time // when its end by its agent's word was announced; zero: not yet
	attempts map[string]*attempt
	messages map[int]bool // that came under its id from task.assign
	// doubled: a leader died between the broker's confirm of a move and the journal, so that
	// one message is in two queues. If the task fails at its agent before the second is
	// delivered, that looks like a new submission; it is marked as a possible duplicate.
	doubled bool
	// unsent: it failed because a dispatch that was to repeat one which had arrived could not be
	// encoded, which the first one could: what was known of it is gone with that.
	unsent bool
}

// conclusion is how a task has ended.
type conclusion uint8

const (
	notEnded conclusion = iota
	doneFor             // by its agent's word, or a cancel of its agent: never again
	gaveUp              // by its agent's word: may be sent again
	failed              // assignment.failed, with its delivery
	timedOut            // assignment.failed, by the deadline of its lease
)

// attempt is a dispatch. It is live until something is known to have become of it.
type attempt struct {
	*coordinator.Dispatch
	standing standing
	since    time.Time      // when it was first made, by the clock of
	by       *engine.Engine // that made it
	again    bool           // an earlier copy of it may have arrived
	arrived  bool           // its agent has it, or may have it, or had it
	settled  time.Time      // when the broker answered, or could not any more; zero: not yet
}

type standing uint8

const (
	published  standing = iota
	withAgent           // confirmed
	unanswered          // its session ended first
	past                // nowhere, back, let go, or of a task that has ended
)

func newLedger() *ledger {
	return &ledger{
		receipts: make(map[coordinator.Handle]*receipt), lives: make(map[coordinator.TaskID]*life),
		taken: make(map[coordinator.AgentID]bool), dropping: make(map[string]bool),
	}
}

func (l *ledger) life(id coordinator.TaskID) *life {
	if l.lives[id] == nil {
		l.lives[id] = &life{attempts: make(map[string]*attempt), messages: make(map[int]bool)}
	}
	return l.lives[id]
}

// attempt finds a dispatch to that agent, nil when there is none.
func (l *ledger) attempt(task coordinator.TaskID, agent coordinator.AgentID, n int) *attempt {
	if a := l.life(task).attempts[coordinator.AttemptID(task, n)]; a != nil && a.Agent == agent {
		return a
	}
	return nil
}

// receive takes a delivery in.
func (l *ledger) receive(r *receipt) {
	r.open = true
	l.receipts[r.handle] = r
	if r.returned == nil {
		l.life(r.task.ID).messages[r.message] = true
	}
	if ev := r.returned; ev != nil {
		// Its headers name its own agent in any case: whether that had it before, too, they do not say.
		r.tried = engine.Without(ev.Tried, ev.Agent)
		if ev.Cause != coordinator.ReturnTakenBack {
			r.tried = append(r.tried, ev.Agent)
		}
	}
}

// dispatched judges a dispatch of the delivery; resumed: it repeats the one that
// its agent has, or may have.
func (l *ledger) dispatched(d *coordinator.Dispatch) (resumed bool, err error) {
	r := l.receipts[d.Handle]
	if r == nil || !r.open || r.live != nil || r.moving != nil {
		return false, fmt.Errorf("handle %d cannot be dispatched: not open or dispatched already", d.Handle)
	}
	life := l.life(d.Task.ID)
	if err := l.mayLive(r); err != nil {
		return false, err
	}
	if d.DispatchID != coordinator.DispatchID(d.Task, d.Attempt) {
		return false, fmt.Errorf("dispatch id %s does not name attempt %d of %s", d.DispatchID, d.Attempt, d.Task.ID)
	}
	id := coordinator.AttemptID(d.Task.ID, d.Attempt)
	former := life.attempts[id]
	if former != nil && former.Agent == d.Agent && (former.standing == unanswered || r.isReturnOf(former)) {
		resumed = true
		r.tried = slices.DeleteFunc(r.tried, func(id coordinator.AgentID) bool { return id == d.Agent })
		if !d.MaybeDuplicate {
			return true, fmt.Errorf("%s repeats a dispatch without saying so", d.DispatchID)
		}
	} else if former != nil && (former.standing != past || former.arrived) {
		return false, fmt.Errorf("%s stands for two dispatches", d.DispatchID)
	}
	for _, other := range life.attempts {
		if other != former && (other.standing == published || other.standing == withAgent) {
			return false, fmt.Errorf("%s goes to %s, while %s has it (%s)", d.Task.ID, d.Agent, other.Agent, other.DispatchID)
		}
	}
	if err := r.learnTried(d.Tried, l.spared(d.Handle)); err != nil {
		return false, err
	}
	switch {
	case slices.Contains(d.Tried, d.Agent) && !resumed && !l.mayHaveAgain(d.Handle, d.Agent):
		return resumed, fmt.Errorf("%s goes to %s, which had it before: %v", d.DispatchID, d.Agent, d.Tried)
	case slices.ContainsFunc(d.Failed, func(id coordinator.AgentID) bool {
		return !slices.Contains(d.Tried, id) &&
			!l.awaited(d.Handle, id)
	}):
		return resumed, fmt.Errorf("%s: failed on %v, tried on %v", d.DispatchID, d.Failed, d.Tried)
	case !d.Task.Deadline.IsZero() && !d.At.Before(d.Task.Deadline):
		return resumed, fmt.Errorf("%s was dispatched after its deadline", d.Task.ID)
	}
	since, by := d.At, l.engine
	if resumed {
		since, by = former.since, former.by
	}
	life.attempts[id] = &attempt{Dispatch: d, since: since, by: by, again: resumed}
	r.live = d
	return resumed, nil
}

// isReturnOf tells whether the delivery is this dispatch, come back.
func (r *receipt) isReturnOf(a *attempt) bool {
	return r.returned != nil && r.returned.Agent == a.Agent && r.returned.Attempt == a.Attempt
}

// spared are the agents that may have the task once more, because it was not alone when they
// went down with it.
func (l *ledger) spared(h coordinator.Handle) []coordinator.AgentID {
	if t := l.engine.HeldTask(h); t != nil {
		return t.Suspected()
	}
	return nil
}

// mayHaveAgain tells whether the task may go to an agent that had it: it has been found that no other is there,
// or none that it could wait for.
func (l *ledger) mayHaveAgain(h coordinator.Handle, id coordinator.AgentID) bool {
	t := l.engine.HeldTask(h)
	return t != nil && !slices.Contains(t.Barred(), id)
}

// awaited tells whether the task may be with the agent once more on which it failed, because no other
// can have it.
func (l *ledger) awaited(h coordinator.Handle, id coordinator.AgentID) bool {
	t := l.engine.HeldTask(h)
	return t != nil && slices.Contains(t.Untouched(), id)
}

// learnTried takes over the agents that had the task before; the engine may add the agent of
// an open decision, but forget none but those that are spared.
func (r *receipt) learnTried(tried, spared []coordinator.AgentID) error {
	for _, id := range r.tried {
		if !slices.Contains(tried, id) && !slices.Contains(spared, id) {
			return fmt.Errorf("%s: that %s had it before was forgotten", r.task.ID, id)
		}
	}
	r.tried = slices.Clone(tried)
	return nil
}

// mayLive lets a task that has ended live again, where that is right: its producer
// sends it anew after it ended badly, or it is not known whether assignment.failed got
// through. A message that the broker hands out once more is not sent anew; where
// several have come under one id, it is not known which of them it is.
func (l *ledger) mayLive(r *receipt) error {
	life := l.life(r.task.ID)
	if life.ended == notEnded {
		return nil
	}
	again := life.ended == failed || life.ended != doneFor && (!r.redelivered && r.lane == "" || len(life.messages) > 1 ||
		life.doubled || life.unsent)
	if r.returned != nil {
		again = life.ended == failed && (r.redelivered || life.newest() < r.returned.Attempt)
	}
	if !again && !(r.redelivered && life.ended == failed) {
		return fmt.Errorf("%s has ended (%d), and begins again with handle %d", r.task.ID, life.ended, r.handle)
	}
	life.ended = notEnded
	return nil
}

// newest is the number of the latest attempt.
func (f *life) newest() (n int) {
	for _, a := range f.attempts {
		n = max(n, a.Attempt)
	}
	return n
}

// settle ends a delivery: it is acknowledged or failed.
func (l *ledger) settle(h coordinator.Handle) error {
	r := l.receipts[h]
	switch {
	case r == nil || !r.open:
		return fmt.Errorf("handle %d was ended, but it is not open", h)
	case r.live != nil:
		return fmt.Errorf("handle %d was ended while its dispatch %s is not settled", h, r.live.DispatchID)
	case r.moving != nil:
		return fmt.Errorf("handle %d was ended while it is being moved", h)
	}
	r.open, r.ended = false, true
	return nil
}

// dropped judges an acknowledgement of a delivery as a copy: something must still
// lead the task to its end, or it must have ended.
func (l *ledger) dropped(h coordinator.Handle) error {
	r := l.receipts[h]
	life := l.life(r.task.ID)
	if life.ended != notEnded || r.returned != nil && r.returned.Attempt < life.newest() || l.hasInLane(r.task.ID) {
		return nil
	}
	for _, other := range l.receipts {
		if other != r && other.task.ID == r.task.ID && (other.open || other.void && !other.again) {
			return nil
		}
	}
	for _, a := range life.attempts {
		if a.standing != past || r.returned == nil {
			return nil
		}
	}
	return fmt.Errorf("handle %d of %s was dropped, and nothing else leads it on", h, r.task.ID)
}

// end ends a task. It gives the attempts that were live.
func (l *ledger) end(task coordinator.TaskID, how conclusion) (live []*attempt, err error) {
	life := l.life(task)
	if life.ended != notEnded {
		return nil, fmt.Errorf("%s ends a second time (%d, then %d)", task, life.ended, how)
	}
	life.ended = how
	for _, a := range life.attempts {
		if a.standing != past {
			live = append(live, a)
			a.standing = past
		}
	}
	return live, nil
}
