package replay

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
)

// agent is one modelled agent.
type agent struct {
	id     coordinator.AgentID
	facts  *agentFacts
	absent bool
	// consumed: the coordinator consumes its queue.
	consumed bool
	works    []*work
	// before are the tasks that it had when the recording began. How they end is
	// recorded.
	before []coordinator.TaskID
}

// work is a dispatch that an agent has.
type work struct {
	dispatch *coordinator.Dispatch
	at       time.Time // when it came
	begun    bool
	ending   ending
	life     int // counts what happened to it, so that moments of before are void
}

// agent is the modelled agent of that id; one that never reported is there as well.
func (w *world) agent(id coordinator.AgentID) *agent {
	a := w.agents[id]
	if a == nil {
		a = &agent{id: id, facts: w.facts.agents[id]}
		if a.facts == nil {
			a.facts = &agentFacts{}
		}
		w.agents[id] = a
	}
	return a
}

// begin learns from the snapshot what agents have already.
func (w *world) begin(r coordinator.Record) {
	if r, ok := r.(*coordinator.Assigned); ok {
		a := w.agent(r.Agent)
		a.before = append(a.before, r.Task.ID)
	}
}

// populate has agents be there but for the times when they were not.
func (w *world) populate() {
	for _, id := range slices.Sorted(maps.Keys(w.facts.agents)) {
		a := w.agent(id)
		for _, s := range a.facts.absent {
			w.moments.schedule(s.from, func() { a.leave(w) })
			w.moments.schedule(s.until, func() { a.come(w) })
		}
	}
}

// deliver puts a dispatch into its agent's queue. One that the agent has already is
// the same message again.
func (w *world) deliver(d *coordinator.Dispatch) {
	a := w.agent(d.Agent)
	if slices.ContainsFunc(a.works, func(x *work) bool { return x.dispatch.DispatchID == d.DispatchID }) {
		return
	}
	x := &work{dispatch: d, at: w.now}
	a.works = append(a.works, x)
	switch {
	case !a.absent:
		a.begin(w, x)
	case a.consumed:
		life := x.life
		w.after(w.latency, func() {
			if x.life == life {
				a.giveBack(w, x, coordinator.ReturnTakenBack, false)
			}
		})
	default:
		a.awaitExpiry(w, x)
	}
}

// begin has the agent work on a dispatch.
func (a *agent) begin(w *world, x *work) {
	if !x.begun {
		x.ending = w.ending(x.dispatch)
	}
	x.begun = true
	x.life++
	if m := x.ending.manner; m == lost || m == unfinished {
		return
	}
	life := x.life
	w.after(max(x.ending.after, 0), func() {
		if x.life == life {
			a.finish(w, x)
		}
	})
}

// ending is how a dispatch ends: as it truly did, where its agent truly had the task.
func (w *world) ending(d *coordinator.Dispatch) ending {
	truly := w.facts.latest[pair{d.Agent, string(d.Task.ID)}]
	if truly != nil && truly.end != nil && truly.end.manner <= unfinished {
		w.sources[asRecorded]++
		return *truly.end
	}
	e, from := w.habits.ending(d.Task, d.Agent, d.Attempt)
	w.sources[from]++
	return e
}

// drop takes a dispatch from the agent.
func (a *agent) drop(x *work) {
	x.life++
	a.works = slices.DeleteFunc(a.works, func(y *work) bool { return y == x })
}

// finish ends the work on a dispatch: its agent reports how, or gives it back.
func (a *agent) finish(w *world, x *work) {
	switch x.ending.manner {
	case succeeded:
		a.result(w, x, coordinator.OutcomeSucceeded)
	case failed:
		a.result(w, x, coordinator.OutcomeFailed)
	case rejected:
		if x.ending.reported {
			a.result(w, x, coordinator.OutcomeRejected)
		}
		a.giveBack(w, x, coordinator.ReturnRejected, false)
	case expired:
		a.giveBack(w, x, coordinator.ReturnExpired, false)
	default:
		a.giveBack(w, x, coordinator.ReturnDeliveryLimit, true)
	}
}

// result reports how a dispatch ended, if the agent sends results.
func (a *agent) result(w *world, x *work, o coordinator.Outcome) {
	if o != coordinator.OutcomeRejected {
		a.drop(x)
	}
	if !a.facts.results {
		return
	}
	r := coordinator.Result{
		Task: x.dispatch.Task.ID, Agent: a.id, Outcome: o, TraceID: x.dispatch.Task.CorrelationID,
		Timestamp: w.now.Add(-a.facts.offset), Duration: x.ending.work, Usage: x.ending.usage,
		Attempted: o == coordinator.OutcomeRejected && x.ending.attempted,
	}
	if a.facts.ids {
		r.DispatchID = x.dispatch.DispatchID
	}
	w.tell(r)
}

// giveBack returns a dispatch to the coordinator.
func (a *agent) giveBack(w *world, x *work, cause coordinator.ReturnCause, redelivered bool) {
	a.drop(x)
	d := x.dispatch
	w.hand(coordinator.TaskReturned{
		Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Cause: cause, Redelivered: redelivered,
		MaybeDuplicate: d.MaybeDuplicate,
		Tried:          append(slices.Clone(d.Tried), d.Agent), Tries: d.Tries, Failed: slices.Clone(d.Failed),
		Suspected: slices.Clone(d.Suspected),
	})
}

// awaitExpiry returns a dispatch that is not taken before its time is over.
func (a *agent) awaitExpiry(w *world, x *work) {
	x.life++
	life := x.life
	at := x.at.Add(x.dispatch.AcceptTimeout)
	if at.Before(w.now) {
		at = w.now
	}
	w.moments.schedule(at, func() {
		if x.life == life {
			a.giveBack(w, x, coordinator.ReturnExpired, x.begun)
		}
	})
}

// leave has the agent go, without a word: what it had is in its queue again.
func (a *agent) leave(w *world) {
	a.absent = true
	for _, x := range slices.Clone(a.works) {
		a.awaitExpiry(w, x)
	}
	if a.consumed {
		a.takeBack(w)
	}
}

// come has it be there again, and begin with what is in its queue.
func (a *agent) come(w *world) {
	a.absent = false
	for _, x := range slices.Clone(a.works) {
		a.begin(w, x)
	}
}

// takeBack has the coordinator consume the agent's queue.
func (a *agent) takeBack(w *world) {
	a.consumed = true
	if !a.absent {
		return // all that it has is in its hands
	}
	for _, x := range slices.Clone(a.works) {
		a.giveBack(w, x, coordinator.ReturnTakenBack, x.begun)
	}
}

// withdraw has an agent that listens drop a dispatch, or stop the work on it.
func (w *world) withdraw(f coordinator.Withdraw) {
	a := w.agent(f.Agent)
	i := slices.IndexFunc(a.works, func(x *work) bool { return x.dispatch.DispatchID == f.DispatchID })
	if i < 0 || a.absent || !a.facts.results {
		return
	}
	x := a.works[i]
	if x.ending.manner == lost { // it does not listen, either; but its slot is free in the end
		a.drop(x)
		return
	}
	life := x.life
	w.after(w.latency, func() {
		if x.life == life {
			a.result(w, x, coordinator.OutcomeCancelled)
		}
	})
}

// waiting is how much lies in the agent's queue.
func (a *agent) waiting() int {
	if a.absent {
		return len(a.works)
	}
	return 0
}
