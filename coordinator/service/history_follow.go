package service

import (
	"taskbus/coordinator"
)

// follow takes over from the journal what another coordinator has done, so that one
// that stands by, or takes over, knows the story of recent tasks.
func (h *history) follow(records []coordinator.Record) {
	for _, r := range records {
		switch r := r.(type) {
		case *coordinator.Assigned:
			d := &coordinator.Dispatch{
				Task: r.Task, Agent: r.Agent, DispatchID: coordinator.DispatchID(r.Task.ID, r.Attempt), Attempt: r.Attempt,
				At: r.At, Timeout: r.Timeout,
				Decision: &coordinator.Decision{Strategy: r.Strategy, Agent: r.Agent, Eligible: r.Eligible, Fleet: r.Fleet},
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

// ended notes how a task has ended, if it is one that is remembered.
func (h *history) ended(m *coordinator.Remembered) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, known := h.index[m.ID]
	if !known {
		return
	}
	r := &h.ring[i]
	switch m.Fate {
	case coordinator.FateSucceeded:
		r.state, r.completedAt, r.failure = taskSucceeded, m.Seen, coordinator.Failure{}
	case coordinator.FateGaveUp:
		r.state, r.completedAt, r.failure = taskFailed, m.Seen, coordinator.Failure{}
	case coordinator.FateCancelled:
		r.state, r.completedAt = taskCancelled, m.Seen
	case coordinator.FateFailed, coordinator.FateTimedOut:
		why := m.Why
		if m.Fate == coordinator.FateTimedOut {
			why = coordinator.ReasonTaskTimeout
		}
		r.state, r.failure = taskFailed, coordinator.Failure{Reason: why, Text: "as the journal says; its text is with whoever led then", Attempts: m.Attempt, FailedAt: m.Seen}
	case coordinator.FateForgotten:
		if r.state == taskDispatched {
			r.state = taskPending
		}
	}
}
