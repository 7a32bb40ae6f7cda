package service

import (
	"slices"
	"sync"

	"taskbus/coordinator"
)

// owed are the failures that no delivery stands behind (a task whose agent did
// not end it in time) and whose assignment.failed is not confirmed yet. The
// broker would not remind us of them: they are kept here, over any number of
// sessions. There are never more than dispatches that were out.
type owed struct {
	mu    sync.Mutex
	fails []*coordinator.Fail // in the order in which they came
}

func (o *owed) add(f *coordinator.Fail) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = append(o.fails, f)
}

// list is a copy of what is owed.
func (o *owed) list() []*coordinator.Fail {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.fails)
}

// forget drops everything: it is somebody else's to tell.
func (o *owed) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = nil
}

// settle takes a failure off; false when it is not owed (any more).
func (o *owed) settle(f *coordinator.Fail) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.fails, f)
	if i < 0 {
		return false
	}
	o.fails = slices.Delete(o.fails, i, i+1)
	return true
}

// payWhatIsOwed publishes in this session what the one before could not. It runs
// on the loop's goroutine, as the session begins.
func (r *session) payWhatIsOwed() {
	for _, f := range r.s.owed.list() {
		r.outbox.add(outgoing{fail: f})
	}
	for _, f := range r.s.untold.take() {
		r.outbox.add(outgoing{completed: f})
	}
}
