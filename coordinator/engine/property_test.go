package engine

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// history is one random run: the engine under test, the naive model beside it,
// and everything that happened, so that it can be repeated.
type history struct {
	t     *rapid.T
	e     *Engine
	m     *model
	now   time.Time
	steps []step

	handle   coordinator.Handle
	session  bool
	skew     map[coordinator.AgentID]time.Duration // how wrong each agent's clock is
	lost     []delivery                            // what the broker will hand out again
	arrived  []coordinator.Dispatch                // dispatches an agent has or may have
	checking []coordinator.AgentID                 // EnsureQueue not yet answered
}

// step is one call of Apply and what came of it.
type step struct {
	at      time.Time
	event   coordinator.Event
	effects []coordinator.Effect
}

// delivery is a message of task.assign or task.reassign.
type delivery struct {
	task     *coordinator.Task
	returned *coordinator.Dispatch // set when it came through task.reassign
}

// TestHistories holds the engine against the model over random histories: no
// second live dispatch, never above capacity, never an ineligible agent, the
// strategy's choice, the pending order, work conservation, every delivery ended
// once, and indexes that equal a recomputation; after each history nothing is
// left over, and it repeats with equal effects.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, e: New(), m: newModel(), now: epoch, skew: make(map[coordinator.AgentID]time.Duration)}
		for _, id := range agentIDs {
			h.skew[id] = rapid.SampledFrom([]time.Duration{0, 0, -10 * time.Minute, 10 * time.Minute}).Draw(t, "clock of "+string(id))
		}
		h.changePolicy(t)
		h.openSession(t)
		t.Repeat(map[string]func(*rapid.T){
			"":           func(*rapid.T) {},
			"policy":     h.changePolicy,
			"session":    h.changeSession,
			"task 1":     h.sendTask,
			"task 2":     h.sendTask,
			"task 3":     h.sendTask,
			"redelivery": h.redeliver,
			"report 1":   h.sendReport,
			"report 2":   h.sendReport,
			"report 3":   h.sendReport,
			"settle 1":   h.settleOne,
			"settle 2":   h.settleOne,
			"return":     h.returnOne,
			"queue":      h.answerQueue,
			"time":       h.pass,
		})
		h.drainAll()
		h.repeat("again", false, false)
		h.repeat("with the agents listed in another order", true, false)
		h.repeat("without the ticks between events", false, true)
	})
}

// do applies an event, telling first what is due, and judges the effects.
func (h *history) do(ev coordinator.Event) {
	h.t.Helper()
	h.m.tick(h.now)
	h.apply(coordinator.Tick{}, nil)
	if _, isTick := ev.(coordinator.Tick); isTick {
		return
	}
	resumes := h.tell(ev)
	h.apply(ev, resumes)
}

// tell lets the model know of an event before the engine does. It returns the
// open decision that a delivery may resume.
func (h *history) tell(ev coordinator.Event) *modelFate {
	m := h.m
	switch ev := ev.(type) {
	case coordinator.PolicyChanged:
		m.install(h.now, ev.Policy)
	case coordinator.SessionOpened:
		m.openSession(h.now)
	case coordinator.AgentReported:
		m.heard(h.now, ev.Report, ev.Live)
	case coordinator.TaskReceived:
		m.tasks[ev.Handle] = &modelTask{handle: ev.Handle, task: ev.Task, open: true}
		f, known := m.fates[ev.Task.ID]
		if known && (f.content != ev.Task.ContentHash || f.state != fateUnsettled) {
			return nil
		}
		m.fates[ev.Task.ID] = modelFate{content: ev.Task.ContentHash, state: fateOpen}
		return &f
	case coordinator.TaskReturned:
		m.tasks[ev.Handle] = &modelTask{handle: ev.Handle, task: ev.Task, open: true, tried: append(slices.Clone(ev.Tried), ev.Agent)}
		f := m.fates[ev.Task.ID]
		if f.state == fateOpen || f.state == fateDispatched && f.attempt > ev.Attempt {
			return nil
		}
		if a := m.agents[ev.Agent]; a.listed {
			a.drop(coordinator.DispatchID(ev.Task.ID, ev.Attempt))
		}
		m.fates[ev.Task.ID] = modelFate{content: ev.Task.ContentHash, state: fateOpen}
		if f.state == fateUnsettled && f.attempt > ev.Attempt {
			return &f
		}
	case coordinator.DispatchSettled:
		if t := m.tasks[ev.Handle]; t != nil && t.live != nil {
			m.settled(h.now, t, ev.Outcome)
		}
	case coordinator.QueueChecked:
		if a := m.agents[ev.Agent]; ev.Exists && a.listed {
			a.noQueue = false
		}
	case coordinator.SessionLost:
		for _, t := range m.loseSession(h.now) {
			h.lost = append(h.lost, h.deliveryOf(t.handle))
		}
	}
	return nil
}

// apply calls the engine, judges every effect in order, then looks at the whole.
func (h *history) apply(ev coordinator.Event, resumes *modelFate) {
	h.t.Helper()
	waiting := h.inState(stateWaiting)
	effects := h.e.Apply(h.now, ev, nil)
	h.steps = append(h.steps, step{h.now, ev, effects})
	h.t.Logf("%s  %s", h.now.Format("15:04:05.000"), showEvent(ev))
	for _, f := range effects {
		h.t.Logf("                → %s", describe(f))
		if err := h.judge(f, waiting, resumes); err != nil {
			h.t.Fatal(err)
		}
	}
	h.checkStates()
	checkIndexes(h.t, h.e)
}

// judge holds one effect against the model.
func (h *history) judge(f coordinator.Effect, waiting map[coordinator.Handle]bool, resumes *modelFate) error {
	switch f := f.(type) {
	case *coordinator.Dispatch:
		t := h.m.tasks[f.Handle]
		resumed := resumes != nil && resumes.state == fateUnsettled && f.Handle == h.handle &&
			f.Agent == resumes.agent && f.Attempt == resumes.attempt
		if resumed && !f.MaybeDuplicate {
			return fmt.Errorf("%s repeats a dispatch without saying so", f.DispatchID)
		}
		delete(waiting, f.Handle)
		for other := range waiting {
			w := h.m.tasks[other]
			if !resumed && h.m.first(w, t) && h.m.refusal(h.now, h.m.agents[f.Agent], w) == "" {
				return fmt.Errorf("%s got %s before %s, which goes first", t.task.ID, f.Agent, w.task.ID)
			}
		}
		if err := t.learnTried(f.Tried); err != nil {
			return err
		}
		return h.m.dispatched(h.now, f, resumed)
	case coordinator.Ack:
		t := h.m.tasks[f.Handle]
		if t != nil && h.m.fates[t.task.ID].state == fateForgotten {
			return fmt.Errorf("handle %d was acknowledged, but nothing became of %s", f.Handle, t.task.ID)
		}
		return h.m.end(f.Handle)
	case *coordinator.Fail:
		delete(waiting, f.Handle)
		if f.Failure.Reason != coordinator.ReasonDuplicateTask {
			delete(h.m.fates, f.Task.ID)
		}
		return h.m.end(f.Handle)
	case coordinator.EnsureQueue:
		h.checking = append(h.checking, f.Agent)
	}
	return nil
}

// checkStates: every open delivery is held by the engine in exactly one state,
// nothing else is, and while a task waits no eligible agent is idle.
func (h *history) checkStates() {
	h.t.Helper()
	for handle, t := range h.m.tasks {
		o := h.e.held[handle]
		switch {
		case t.open != (o != nil):
			h.t.Fatalf("handle %d (%s): open %v, held by the engine %v", handle, t.task.ID, t.open, o != nil)
		case o == nil:
		case o.state == stateDeciding:
			h.t.Fatalf("handle %d (%s) was left undecided", handle, t.task.ID)
		case (o.state == stateDispatching) != (t.live != nil):
			h.t.Fatalf("handle %d (%s): dispatching %v, live %v", handle, t.task.ID, o.state == stateDispatching, t.live != nil)
		case o.state == stateWaiting:
			if err := t.learnTried(o.tried); err != nil {
				h.t.Fatal(err)
			}
			if a := h.m.best(h.now, t); a != nil {
				h.t.Fatalf("%s waits although %s could take it", t.task.ID, a.spec.ID)
			}
		}
	}
}

func (h *history) inState(s taskState) map[coordinator.Handle]bool {
	set := make(map[coordinator.Handle]bool)
	for handle, o := range h.e.held {
		if o.state == s {
			set[handle] = true
		}
	}
	return set
}

// deliveryOf is the message behind a handle.
func (h *history) deliveryOf(handle coordinator.Handle) delivery {
	for _, s := range h.steps {
		switch ev := s.event.(type) {
		case coordinator.TaskReceived:
			if ev.Handle == handle {
				return delivery{task: ev.Task}
			}
		case coordinator.TaskReturned:
			if ev.Handle == handle {
				return delivery{ev.Task, &coordinator.Dispatch{Task: ev.Task, Agent: ev.Agent, Attempt: ev.Attempt, Tried: ev.Tried}}
			}
		}
	}
	h.t.Fatalf("no delivery has handle %d", handle)
	return delivery{}
}

// drainAll settles everything, answers every question and lets all deadlines
// pass: then nothing may be held, waiting or scheduled any more.
func (h *history) drainAll() {
	h.t.Helper()
	for range 10_000 {
		for _, handle := range slices.Sorted(maps.Keys(h.inState(stateDispatching))) {
			h.do(coordinator.DispatchSettled{Handle: handle, Outcome: coordinator.PublishConfirmed})
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
	e := h.e
	if at, ok := e.NextDeadline(); ok {
		h.t.Fatalf("a timer is left: %v", at)
	}
	if len(e.held)+len(e.pending.active)+e.pending.total() > 0 {
		h.t.Fatalf("left over: held %d, active classes %d, pending %v", len(e.held), len(e.pending.active), e.pending.count)
	}
	for handle, t := range h.m.tasks {
		if t.open || t.ended == t.void {
			h.t.Fatalf("handle %d (%s): open %v, ended %v, void %v", handle, t.task.ID, t.open, t.ended, t.void)
		}
	}
}

// repeat runs the history through a fresh engine and compares the effects.
func (h *history) repeat(how string, shuffle, withoutTicks bool) {
	h.t.Helper()
	var before, after []coordinator.Effect
	e := New()
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
	if !reflect.DeepEqual(before, after) {
		h.t.Fatalf("the same history gives other effects %s", how)
	}
}
