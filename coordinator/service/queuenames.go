package service

import "sync"

// maxQueueNames bounds the memory of agents' queues, which may come and go for
// ever where agents join by themselves.
const maxQueueNames = 10_000

// queueNames are the agents' queues that the engine has named so far. Those of
// agents that have joined by themselves stand in no configuration.
type queueNames struct {
	mu    sync.RWMutex
	names map[string]bool
}

func (q *queueNames) has(name string) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.names[name]
}

func (q *queueNames) add(name string) {
	if q.has(name) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names == nil || len(q.names) >= maxQueueNames {
		q.names = make(map[string]bool) // those in use are named again in a moment
	}
	q.names[name] = true
}
