package callgate

import (
	"errors"
	"fmt"
	"sync"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

// Why a question has no answer.
var (
	ErrSessionEnded = errors.New("the broker session ended before it could be done")
	ErrStopped      = errors.New("the coordinator has stopped")
)

// maxWaiting bounds the questions about calls that wait for their answers at one time: what they
// hold in memory, and for how long the last of them waits.
const maxWaiting = 8192

// waiting are the questions that wait for the engine's answer, by token.
type waiting struct {
	mu    sync.Mutex
	next  uint64
	ended uint64 // sessions up to this one have ended
	asked map[uint64]*asker
	spare sync.Pool // of *asker without a waiting question
}

// asker waits for one answer, which comes at most once: nil when the session has ended before.
type asker struct {
	session  uint64
	answered chan []coordinator.CallAnswer // capacity 1
}

// add admits a question in a session that has not ended, if not too many wait.
func (w *waiting) add(session uint64) (token uint64, a *asker, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case session <= w.ended:
		return 0, nil, fmt.Errorf("ask for quota: %w: %w", gateway.ErrNotLeading, ErrSessionEnded)
	case len(w.asked) >= maxWaiting:
		return 0, nil, gateway.ErrCallsBusy
	}
	if a, _ = w.spare.Get().(*asker); a == nil {
		a = &asker{answered: make(chan []coordinator.CallAnswer, 1)}
	}
	a.session = session
	w.next++
	w.asked[w.next] = a
	return w.next, a, nil
}

// take removes the question that waits under a token; nil: there is none (any more).
func (w *waiting) take(token uint64) *asker {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.asked[token]
	delete(w.asked, token)
	return a
}

func (w *waiting) end(session uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = max(w.ended, session)
	for token, a := range w.asked {
		if a.session <= session {
			delete(w.asked, token)
			a.answered <- nil
		}
	}
}
