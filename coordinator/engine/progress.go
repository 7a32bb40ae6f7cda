package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/state"
)

// progressed applies one task.progress. It counts for the dispatch that its agent has, and says that the agent is at
// work on it: it may go on for as long as if it had just begun. One that was told to stop is not given more time.
func (k *kernel) progressed(now time.Time, p *coordinator.Progress) {
	r := coordinator.Result{Task: p.Task, Agent: p.Agent, DispatchID: p.DispatchID, Timestamp: p.Timestamp}
	rec, attempt := k.Lookup(now, coordinator.KeyOf(p.Task)), attemptOf(&r)
	t := k.Tasks.Of(rec)
	refusal := coordinator.ResultLate
	switch {
	case rec == nil || attempt < 0 || t != nil && k.ofFormerLife(t, &r):
		refusal = coordinator.ResultUnknown
	case t == nil || t.Agent == nil || t.Stage < state.Dispatching || attempt > 0 && attempt < t.Attempt:
	case t.Agent.Spec.ID != p.Agent || attempt > t.Attempt:
		refusal = coordinator.ResultWrongAgent
	case t.Returning || !t.On():
	default:
		k.Emit(&coordinator.Progressed{Task: t.Task, Progress: p})
		if t.Stage == state.Leased && !t.Withdrawn {
			k.Renew(now, t)
		}
		return
	}
	k.Emit(coordinator.ProgressRefused{Task: p.Task, Agent: p.Agent, Refusal: refusal})
}
