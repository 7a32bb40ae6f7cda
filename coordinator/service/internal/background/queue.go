package background

import "sync"

// Queue has what waits for a goroutine of its own, which does it one by one: what is asked for takes an
// answer of the broker (a consumer that begins or ends, a queue that is to exist), for which the loop does not
// wait. It is safe for concurrent use.
type Queue[T any] struct {
	mu     sync.Mutex
	list   []T
	signal chan struct{} // capacity 1: there is something
}

// NewQueue returns an empty one.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{signal: make(chan struct{}, 1)} }

// Add appends one. It never blocks.
func (q *Queue[T]) Add(one T) {
	q.mu.Lock()
	q.list = append(q.list, one)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// Signal has something when there is something to take, perhaps.
func (q *Queue[T]) Signal() <-chan struct{} { return q.signal }

// Take takes the oldest.
func (q *Queue[T]) Take() (one T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return one, false
	}
	one, q.list = q.list[0], q.list[1:]
	return one, true
}

// Each does what is there and what comes, in order, until the session has ended.
func (q *Queue[T]) Each(ended <-chan struct{}, do func(T)) {
	for {
		for one, ok := q.Take(); ok; one, ok = q.Take() {
			do(one)
		}
		select {
		case <-ended:
			return
		case <-q.signal:
		}
	}
}
