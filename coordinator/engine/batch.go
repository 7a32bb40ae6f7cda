package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/state"
)

// Tasks of one kind that arrive together are decided together: one that could be decided at once waits a moment for
// others (gather). Those that are given to one agent in one moment share a batch id, however they were gathered (see
// queue.Batches). Each is an ordinary dispatch.
//
// A task that has come back, is redelivered, or did not get through has waited long enough, and goes alone.

// gather lets a new task wait for others of its kind. It returns false when the task is to be decided now: it has no
// time for that (see queue.Batches.Gather), or its class has waiting tasks already, which it joins: tasks that wait
// for a slot share batches, too.
func (k *kernel) gather(now time.Time, t *state.Task) bool {
	limits, batched := k.BatchLimits(t)
	if c := t.Needs.Class; !batched || t.From != "" || // it has waited in its lane
		c.Unserved() || c.First() != nil || !t.Until.IsZero() || k.Backlog() >= k.Policy.Settings.MaxQueueSize {
		return false
	}
	key, until := state.BatchKeyOf(t), k.PendingUntil(now, t)
	closes, full, gathers := k.Batches.Gather(now, key, t, limits, until, t.Task.Deadline)
	if !gathers {
		return false
	}
	t.Stage, t.Until = state.Gathering, until
	k.Pending.Count[t.Task.Priority]++
	if full {
		k.gathered(now, key)
	} else {
		k.Timers.Schedule(&t.Retry, closes)
	}
	return true
}

// gathered decides the batch of that kind: it is full, or its time is up.
func (k *kernel) gathered(now time.Time, key state.BatchKey) {
	members := k.Batches.Close(key)
	k.endGathering(members)
	k.decideBatch(now, members)
}

// endGathering makes tasks that wait for others ready to be decided.
func (k *kernel) endGathering(members []*state.Task) {
	for _, t := range members {
		k.Pending.Count[t.Task.Priority]--
		k.Timers.Cancel(&t.Retry)
		t.Stage = state.Deciding
	}
}

// decideBatch gives tasks of one kind to agents: the first as if it were alone, the others to the same agent, in
// the order of ByDue, for as long as it can take them. The next begins a batch of its own, with the agent that the
// strategy then prefers: its choice matters more than the size of a batch.
func (k *kernel) decideBatch(now time.Time, members []*state.Task) {
	var at *state.Agent
	var decision choice.Kept // that of the first
	var first *state.Task
	size := 0
	for _, t := range members {
		reason, text := k.Resolve(t) // under another policy than when it came it may be impossible, or of another kind
		switch limits, _ := k.BatchLimits(t); {
		case reason != coordinator.ReasonNone:
			k.Fail(now, t, reason, text, nil)
		case at != nil && k.WaitsForQuota(t): // as it would alone; the others need not
			k.place(now, t)
		case at != nil && size < limits.MaxSize && !t.Late(now) && state.BatchKeyOf(t) == state.BatchKeyOf(first) &&
			k.follows(t, at):
			size++
			k.assignBest(now, t, at, &decision.Decision)
		default:
			var chosen *coordinator.Decision
			if at, chosen = k.place(now, t); at != nil {
				decision.Keep(chosen)
			}
			first, size = t, 1
		}
	}
}

// follows reports whether the agent may have the task as well, now.
func (k *kernel) follows(t *state.Task, a *state.Agent) bool {
	if !t.Needs.Class.Usable.Has(a.Number) {
		return false
	}
	only := agentset.New(len(k.Fleet.Agents))
	only.Add(a.Number)
	chosen, _ := k.ChooseAmong(t, only)
	return chosen != nil
}

// sealBatches ends a moment: what is dispatched from here on is in other batches.
func (k *kernel) sealBatches() {
	if !k.Batches.Sharing() {
		return
	}
	for _, batch := range k.Batches.Seal() {
		r := &coordinator.BatchSealed{Batch: batch[0].Made.BatchID, Tasks: make([]coordinator.TaskKey, len(batch))}
		for i, d := range batch {
			r.Tasks[i] = d.Task.Key
		}
		k.SealBatch(r)
	}
}
