package service

import "sync"

// orders wait for a goroutine of their own, which carries them out one by one: what they ask for
// takes an answer of the broker (a consumer that begins or ends, a queue that is to exist), for
// which the loop does not wait.
type orders[T any] struct {
	mu     sync.Mutex
	list   []T
	signal chan struct{} // capacity 1: there are some
}

func newOrders[T any]() orders[T] { return orders[T]{signal: make(chan struct{}, 1)} }

func (q *orders[T]) order(o T) {
	q.mu.Lock()
	q.list = append(q.list, o)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// next takes the oldest.
func (q *orders[T]) next() (o T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return o, false
	}
	o, q.list = q.list[0], q.list[1:]
	return o, true
}

// carryOut does what is ordered, in order, until the session has ended.
func (q *orders[T]) carryOut(ended <-chan struct{}, do func(T)) {
	for {
		for o, ok := q.next(); ok; o, ok = q.next() {
			do(o)
		}
		select {
		case <-ended:
			return
		case <-q.signal:
		}
	}
}
