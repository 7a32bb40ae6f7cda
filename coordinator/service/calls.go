package service

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

// maxCalls bounds the questions about calls that wait for their answers at one time: what they
// hold in memory, and for how long the last of them waits.
const maxCalls = 8192

// calls are the requests about calls outside of tasks that wait for an answer, by token.
type calls struct {
	next    atomic.Uint64
	mu      sync.Mutex
	waiting map[uint64]*asker
	spare   sync.Pool // of *asker without a waiting request
}

// asker waits for one answer, which comes at most once: nil when the session has ended before.
type asker struct {
	session  uint64
	answered chan []coordinator.CallAnswer // capacity 1
}

func newCalls() *calls { return &calls{waiting: make(map[uint64]*asker)} }

// add admits a request in a session; false when too many wait.
func (c *calls) add(session uint64) (token uint64, a *asker, ok bool) {
	token = c.next.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) >= maxCalls {
		return 0, nil, false
	}
	if a, _ = c.spare.Get().(*asker); a == nil {
		a = &asker{answered: make(chan []coordinator.CallAnswer, 1)}
	}
	a.session = session
	c.waiting[token] = a
	return token, a, true
}

// take removes the request that waits under a token; nil: there is none (any more).
func (c *calls) take(token uint64) *asker {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.waiting[token]
	delete(c.waiting, token)
	return a
}

// answer passes the engine's answer on.
func (c *calls) answer(f *coordinator.CallAnswered) {
	if a := c.take(f.Token); a != nil {
		a.answered <- f.Answers
	}
}

// void ends the waiting requests of a session without an answer.
func (c *calls) void(session uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for token, a := range c.waiting {
		if a.session == session {
			delete(c.waiting, token)
			a.answered <- nil
		}
	}
}

// AskLeader asks the engine about calls (see httpapi.Source). Only a coordinator that leads
// answers.
func (s *Service) AskLeader(ctx context.Context, asked []coordinator.Call) ([]coordinator.CallAnswer, error) {
	r, err := s.leading()
	if err != nil {
		return nil, fmt.Errorf("ask for quota: %w: %w", gateway.ErrNotLeading, err)
	}
	token, a, ok := s.calls.add(r.number)
	if !ok {
		return nil, gateway.ErrCallsBusy
	}
	// A session ends by ceasing to be the current one and then voiding its waiting requests: a request that
	// waits while it is still the current one gets an answer.
	if s.current.Load() != r {
		s.calls.take(token)
		return nil, fmt.Errorf("ask for quota: %w: %w", gateway.ErrNotLeading, errSessionEnded)
	}
	s.loop.post(r.number, coordinator.CallAsked{Token: token, Calls: asked})
	select {
	case answers := <-a.answered:
		s.calls.spare.Put(a)
		if answers == nil {
			return nil, fmt.Errorf("ask for quota: %w", errSessionEnded)
		}
		return answers, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.loop.stopped:
		err = errStopped
	}
	s.calls.take(token) // should the answer be on its way, it is dropped
	return nil, fmt.Errorf("ask for quota: %w", err)
}
