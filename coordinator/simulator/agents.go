package simulator

import (
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
)

// agent is one simulated agent, as it truly is.
type agent struct {
	id    coordinator.AgentID
	group int32
	up    bool
	free  bool // it is up and has a free slot: counted in the tally
	// takenBack: the coordinator consumes its queue.
	takenBack bool
	life      uint32  // crashes and restarts so far
	beats     uint64  // heartbeats so far
	running   []int32 // tasks, in order of their start
	queue     []int32
	since     int64 // when busy and upFor were last added up
	busy      int64 // slot-nanoseconds of work in what is measured
	upFor     int64 // nanoseconds up in what is measured
	decisions int   // dispatches to it in what is measured
}

func (a *agent) inLine() int { return len(a.running) + len(a.queue) }

// deliver puts a dispatch into its agent's queue, and says to the engine that the
// broker has it.
func (w *world) deliver(d *coordinator.Dispatch) error {
	number, index := handedTask(d.Handle), w.byID[d.Agent]
	t := w.tasks.at(number)
	if t == nil || t.place != withCoordinator || t.ended {
		return fmt.Errorf("simulate %s: dispatch %s of a task that the coordinator does not hold", w.variant.Label,
			d.DispatchID)
	}
	a := &w.agents[index]
	if w.tally.measuring(w.now) {
		w.tally.decided(w, t, a)
	}
	t.dispatch, t.agent, t.queued, t.began, t.place = d, index, w.now, -1, inQueue
	t.life++
	if err := w.apply(coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishConfirmed}); err != nil {
		return err
	}
	a.queue = append(a.queue, number)
	if a.takenBack {
		return w.giveBack(number, coordinator.ReturnTakenBack, false)
	}
	w.take(index)
	if t.place == inQueue {
		w.moments.Add(w.now+int64(d.AcceptTimeout), moment{momentExpiry, number, t.life})
	}
	w.recount(index)
	return nil
}

// take starts what waits in the agent's queue, while it has free slots.
func (w *world) take(index int32) {
	a := &w.agents[index]
	g := &w.scenario.Fleet[a.group]
	for a.up && len(a.queue) > 0 && len(a.running) < g.Slots {
		number := a.queue[0]
		a.queue = a.queue[1:]
		if len(a.queue) == 0 {
			a.queue = nil
		}
		w.account(a)
		a.running = append(a.running, number)
		t := w.tasks.at(number)
		t.place, t.began = atWork, w.now
		t.life++
		w.tally.waiting(t.kind, -1)
		if t.started < 0 {
			t.started = w.now
			w.tally.started(t)
		}
		w.moments.Add(w.now+w.length(t, a), moment{momentFinish, number, t.life})
	}
}

// length is how long the agent works on the task. One draw counts for all groups: a task that is long at
// one is long at the others, each by its own distribution and speed.
func (w *world) length(t *task, a *agent) int64 {
	g := &w.scenario.Fleet[a.group]
	seconds := t.size
	if seconds == 0 {
		d := g.service(w.kinds.names[t.kind])
		u := 0.5
		if d.Shape != Constant {
			u = Draw(w.seed, drawService, t.draws, 0)
		}
		seconds = d.Quantile(u)
	}
	return nanoseconds(seconds / g.Speed)
}

// finish ends the work on a task: its agent takes the next, and reports how it went.
func (w *world) finish(number int32, life uint32) error {
	t := w.tasks.at(number)
	if t == nil || t.life != life {
		return nil
	}
	index := t.agent
	a := &w.agents[index]
	outcome := coordinator.OutcomeSucceeded
	if Draw(w.seed, drawSuccess, t.draws, uint64(index)) >= w.kinds.success[a.group][t.kind] {
		outcome = coordinator.OutcomeFailed
	}
	result := w.result(t, outcome)
	w.drop(number)
	w.take(index)
	w.recount(index)
	if !t.ended {
		how := endSucceeded
		if outcome == coordinator.OutcomeFailed {
			how = endFailed
		}
		w.tally.end(w.now, t, how)
		w.ended(t)
		w.replace(t.stream, false)
	}
	w.release(t)
	if w.reports(a) == ReportHeartbeats {
		return nil
	}
	return w.apply(result)
}

// result is what the agent reports of the task's end.
func (w *world) result(t *task, outcome coordinator.Outcome) coordinator.ResultReported {
	return coordinator.ResultReported{Live: true, Result: coordinator.Result{
		Task: t.task.ID, Agent: t.dispatch.Agent, DispatchID: t.dispatch.DispatchID, Outcome: outcome,
		Timestamp: epoch.Add(time.Duration(w.now)), Duration: time.Duration(w.now - t.began),
	}}
}

// drop takes a task from its agent, wherever it is with it.
func (w *world) drop(number int32) {
	t := w.tasks.at(number)
	a := &w.agents[t.agent]
	switch t.place {
	case atWork:
		w.account(a)
		i := slices.Index(a.running, number)
		a.running = slices.Delete(a.running, i, i+1)
	case inQueue:
		if i := slices.Index(a.queue, number); i == 0 { // as a rule: what came first expires first
			a.queue = a.queue[1:]
		} else {
			a.queue = slices.Delete(slices.Clone(a.queue), i, i+1)
		}
		w.tally.waiting(t.kind, -1)
	}
	t.place, t.agent = gone, -1
	t.life++
}

// giveBack returns a message of an agent's queue to the coordinator.
func (w *world) giveBack(number int32, cause coordinator.ReturnCause, redelivered bool) error {
	t := w.tasks.at(number)
	d := t.dispatch
	index := t.agent
	w.drop(number)
	w.recount(index)
	if t.ended {
		w.release(t)
		return nil // it has been failed and withdrawn: its copy is dropped
	}
	t.place = withCoordinator
	w.tally.waiting(t.kind, +1)
	return w.apply(coordinator.TaskReturned{
		Handle: w.hand(number), Task: t.task, Agent: d.Agent, Attempt: d.Attempt, Cause: cause, Redelivered: redelivered,
		MaybeDuplicate: d.MaybeDuplicate,
		Tried:          append(slices.Clone(d.Tried), d.Agent), Tries: d.Tries, Failed: slices.Clone(d.Failed),
		Suspected: slices.Clone(d.Suspected),
	})
}

// expire returns a message that its agent has not taken in time.
func (w *world) expire(number int32, life uint32) error {
	if t := w.tasks.at(number); t == nil || t.life != life || t.place != inQueue {
		return nil
	}
	return w.giveBack(number, coordinator.ReturnExpired, false)
}

// takeBack returns everything that waits in an agent's queue.
func (w *world) takeBack(index int32) error {
	a := &w.agents[index]
	a.takenBack = true
	for _, number := range slices.Clone(a.queue) {
		t := w.tasks.at(number)
		if t.place != inQueue || t.agent != index {
			continue
		}
		// What was started once was in the agent's hands when it crashed.
		if err := w.giveBack(number, coordinator.ReturnTakenBack, t.began >= 0); err != nil {
			return err
		}
	}
	return nil
}

// withdraw has an agent that listens drop or stop a task.
func (w *world) withdraw(f coordinator.Withdraw) error {
	index := w.byID[f.Agent]
	a := &w.agents[index]
	if w.reports(a) == ReportHeartbeats || !a.up {
		return nil
	}
	for _, number := range slices.Concat(a.running, a.queue) {
		t := w.tasks.at(number)
		if t.task.ID != f.Task || t.dispatch.DispatchID != f.DispatchID {
			continue
		}
		result := w.result(t, coordinator.OutcomeCancelled)
		w.drop(number)
		w.take(index)
		w.recount(index)
		w.release(t)
		return w.apply(result)
	}
	return nil
}

// reports is what the agent sends.
func (w *world) reports(a *agent) Reports { return w.scenario.Fleet[a.group].reports(w.variant) }

// account adds up what the agent has done since the last time, before it changes.
func (w *world) account(a *agent) {
	if measured := w.tally.span(a.since, w.now); measured > 0 && a.up {
		a.busy += measured * int64(len(a.running))
		a.upFor += measured
	}
	a.since = w.now
}

// recount notes whether the agent has a free slot now.
func (w *world) recount(index int32) {
	a := &w.agents[index]
	if free := a.up && a.inLine() < w.scenario.Fleet[a.group].Slots; free != a.free {
		a.free = free
		w.tally.freeSlot(a.group, free)
	}
}
