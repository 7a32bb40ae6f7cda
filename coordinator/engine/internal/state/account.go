package state

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/fleet"
)

// FinishedPast credits the end of a dispatch that is not open any more: one that only the agent could free the slot of,
// one that was let go because a report had covered it, or one that the agent said it runs although no dispatch to
// it is open.
func (s *State) FinishedPast(now time.Time, a *Agent, r *coordinator.Result, attempt int, letGo bool) {
	end := fleet.Ending{Task: r.Task, Stamp: a.Stamp(now, r), Heard: now}
	_, listed := a.Listed[r.Task]
	known := slices.ContainsFunc(a.Recent, func(e fleet.Ending) bool { return e.Task == r.Task })
	switch t := a.Find(r.Task, attempt); {
	case t != nil:
		a.Finished(now, &t.Dispatch, r)
		s.Discharge(t)
	case letGo, listed && !known && a.CountsStill(&end):
		a.Note(end, true)
	}
	s.Fleet.Refresh(a)
}

// MayLetGo reports whether no agent will report how the dispatch ended, and nothing else needs it.
func (s *State) MayLetGo(t *Task) bool {
	return !s.Following && t.Stage == Leased && !t.Agent.Tracked && len(t.Tried) == 0 && !t.Apart && !t.Over &&
		!t.Unanswered
}

// Reconcile is done with every report: which dispatches it covers, which it has begun, which it has let go of, and
// which ends that were reported before it arrived it does not include yet. made is when it was made, by our clock;
// zero when that is not known. The caller refreshes the agent.
func (s *State) Reconcile(now time.Time, a *Agent, made time.Time) {
	exact := a.Listed != nil
	for i := 0; i < len(a.Open); {
		t := a.Open[i]
		arrivedBefore := !t.Settled.IsZero() && !made.IsZero() && t.Settled.Before(made)
		_, listed := a.Listed[t.Task.ID]
		switch {
		case exact && t.Over && t.Stage == Leased && (listed || arrivedBefore),
			!exact && t.Over && arrivedBefore:
			t.Agent.Give(t) // its reports speak for it
			continue
		case exact && listed:
			s.Fleet.Cover(t.Agent, t)
			if !t.Listed {
				s.renew(t)
			}
			if t.Withdrawn && t.Stage == Leased && !t.Returning {
				s.Withdraw(t, t.CancelReason, 0) // the agent cannot have received it, or ignores it
			}
		case !exact && arrivedBefore && (s.MayLetGo(t) || s.hasDoneAlone(t, made)):
			if s.LetGo(t); t.On() {
				a.Give(t)
			}
			continue
		case !exact && arrivedBefore:
			s.Fleet.Cover(t.Agent, t)
		case exact && arrivedBefore:
			t.Unlisted = made
		}
		t.Listed = listed
		i++
	}
	a.Audited(now, made)
}
