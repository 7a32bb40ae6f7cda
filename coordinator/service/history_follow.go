package service

import (
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// follow takes over from the journal what another coordinator has done, so that one
// that stands by, or takes over, knows the story of recent tasks.
func (h *history) follow(records []coordinator.Record) {
	for _, r := range records {
		switch r := r.(type) {
		case *coordinator.Assigned:
			d := &coordinator.Dispatch{
				Task: r.Task, Agent: r.Agent, DispatchID: coordinator.DispatchID(r.Task, r.Attempt), Attempt: r.Attempt,
				At: r.At, Timeout: r.Timeout, Decision: h.decisionOf(r), Tried: r.Tried, Failed: r.Failed,
			}
			h.dispatching(d)
			h.dispatched(d, r.At.Sub(r.Task.AcceptedAt))
		case *coordinator.Remembered:
			if r.ID != "" {
				h.ended(r)
			}
		}
	}
}

// decisionOf is what is known of a decision in the journal: all of it, if it was made here;
// nil, if the record, as in a snapshot, says no more than that it was made.
func (h *history) decisionOf(r *coordinator.Assigned) *coordinator.Decision {
	if known, ok := h.find(r.Task.ID); ok && known.agent == r.Agent && known.attempt == r.Attempt && known.dispatchedAt.Equal(r.At) {
		return known.decision
	}
	if r.Strategy == "" {
		return nil
	}
	return &coordinator.Decision{Strategy: r.Strategy, Agent: r.Agent, Eligible: r.Eligible, Fleet: r.Fleet}
}

// fatesOfAttempts are what became of the latest attempt of a task with such a fate, by its agent's word.
var fatesOfAttempts = map[coordinator.Fate]string{
	coordinator.FateSucceeded: coordinator.OutcomeSucceeded.String(),
	coordinator.FateGaveUp:    coordinator.OutcomeFailed.String(),
	coordinator.FateCancelled: coordinator.OutcomeCancelled.String(),
}

// ended notes how a task has ended, if it is one that is remembered.
func (h *history) ended(m *coordinator.Remembered) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, known := h.index[m.ID]
	if !known {
		return
	}
	r := &h.ring[i]
	overdue := engine.Overdue(m)
	stopped := m.Fate == coordinator.FateCancelled && m.Agent != "" && !overdue // so its agent has said
	a, given := r.latest()
	latest := given && a.number == m.Attempt
	if latest && a.outcome == "" && (stopped || m.Fate != coordinator.FateCancelled) {
		r.past.outcome = fatesOfAttempts[m.Fate]
		if m.Fate == coordinator.FateForgotten {
			r.past.outcome, r.past.detail = m.End.String(), m.Said
		}
	}
	failed := func(why coordinator.Reason) {
		text := "as the journal says; its text is with the coordinator that led then"
		r.fails(coordinator.Failure{Reason: why, Text: text, Attempts: m.Attempt, FailedAt: m.Seen}, overdue && latest)
	}
	switch m.Fate {
	case coordinator.FateSucceeded:
		r.state, r.completedAt, r.failure = taskSucceeded, m.Seen, coordinator.Failure{}
	case coordinator.FateGaveUp:
		r.state, r.completedAt, r.failure = taskFailed, m.Seen, coordinator.Failure{}
	case coordinator.FateCancelled:
		if !stopped {
			failed(coordinator.ReasonCancelled)
		} else {
			r.state, r.completedAt, r.failure = taskCancelled, m.Seen, coordinator.Failure{}
		}
	case coordinator.FateTimedOut:
		failed(coordinator.ReasonTaskTimeout)
	case coordinator.FateFailed:
		failed(m.Why)
	case coordinator.FateForgotten:
		if r.state == taskDispatched {
			r.state = taskPending
		}
	}
}
