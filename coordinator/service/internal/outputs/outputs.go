package outputs

import (
	"container/list"
	"sync"

	"taskbus/coordinator"
)

// overhead is about what an entry takes beside its output, in bytes.
const overhead = 256

// Kept are outputs up to a number of bytes. It is safe for concurrent use.
type Kept struct {
	most int64

	mu    sync.Mutex
	bytes int64
	byKey map[key]*list.Element
	order list.List // of *entry, the oldest first
}

type key struct {
	task  coordinator.TaskID
	agent coordinator.AgentID
}

type entry struct {
	key
	output *coordinator.Output
}

func (e *entry) bytes() int64 { return overhead + int64(e.output.Bytes()) }

// New returns one that keeps so many bytes.
func New(most int64) *Kept { return &Kept{most: most, byKey: make(map[key]*list.Element)} }

// Keep takes in what an agent has found out with a task, instead of what is kept of the two; nil: nothing. What is kept
// longest goes when there is no room.
func (k *Kept) Keep(task coordinator.TaskID, agent coordinator.AgentID, output *coordinator.Output) {
	if output == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e := &entry{key{task, agent}, output}
	if before := k.byKey[e.key]; before != nil {
		k.drop(before)
	}
	k.byKey[e.key] = k.order.PushBack(e)
	k.bytes += e.bytes()
	for k.bytes > k.most {
		k.drop(k.order.Front())
	}
}

// drop lets one go. k.mu is held.
func (k *Kept) drop(at *list.Element) {
	e := k.order.Remove(at).(*entry)
	delete(k.byKey, e.key)
	k.bytes -= e.bytes()
}

// Of returns what the agent has found out with the task; nil when it is not kept. It must not be changed.
func (k *Kept) Of(task coordinator.TaskID, agent coordinator.AgentID) *coordinator.Output {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := k.byKey[key{task, agent}]; at != nil {
		return at.Value.(*entry).output
	}
	return nil
}
