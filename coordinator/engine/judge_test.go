package engine_test

import (
	"fmt"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// LetGo looks for dispatches of which the engine expects nothing any more although
// their tasks have not ended: that is right only where no report will tell, or where
// the broker has the task still.
func (h *history) letGo(effects []coordinator.Effect) {
	h.t.Helper()
	ended, expected := endedBy(effects), expectedOf(h.e)
	for id, life := range h.l.lives {
		for _, a := range life.attempts {
			name := a.DispatchID
			if life.ended != notEnded || ended[id] || expected[name] || a.standing != withAgent && a.standing != unanswered {
				continue
			}
			if a.standing == withAgent {
				if h.e.KnownAgent(a.Agent) != nil && h.e.KnownAgent(a.Agent).Tracked() {
					h.t.Fatalf("%s is with %s, and nobody waits for its end", name, a.Agent)
				}
				if s := h.m.agents[a.Agent].slot(name); s != nil {
					h.m.agents[a.Agent].drop(s)
				}
			}
			h.m.agents[a.Agent].end(name)
			a.standing = past
		}
	}
}

// endedBy are the tasks that the effects end.
func endedBy(effects []coordinator.Effect) map[coordinator.TaskID]bool {
	ended := make(map[coordinator.TaskID]bool)
	for _, f := range effects {
		switch f := f.(type) {
		case *coordinator.Fail:
			ended[f.Task.ID] = f.Failure.Reason != coordinator.ReasonDuplicateTask
		case *coordinator.Completed:
			ended[f.Result.Task] = true
		}
	}
	return ended
}

// expectedOf are the dispatches of which the engine expects to hear.
func expectedOf(e *engine.Engine) map[string]bool {
	expected := make(map[string]bool)
	for _, o := range e.OpenTasks() {
		if o != nil && o.State() >= engine.StateDispatching {
			expected[o.DispatchID()] = true
		}
	}
	return expected
}

// judge holds one effect against the model and the ledger.
func (h *history) judge(ev coordinator.Event, f coordinator.Effect, waiting map[coordinator.Handle]bool) error {
	l := h.l
	switch f := f.(type) {
	case *coordinator.Dispatch:
		delete(waiting, f.Handle)
		r := l.receipts[f.Handle]
		resumed, err := l.dispatched(f)
		if err != nil {
			return err
		}
		for other := range waiting {
			w := l.receipts[other]
			barred := w.tried
			if o := h.waiters[other]; o != nil { // that waited before this event, also where it has failed since
				if barred = o.Barred(); o.Alone() { // for an agent that has nothing else
					continue
				}
			}
			if !resumed && !h.limited && h.m.first(w, r) && !h.m.mayBeEjected(f.Agent, w.task) &&
				h.m.refusal(h.now, h.m.agents[f.Agent], w.task, barred) == "" {
				return fmt.Errorf("%s got %s before %s, which goes first", r.task.ID, f.Agent, w.task.ID)
			}
		}
		h.arrived = append(h.arrived, f)
		follows := slices.ContainsFunc(h.moment, func(d *coordinator.Dispatch) bool { return h.m.sameBatch(d, f) })
		h.moment = append(h.moment, f)
		_, back := ev.(coordinator.TaskReturned)
		return h.m.dispatched(h.now, f, resumed, back, follows, h.isProbe(f))
	case coordinator.Ack:
		delete(waiting, f.Handle)
		if err := l.settle(f.Handle); err != nil {
			return err
		}
		if !f.Copy {
			l.receipts[f.Handle].acked = h.now
			return nil
		}
		return l.dropped(f.Handle)
	case *coordinator.Fail:
		return h.failed(f, waiting)
	case coordinator.MoveToLane:
		delete(waiting, f.Handle)
		return l.judgeMove(f)
	case coordinator.DropLane:
		return l.judgeDrop(f)
	case *coordinator.Completed:
		return h.completed(f)
	case coordinator.GivenBack:
		h.told(&f.Result, f.Attempt, false)
	case coordinator.ResultRefused:
		if r := ev.(coordinator.ResultReported).Result; f.Refusal == coordinator.ResultLate && h.m.agents[f.Agent] != nil {
			a := h.m.agents[f.Agent]
			a.told(h.now, &r, a.slotOf(&r), false)
		}
	case coordinator.EnsureQueue:
		h.checking = append(h.checking, f.Agent)
	case coordinator.CancelAnswered:
		if h.answered || f.Token != h.token {
			return fmt.Errorf("token %d is answered, %d was asked", f.Token, h.token)
		}
		h.answered = true
	case coordinator.Withdraw:
		listed := h.m.agents[f.Agent].report.ActiveTasks
		if f.DispatchID == "" && slices.Contains(listed, f.Task) {
			break
		}
		if _, attempt, _ := coordinator.ParseDispatchID(f.Task, f.DispatchID); l.attempt(f.Task, f.Agent, attempt) == nil {
			return fmt.Errorf("%s is to drop %s, which it never had", f.Agent, f.DispatchID)
		}
	case coordinator.TakeBack:
		if l.taken[f.Agent] {
			return fmt.Errorf("the queue of %s is taken back already", f.Agent)
		}
		l.taken[f.Agent] = true
	case coordinator.LeaveQueue:
		if !l.taken[f.Agent] {
			return fmt.Errorf("the queue of %s is to be left, and nobody is there", f.Agent)
		}
		delete(l.taken, f.Agent)
	}
	return nil
}

func (h *history) failed(f *coordinator.Fail, waiting map[coordinator.Handle]bool) error {
	delete(waiting, f.Handle)
	if f.Handle != 0 {
		if err := h.l.settle(f.Handle); err != nil || f.Failure.Reason == coordinator.ReasonDuplicateTask {
			return err
		}
		if err := h.l.mayLive(h.l.receipts[f.Handle]); err != nil {
			return err
		}
	}
	how := failed
	if f.Handle == 0 {
		how = timedOut
		h.owed = append(h.owed, f.Task.ID)
	}
	live, err := h.l.end(f.Task.ID, how)
	for _, a := range live {
		h.m.agents[a.Agent].end(a.DispatchID)
		if f.Handle == 0 && err == nil {
			err = h.stalls.mayBeOverdue(h.now, a)
		}
	}
	return err
}

func (h *history) completed(f *coordinator.Completed) error {
	h.told(&f.Result, f.Attempt, f.Late)
	how := doneFor
	if f.Result.Outcome == coordinator.OutcomeFailed {
		how = gaveUp
	}
	had := false
	for _, a := range h.l.life(f.Result.Task).attempts {
		had = had || a.Agent == f.Result.Agent
	}
	if !had { // one that had another attempt may mistake its dispatch id: done is done
		return fmt.Errorf("%s is done by %s, which never had it", f.Result.Task, f.Result.Agent)
	}
	live, err := h.l.end(f.Result.Task, how)
	for _, a := range live {
		h.m.agents[a.Agent].end(a.DispatchID)
	}
	return err
}

// told passes what an agent has told of a dispatch on to the model.
func (h *history) told(r *coordinator.Result, attempt int, late bool) {
	a := h.m.agents[r.Agent]
	slot := a.slotOf(r)
	open := late
	for _, rec := range h.l.receipts { // a delivery or another dispatch leads the task on
		open = open || rec.task.ID == r.Task && rec.open && rec.live == nil
	}
	for _, other := range h.l.life(r.Task).attempts {
		open = open || other.standing != past
	}
	if at := h.l.attempt(r.Task, r.Agent, attempt); slot == nil && at != nil && at.standing != past {
		return // it has said before that it gives it back
	}
	a.told(h.now, r, slot, !open)
}
