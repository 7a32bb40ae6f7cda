package service

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/httpapi"
)

// follow takes over from the journal what another coordinator has done, so that one
// that stands by, or takes over, knows the story of recent tasks. at is when the records were
// written. A session that begins anew reads records that have known effects: they
// change nothing.
func (h *history) follow(at time.Time, records []coordinator.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range records {
		switch r := r.(type) {
		case *coordinator.TaskBefore:
			h.shown(r)
		case *coordinator.Assigned:
			h.assigned(r)
		case *coordinator.Settled:
			h.settled(r)
		case *coordinator.Owed:
			h.overdue(&r.Failure, r.Task.ID)
		case *coordinator.Remembered:
			h.remembered(at, r)
		}
	}
}

// assigned notes a decision.
func (h *history) assigned(r *coordinator.Assigned) {
	if known := h.known(coordinator.KeyOf(r.Task.ID)); known != nil {
		if known.task.AcceptedAt.After(r.Task.AcceptedAt) || known.had(r) {
			return
		}
	}
	d := &coordinator.Dispatch{
		Task: r.Task, Agent: r.Agent, DispatchID: coordinator.DispatchID(r.Task, r.Attempt), Attempt: r.Attempt,
		At: r.At, Timeout: r.Timeout, Tried: r.Tried, Failed: r.Failed,
	}
	if r.Strategy != "" { // else no more is known than that it was made
		d.Decision = &coordinator.Decision{Strategy: r.Strategy, Agent: r.Agent, Eligible: r.Eligible, Fleet: r.Fleet}
	}
	h.decided(d)
}

// had reports whether the attempt is known. The latest may be made once more, later.
func (r *taskRecord) had(a *coordinator.Assigned) bool {
	if latest, given := r.latest(); given && latest.is(a.Agent, a.Attempt) {
		return !a.At.After(latest.at)
	}
	return slices.ContainsFunc(r.past.earlier, func(e attempt) bool { return e.is(a.Agent, a.Attempt) })
}

// settled notes that the agent's queue has the latest dispatch.
func (h *history) settled(s *coordinator.Settled) {
	r := h.known(s.Key)
	if r == nil || s.Nowhere || s.Attempt == 0 || r.attempt != s.Attempt || s.At.Before(r.waitsFrom) {
		return
	}
	r.waitedUntil(s.At)
	if r.state == taskDispatching {
		r.state = taskDispatched
	}
}

// overdue notes that the end of a task was not reported in time.
func (h *history) overdue(f *coordinator.Failure, id coordinator.TaskID) {
	if r := h.known(coordinator.KeyOf(id)); r != nil && !r.ended() && !f.FailedAt.Before(r.dispatchedAt) {
		r.fails(*f, true)
	}
}

// fatesOfAttempts are what became of the latest attempt of a task with such a fate, by its agent's word.
var fatesOfAttempts = map[coordinator.Fate]string{
	coordinator.FateSucceeded: coordinator.OutcomeSucceeded.String(),
	coordinator.FateGaveUp:    coordinator.OutcomeFailed.String(),
	coordinator.FateCancelled: coordinator.OutcomeCancelled.String(),
}

// remembered notes what became of a task, if it is one that is remembered or the record says which it is.
func (h *history) remembered(at time.Time, m *coordinator.Remembered) {
	r := h.known(m.Key)
	if r == nil && m.Task != nil {
		r = h.waiting(m.Task)
	}
	if r == nil || at.Before(r.task.AcceptedAt) {
		return
	}
	a, given := r.latest()
	switch {
	case given && m.Attempt < a.number: // there is a later one, which goes on
		return
	case m.ID == "" && r.ended():
		return // in a snapshot: only what had not been carried out yet is news
	case m.Fate == coordinator.FateForgotten:
		h.cameBack(at, r, m)
		return
	}
	overdue, latest := engine.Overdue(m), given && a.number == m.Attempt
	stopped := m.Fate == coordinator.FateCancelled && m.Agent != "" && !overdue // so its agent has said
	if state := stateOf(m.Fate); state == "" || state == r.state {
		if m.Late != nil {
			r.saidTooLate(*m.Late, at)
		}
		return
	}
	if latest && a.outcome == "" && (stopped || m.Fate != coordinator.FateCancelled) {
		r.past.outcome = fatesOfAttempts[m.Fate]
	}
	if m.Fate == coordinator.FateSucceeded || m.Fate == coordinator.FateGaveUp || stopped {
		if r.state == taskPending {
			r.waitedUntil(at)
		}
		r.state, r.completedAt, r.failure = stateOf(m.Fate), at, coordinator.Failure{}
		r.work = m.Work
		r.wordsElsewhere()
		return
	}
	f := coordinator.Failure{Reason: m.Why, Text: m.Text, Attempts: m.Attempt, FailedAt: at, Said: m.Said}
	switch m.Fate {
	case coordinator.FateCancelled:
		f.Reason = coordinator.ReasonCancelled
	case coordinator.FateTimedOut:
		f.Reason = coordinator.ReasonTaskTimeout
	}
	if f.Text == "" {
		f.Text = "as the journal says; its text is with the coordinator that led then"
	}
	r.fails(f, overdue && latest)
}

// wordsElsewhere says where an agent's words on why it failed are: they may quote the payload, and the
// journal keeps none of them.
func (r *taskRecord) wordsElsewhere() {
	if r.state == taskFailed && !r.completedAt.IsZero() {
		r.workError = "see task.result: of errors the journal keeps no text"
	}
}

// stateOf returns how a task with such a fate has ended; empty: it has not.
func stateOf(f coordinator.Fate) string {
	switch f {
	case coordinator.FateSucceeded:
		return taskSucceeded
	case coordinator.FateGaveUp, coordinator.FateTimedOut, coordinator.FateFailed:
		return taskFailed
	case coordinator.FateCancelled:
		return taskCancelled
	}
	return ""
}

// cameBack notes that the latest dispatch came back, or was given up.
func (h *history) cameBack(at time.Time, r *taskRecord, m *coordinator.Remembered) {
	a, given := r.latest()
	if !given || m.Attempt != a.number || r.ended() || at.Before(a.at) { // made once more since
		return
	}
	if a.outcome == "" {
		r.past.outcome, r.past.detail = m.End.String(), m.Said
	}
	if r.state != taskPending {
		r.state = taskPending
		r.waits(at)
	}
}

// shown takes over what a snapshot says of a task; what is known of it here is newer, or the same.
func (h *history) shown(b *coordinator.TaskBefore) {
	if h.known(coordinator.KeyOf(b.Task.ID)) != nil || !slices.Contains(httpapi.TaskStates(), b.State) {
		return
	}
	r := h.record(b.Task)
	for _, a := range b.Attempts {
		r.shelve()
		r.agent, r.attempt, r.dispatchedAt = a.Agent, a.Number, a.At
		r.dispatchID = coordinator.DispatchID(b.Task, a.Number)
		r.past.outcome, r.past.detail = a.Outcome, a.Detail
	}
	r.state, r.decidedAt, r.waited, r.waitsFrom = b.State, b.DecidedAt, b.Waited, b.WaitsFrom
	r.completedAt, r.work, r.failure = b.CompletedAt, b.Work, b.Failure
	r.wordsElsewhere()
	if b.Strategy != "" {
		r.decision = &coordinator.Decision{Strategy: b.Strategy, Agent: r.agent, Eligible: b.Eligible, Fleet: b.Fleet}
	}
}

// before yields what a snapshot says of the tasks that are remembered, the oldest first, but for those
// that no agent has had yet: the broker has their messages, and delivers them.
func (h *history) before(yield func(*coordinator.TaskBefore) bool) {
	h.mu.Lock()
	first := h.next
	h.mu.Unlock()
	for i := range h.ring {
		h.mu.Lock() // for each by itself: the loop does not wait for all of them
		r := h.ring[(first+i)%len(h.ring)]
		h.mu.Unlock()
		if r.task != nil && (r.agent != "" || r.ended()) && !yield(r.before()) {
			return
		}
	}
}

func (r *taskRecord) before() *coordinator.TaskBefore {
	b := &coordinator.TaskBefore{
		Task: r.task, State: r.state, DecidedAt: r.decidedAt, Waited: r.waited, WaitsFrom: r.waitsFrom,
		CompletedAt: r.completedAt, Work: r.work, Failure: r.failure,
	}
	all := r.past.earlier
	if latest, given := r.latest(); given {
		all = append(slices.Clip(all), latest)
	}
	for _, a := range all {
		if a.outcome != attemptTimedOut { // an agent's words
			a.detail = ""
		}
		b.Attempts = append(b.Attempts, coordinator.AttemptBefore{
			Agent: a.agent, Number: a.number, At: a.at, Outcome: a.outcome, Detail: a.detail,
		})
	}
	if d := r.decision; d != nil {
		b.Strategy, b.Eligible, b.Fleet = d.Strategy, d.Eligible, d.Fleet
	}
	return b
}
