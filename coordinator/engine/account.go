package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
)

// finishedPast credits the end of a dispatch that is not open any more: one that
// only the agent could free its slot of, one that was let go because a report had
// covered it, or one that the agent said it runs although it is nobody's.
func (e *Engine) finishedPast(now time.Time, a *agent, r *coordinator.Result, attempt int, letGo bool) {
	end := fleet.Ending{Task: r.Task, Stamp: a.Stamp(now, r), Heard: now}
	_, listed := a.Listed[r.Task]
	known := slices.ContainsFunc(a.Recent, func(e fleet.Ending) bool { return e.Task == r.Task })
	switch t := a.Find(r.Task, attempt); {
	case t != nil:
		a.Finished(now, &t.Dispatch, r)
		e.discharge(t)
	case letGo, listed && !known && a.CountsStill(&end):
		a.Note(end, true)
	}
	e.fleet.Refresh(a)
}

// mayLetGo tells whether nobody will say how the dispatch ended, and nothing else
// needs it.
func (e *Engine) mayLetGo(t *openTask) bool {
	return !e.following && t.state == stateLeased && !t.agent.Tracked && len(t.tried) == 0 && !t.Apart && !t.Over &&
		!t.unanswered
}

// audit is done with every report: what it covers, what it has begun, what it has
// let go of, and which ends told before it arrived it does not know of yet. made
// is when it was made, by our clock; zero when that is not known.
func (e *Engine) audit(now time.Time, a *agent, made time.Time) {
	exact := a.Listed != nil
	for i := 0; i < len(a.Open); {
		t := a.Open[i]
		arrivedBefore := !t.Settled.IsZero() && !made.IsZero() && t.Settled.Before(made)
		_, listed := a.Listed[t.task.ID]
		switch {
		case exact && t.Over && t.state == stateLeased && (listed || arrivedBefore),
			!exact && t.Over && arrivedBefore:
			t.agent.Give(t) // its reports speak for it
			continue
		case exact && listed:
			e.fleet.Cover(t.agent, t)
			if !t.Listed {
				e.renew(t)
			}
			if t.withdrawn && t.state == stateLeased && !t.returning {
				e.withdraw(t, t.cancelReason, 0) // it cannot have heard, or does not heed
			}
		case !exact && arrivedBefore && (e.mayLetGo(t) || e.hasDoneAlone(t, made)):
			e.letGo(t)
			continue
		case !exact && arrivedBefore:
			e.fleet.Cover(t.agent, t)
		case exact && arrivedBefore:
			t.Unlisted = made
		}
		t.Listed = listed
		i++
	}
	a.Audited(now, made)
}
