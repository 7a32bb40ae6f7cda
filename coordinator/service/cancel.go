package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/callers"
	"taskbus/coordinator/view"
)

// Cancel withdraws a task, whatever its state (see httpapi.Source).
func (s *Service) Cancel(ctx context.Context, id, reason string) (view.Cancellation, error) {
	none := view.Cancellation{TaskID: id}
	r, err := s.leading()
	if err != nil {
		return none, fmt.Errorf("cancel task %s: %w", id, err)
	}
	w := s.callers.Add(coordinator.TaskID(id))
	if w == nil {
		return none, fmt.Errorf("cancel task %s: %d cancels wait for their answers already; try again", id, callers.Most)
	}
	defer w.Remove()
	r.post(coordinator.CancelRequested{Task: coordinator.TaskID(id), Reason: reason, Token: w.Token})
	a, err := s.awaitEngine(r, w)
	if err != nil {
		return none, fmt.Errorf("cancel task %s: %w; try again", id, err)
	}
	return w.Cancellation(ctx, a, s.history.Outcome), nil
}

// leading returns the session in which this coordinator leads; an error when it does not.
func (s *Service) leading() (*session, error) {
	r, state := s.current.Load(), s.state.read().state
	if r == nil || state != stateActive && state != stateBlocked {
		if reads := s.reads(); reads != "" {
			return nil,
				fmt.Errorf("this coordinator is %s (it %s) and takes no tasks yet; ask the one that leads%s, or try again", state,
					reads, s.whereLeader())
		}
		return nil, fmt.Errorf("this coordinator is %s and takes no tasks; ask the one that leads%s, or try again", state,
			s.whereLeader())
	}
	return r, nil
}

// whereLeader names the leader and its address, as far as the journal of a standby says.
func (s *Service) whereLeader() string {
	r := s.current.Load()
	if r == nil || r.ledger == nil || s.state.read().state != stateStandby {
		return ""
	}
	if l := r.ledger.Position().Leader; l.Instance != "" && l.Address != "" {
		return fmt.Sprintf(" (%s, at %s)", l.Instance, l.Address)
	}
	return ""
}

// awaitEngine waits for the engine's answer to what was posted: until that is
// in the journal, or the session ends, and what was asked with it.
func (s *Service) awaitEngine(r *session, w *callers.Caller) (coordinator.CancelAnswered, error) {
	s.loop.enqueue(envelope{call: func(time.Time) {
		if s.loop.session != r.number {
			s.callers.Void(w.Token)
		}
	}})
	return w.Await()
}
