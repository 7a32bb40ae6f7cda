package callers

import (
	"sync"

	"taskbus/coordinator"
)

// Most bounds the callers that wait at one time.
const Most = 256

// Caller waits for the result of its cancel or order. The parts of the answer may come in any order, each at most
// once; the channels have room, so that sending never blocks.
type Caller struct {
	// Token is that of the answer.
	Token uint64
	// Stands is what has come of a change of the quotas: complete before it is answered.
	Stands []coordinator.QuotaControl

	of        *Callers
	task      coordinator.TaskID
	answered  chan coordinator.CancelAnswered
	untold    chan struct{} // the agent has no control queue
	completed chan coordinator.Outcome
	void      chan struct{} // the session ended before the engine had the cancel
}

// Callers are the requests that wait for an answer to a cancel or order, by token. Tokens are
// unique in this process, those of cancels by message among them. They are safe for concurrent use.
type Callers struct {
	stopped    <-chan struct{}
	errStopped error
	errEnded   error

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*Caller
}

// New returns none. stopped is closed when no answer comes any more. A caller hears of that as errStopped, and of the
// end of its session as errEnded.
func New(stopped <-chan struct{}, errStopped, errEnded error) *Callers {
	return &Callers{stopped: stopped, errStopped: errStopped, errEnded: errEnded, waiting: make(map[uint64]*Caller)}
}

// NextToken issues a number without a waiting request.
func (c *Callers) NextToken() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return c.next
}

// Add admits a caller, for the result of a task if it is one of a cancel; nil when Most wait. It is to be removed.
func (c *Callers) Add(task coordinator.TaskID) *Caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) >= Most {
		return nil
	}
	c.next++
	w := &Caller{
		Token: c.next, of: c,
		task: task, answered: make(chan coordinator.CancelAnswered, 1), untold: make(chan struct{}, 1),
		completed: make(chan coordinator.Outcome, 1), void: make(chan struct{}, 1),
	}
	c.waiting[w.Token] = w
	return w
}

// Remove ends the waiting.
func (w *Caller) Remove() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	delete(w.of.waiting, w.Token)
}

// Answered passes the engine's answer on.
func (c *Callers) Answered(a coordinator.CancelAnswered) {
	c.with(a.Token, func(w *Caller) { hear(w.answered, a) })
}

// Changed passes on what the engine has made of a change of the quotas.
func (c *Callers) Changed(f *coordinator.QuotaControlsStand) {
	c.with(f.Token, func(w *Caller) {
		w.Stands = f.Set
		hear(w.answered, coordinator.CancelAnswered{Token: f.Token})
	})
}

// Untold says that the agent cannot be reached.
func (c *Callers) Untold(token uint64) { c.with(token, func(w *Caller) { hear(w.untold, struct{}{}) }) }

// Void says that the engine has not had the cancel, if it has not.
func (c *Callers) Void(token uint64) { c.with(token, func(w *Caller) { hear(w.void, struct{}{}) }) }

// VoidAll ends all waiting requests without an answer.
func (c *Callers) VoidAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting {
		hear(w.void, struct{}{})
	}
}

// Completed answers all requests that wait for this task with how it ended.
func (c *Callers) Completed(task coordinator.TaskID, outcome coordinator.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting { // at most so many, nearly always none
		if w.task == task {
			hear(w.completed, outcome)
		}
	}
}

func (c *Callers) with(token uint64, f func(*Caller)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[token]; w != nil {
		f(w)
	}
}

// hear hands over the first of its kind.
func hear[T any](to chan T, what T) {
	select {
	case to <- what:
	default:
	}
}

// Await waits for the engine's answer: until that is in the journal, or the session ends.
func (w *Caller) Await() (coordinator.CancelAnswered, error) {
	err := w.of.errEnded
	select {
	case a := <-w.answered:
		return a, nil
	case <-w.void:
	case <-w.of.stopped:
		err = w.of.errStopped
	}
	select {
	case a := <-w.answered: // together with the other: the answer counts
		return a, nil
	default:
		return coordinator.CancelAnswered{}, err
	}
}
