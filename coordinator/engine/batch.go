package engine

import (
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/choice"
)

// Batching: tasks of one kind that arrive together are decided together, and those that go to one agent share a
// batch id.
//
// A task of a batched type that could be decided at once waits a moment for others of its kind (gather), and the
// gathered tasks are decided together (decideBatch). Tasks of one kind that are given to one agent in one moment
// share a batch id, however they were gathered (see queue.Batches).
//
// Each task of a batch is an ordinary dispatch: it differs from a single one only in when it is decided and, for
// the tasks after the first, in which agent it goes to.
//
// A task that has come back, is redelivered, or did not get through has waited long enough, and goes
// alone.

// batchKey is what the tasks of one batch have in common: everything that the choice
// of an agent looks at, but for priority and age.
type batchKey struct {
	taskType, class, strategy string
	preferred                 string // the task's own; empty: its route's
	affinity                  string
	session                   uint64
}

// batchKeyOf gives the key of a task that has been resolved. Its preferred agents are
// separated by what no id contains.
func batchKeyOf(t *openTask) batchKey {
	n := &t.needs
	k := batchKey{taskType: t.task.Type, class: n.class.Key, strategy: n.strategy.Name}
	if len(t.task.Preferred) > 0 {
		var b strings.Builder
		for _, id := range t.task.Preferred {
			b.WriteString(string(id))
			b.WriteByte(0)
		}
		k.preferred = b.String()
	}
	if n.strategy.Prepare != nil {
		c := coordinator.Case{Task: t.task, Required: len(n.required)}
		n.strategy.Prepare(&c)
		k.affinity, k.session = c.Affinity, c.Session
	}
	return k
}

// batchLimits returns the limits of the batch that the task may share; false: it goes alone.
func (e *Engine) batchLimits(t *openTask) (limits coordinator.Batch, batched bool) {
	if !t.fresh || t.asks() { // bids are for one task
		return limits, false
	}
	return e.batches.Limits(t.task.Type)
}

// gather lets a new task wait for others of its kind. It returns false when the task is to be decided now: waiting
// has no benefit, or the task has no time for it.
//
// The first task of a batch opens it for MaxWait; it closes earlier when it is full. The wait is a part of the time
// for which a task may be pending, so it is never longer than the assignment timeout: with a timeout of 0 nothing
// waits. A task whose deadline is less than twice as far away as the end of the wait does not wait. Nor does a task
// whose class has waiting tasks already: it joins them, and tasks that wait for a slot share batches, too.
func (e *Engine) gather(now time.Time, t *openTask) bool {
	limits, batched := e.batchLimits(t)
	if !batched || t.from != "" { // it has waited in its lane
		return false
	}
	if c := t.needs.class; c.unserved() || c.First() != nil || !t.until.IsZero() ||
		e.backlog() >= e.policy.Settings.MaxQueueSize {
		return false
	}
	key, until := batchKeyOf(t), e.pendingUntil(now, t)
	closes, full, gathers := e.batches.Gather(now, key, t, limits, until, t.task.Deadline)
	if !gathers {
		return false
	}
	t.state, t.until = stateGathering, until
	e.pending.count[t.task.Priority]++
	if full {
		e.gathered(now, key)
	} else {
		e.timers.schedule(&t.retry, closes)
	}
	return true
}

// gathered decides the batch of that kind: it is full, or its time is up.
func (e *Engine) gathered(now time.Time, key batchKey) {
	members := e.batches.Close(key)
	e.endGathering(members)
	e.decideBatch(now, members)
}

// endGathering makes tasks that wait for others ready to be decided.
func (e *Engine) endGathering(members []*openTask) {
	for _, t := range members {
		e.pending.count[t.task.Priority]--
		e.timers.cancel(&t.retry)
		t.state = stateDeciding
	}
}

// decideBatch gives tasks of one kind to agents: the first as if it were alone, the others to the same agent, in
// the order of byDue, for as long as it can take them. So the task with the highest priority decides the agent for
// all. The tasks for which the agent has no slot begin the next batch, for the agent that the strategy then
// prefers. It does not look for an agent with more slots: the strategy's choice matters more than the size of a
// batch, and no task that could run now waits for a larger batch. Tasks for which no agent has a slot wait for one.
func (e *Engine) decideBatch(now time.Time, members []*openTask) {
	var at *agent
	var decision choice.Kept // that of the first
	var first *openTask
	size := 0
	for _, t := range members {
		// Under another policy than when it came it may be impossible, or of another kind.
		if reason, text := e.resolve(t); reason != coordinator.ReasonNone {
			e.fail(now, t, reason, text, nil)
			continue
		}
		if at != nil && e.waitsForQuota(t) { // as it would alone; the others need not
			e.place(now, t)
			continue
		}
		limits, _ := e.batchLimits(t)
		if at != nil && size < limits.MaxSize && !t.late(now) && batchKeyOf(t) == batchKeyOf(first) && e.follows(t, at) {
			size++
			e.assignBest(now, t, at, &decision.Decision)
			continue
		}
		var chosen *coordinator.Decision
		if at, chosen = e.place(now, t); at != nil {
			decision.Keep(chosen)
		}
		first, size = t, 1
	}
}

// follows reports whether the agent may have the task as well, now.
func (e *Engine) follows(t *openTask, a *agent) bool {
	if !t.needs.class.Usable.Has(a.Number) {
		return false
	}
	only := agentset.New(len(e.fleet.Agents))
	only.Add(a.Number)
	chosen, _ := e.chooseAmong(t, only)
	return chosen != nil
}

// sealBatches ends a moment: what is dispatched from here on is in other batches.
func (e *Engine) sealBatches() {
	for _, d := range e.batches.Seal() {
		if t := e.held[d.Handle]; t != nil && t.dispatchID == d.DispatchID {
			t.batch = d.BatchID
		}
	}
}
