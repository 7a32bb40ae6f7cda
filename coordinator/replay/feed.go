package replay

import (
	"math"
	"slices"

	"taskbus/coordinator"
)

// feed gives the engine one input that is the world's own doing; what it says of
// things that are otherwise in the model is corrected.
func (w *world) feed(input int, ev coordinator.Event) {
	switch ev := ev.(type) {
	case coordinator.TaskReceived, coordinator.TaskReturned:
		if returned, ok := ev.(coordinator.TaskReturned); ok {
			w.agent(returned.Agent).endBefore(returned.Task.ID)
		}
		w.hand(ev)
	case coordinator.ResultReported:
		if ev.Result.Outcome.Final() {
			w.agent(ev.Result.Agent).endBefore(ev.Result.Task)
		}
		w.apply(ev)
	case coordinator.SessionOpened:
		w.opened(input, ev)
	case coordinator.SessionLost:
		w.lost()
	case coordinator.AgentReported:
		w.apply(w.beat(ev))
	case coordinator.QueueSeen:
		ev.Ready = w.agent(ev.Agent).waiting()
		w.apply(ev)
	default:
		w.apply(ev)
	}
}

// endBefore takes off a task that the agent had when the recording began.
func (a *agent) endBefore(id coordinator.TaskID) {
	a.before = slices.DeleteFunc(a.before, func(b coordinator.TaskID) bool { return b == id })
}

// loadMargin is how far a reported load may be from the share of slots in use for it
// to mean that share.
const loadMargin = 0.02

// beat is a recorded heartbeat as the modelled agent would send it: it is there, and has
// as many slots, as was recorded; which of them are taken the model knows.
func (w *world) beat(ev coordinator.AgentReported) coordinator.AgentReported {
	r := &ev.Report
	a := w.agent(r.Agent)
	if r.ActiveTasks != nil {
		a.before = slices.DeleteFunc(slices.Clone(a.before),
			func(id coordinator.TaskID) bool { return !slices.Contains(r.ActiveTasks, id) })
	}
	made := w.now
	if a.facts.clocked && !r.Relayed { // it knows nothing of what came while it was on its way
		if at := r.Timestamp.Add(a.facts.offset); at.Before(made) {
			made = at
		}
	}
	running := slices.Clone(a.before)
	for _, x := range a.works {
		if x.begun && !a.absent && !x.at.After(made) {
			running = append(running, x.dispatch.Task.ID)
		}
	}
	if r.HasPending {
		r.Pending = len(running)
	}
	if r.Relayed {
		return ev
	}
	total, was := r.Active+r.Available, r.Available
	if total > 0 && math.Abs(r.Load-float64(r.Active)/float64(total)) < loadMargin {
		r.Load = min(1, float64(len(running))/float64(total))
	}
	r.Active, r.Available = len(running), max(0, total-len(running))
	if r.ActiveTasks != nil {
		r.ActiveTasks = running
		if running == nil {
			r.ActiveTasks = []coordinator.TaskID{}
		}
	}
	full := a.facts.busyWhenFull && !a.facts.readyWhenFull
	switch {
	case full && r.Available == 0 && r.Status == coordinator.StatusReady:
		r.Status = coordinator.StatusBusy
	case full && r.Available > 0 && was == 0 && r.Status == coordinator.StatusBusy:
		r.Status = coordinator.StatusReady
	}
	return ev
}
