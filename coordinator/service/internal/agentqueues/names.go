package agentqueues

import "sync"

// maxNames bounds the memory of agents' queues, which may come and go for
// ever where agents join by themselves.
const maxNames = 10_000

// Names are the agents' queues that the engine has named so far. Those of
// agents that have joined by themselves stand in no configuration. They are safe for concurrent use.
type Names struct {
	mu    sync.RWMutex
	names map[string]bool
}

// Has reports whether the queue has been named.
func (q *Names) Has(name string) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.names[name]
}

// Add notes a queue.
func (q *Names) Add(name string) {
	if q.Has(name) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names == nil || len(q.names) >= maxNames {
		q.names = make(map[string]bool) // those in use are named again in a moment
	}
	q.names[name] = true
}
