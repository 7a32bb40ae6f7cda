package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/callgate"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// cancelWait is how long a caller of Cancel waits for the word of the agent that
// has the task.
const cancelWait = 3 * time.Second

// maxCallers bounds the callers of Cancel that wait at one time.
const maxCallers = 256

// caller waits for the result of its cancel. The parts of the answer may come in any order, each at most
// once; the channels have room, so that sending never blocks.
type caller struct {
	task      coordinator.TaskID
	answered  chan coordinator.CancelAnswered
	untold    chan struct{} // the agent has no control queue
	completed chan coordinator.Outcome
	void      chan struct{} // the session ended before the engine had the cancel
	// stand is what has come of a change of the quotas: complete before it is answered.
	stand []coordinator.QuotaControl
}

// callers are the requests that wait for an answer to a cancel or order, by token. Tokens are
// unique in this process, those of cancels by message among them.
type callers struct {
	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*caller
}

// token issues a number without a waiting request.
func (c *callers) token() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return c.next
}

// add admits a caller; false when too many wait.
func (c *callers) add(task coordinator.TaskID) (uint64, *caller, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) >= maxCallers {
		return 0, nil, false
	}
	if c.waiting == nil {
		c.waiting = make(map[uint64]*caller)
	}
	c.next++
	w := &caller{
		task: task, answered: make(chan coordinator.CancelAnswered, 1), untold: make(chan struct{}, 1),
		completed: make(chan coordinator.Outcome, 1), void: make(chan struct{}, 1),
	}
	c.waiting[c.next] = w
	return c.next, w, true
}

func (c *callers) remove(token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, token)
}

// answer passes the engine's answer on.
func (c *callers) answer(a coordinator.CancelAnswered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[a.Token]; w != nil {
		hear(w.answered, a)
	}
}

// changed passes on what the engine has made of a change of the quotas.
func (c *callers) changed(f *coordinator.QuotaControlsStand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[f.Token]; w != nil {
		w.stand = f.Set
		hear(w.answered, coordinator.CancelAnswered{Token: f.Token})
	}
}

// untold says that the agent cannot be reached.
func (c *callers) untold(token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[token]; w != nil {
		hear(w.untold, struct{}{})
	}
}

// voidAll ends all waiting requests without an answer.
func (c *callers) voidAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting {
		hear(w.void, struct{}{})
	}
}

// void says that the engine has not had the cancel, if it has not.
func (c *callers) void(token uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[token]; w != nil {
		hear(w.void, struct{}{})
	}
}

// completed answers all requests that wait for this task with how it ended.
func (c *callers) completed(task coordinator.TaskID, outcome coordinator.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting { // at most maxCallers, nearly always none
		if w.task == task {
			hear(w.completed, outcome)
		}
	}
}

// hear hands over the first of its kind.
func hear[T any](to chan T, what T) {
	select {
	case to <- what:
	default:
	}
}

// Cancel withdraws a task, whatever its state (see httpapi.Source).
func (s *Service) Cancel(ctx context.Context, id, reason string) (view.Cancellation, error) {
	none := view.Cancellation{TaskID: id}
	r, err := s.leading()
	if err != nil {
		return none, fmt.Errorf("cancel task %s: %w", id, err)
	}
	token, w, ok := s.callers.add(coordinator.TaskID(id))
	if !ok {
		return none, fmt.Errorf("cancel task %s: %d cancels wait for their answers already; try again", id, maxCallers)
	}
	defer s.callers.remove(token)
	s.loop.post(r.number, coordinator.CancelRequested{Task: w.task, Reason: reason, Token: token})
	a, err := s.awaitEngine(r, w, token)
	if err != nil {
		return none, fmt.Errorf("cancel task %s: %w; try again", id, err)
	}
	return s.cancelled(ctx, w, a), nil
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

// awaitEngine waits for the engine's answer to a cancel that was posted: until that is
// in the journal, or the session ends, and the cancel with it.
func (s *Service) awaitEngine(r *session, w *caller, token uint64) (coordinator.CancelAnswered, error) {
	s.loop.enqueue(envelope{call: func(time.Time) {
		if s.loop.session != r.number {
			s.callers.void(token)
		}
	}})
	err := errSessionEnded
	select {
	case a := <-w.answered:
		return a, nil
	case <-w.void:
	case <-s.loop.stopped:
		err = errStopped
	}
	select {
	case a := <-w.answered: // together with the other: the answer counts
		return a, nil
	default:
		return coordinator.CancelAnswered{}, err
	}
}

var errSessionEnded = callgate.ErrSessionEnded

// cancelled makes the caller's answer of the engine's, and waits for the agent's
// word where an agent has the task.
func (s *Service) cancelled(ctx context.Context, w *caller, a coordinator.CancelAnswered) view.Cancellation {
	c := view.Cancellation{TaskID: string(a.Task), Agent: string(a.Agent), State: views.CancelWord(a.State)}
	switch a.State {
	case coordinator.CancelDone:
		c.Outcome = coordinator.OutcomeCancelled.String()
		c.Detail = "the task had not reached an agent and will not be assigned"
	case coordinator.CancelNoted:
		c.Detail = "the task is not known; should it still come, it will not be assigned"
	case coordinator.CancelTooLate:
		c.Outcome = s.history.Outcome(a.Task)
		c.Detail = "the task has ended already"
	default:
		s.awaitAgent(ctx, w, &c)
	}
	return c
}

// awaitAgent gives the agent a moment to report what became of the task. That it
// reports it as cancelled does not mean that its work has stopped: the SDK says so
// of a handler that does not return, too.
func (s *Service) awaitAgent(ctx context.Context, w *caller, c *view.Cancellation) {
	timeout := time.NewTimer(cancelWait)
	defer timeout.Stop()
	select {
	case o := <-w.completed:
		c.Outcome = o.String()
		if o == coordinator.OutcomeCancelled {
			c.State, c.Detail = view.Cancelled, "its agent reports it as cancelled"
			return
		}
		c.State, c.Detail = view.CancelTooLate, "its agent ended it before it heard of the cancel"
	case <-w.untold:
		c.Detail = "its agent has no control queue and cannot be told: it may still do the task"
	case <-timeout.C:
		c.Detail = "its agent has been told and has not reported yet what became of it"
	case <-ctx.Done():
		c.Detail = "its agent is being told; its answer was not waited for"
	case <-s.loop.stopped:
		c.Detail = "its agent may have been told; the coordinator stopped meanwhile"
	}
}
