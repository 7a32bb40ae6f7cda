package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/choice"
)

// explain makes a full pass over the fleet for why each agent may not have the task; a detailed one lists them,
// bounded.
func (e *Engine) explain(now time.Time, t *openTask, detailed bool) *coordinator.Decision {
	asked, claiming := t.askedOf(), 0
	x := e.question(t).Explain(asked.Required, detailed)
	for i, a := range e.fleet.Agents {
		r := coordinator.Refusal{Agent: a.Spec.ID, Why: e.ineligibility(a, t, &asked)}
		switch {
		case r.Why == coordinator.Full:
			r.FreeIn = e.freeIn(now, a)
		case r.Why == coordinator.Pulling && a.seat.Waits():
			claiming++
		}
		x.Add(i, r)
	}
	d := x.Decision()
	d.Claiming = claiming
	return d
}

// ineligibility is the first reason that holds, in the order of the constants.
func (e *Engine) ineligibility(a *agent, t *openTask, asked *criteria.Needs) coordinator.Ineligibility {
	f := &e.fleet
	if why := criteria.Check(*asked, &a.Spec); why != coordinator.Eligible {
		return why
	}
	why := f.Eligibility(a)
	switch vacant := f.Vacant.Has(a.Number); {
	case !t.alone:
	case vacant:
		why = coordinator.Eligible
	case why == coordinator.Eligible:
		why = coordinator.HasOthers
	}
	if (why == coordinator.Eligible || why > coordinator.Ejected) && e.ejections.Ejected(a.Number, t.needs.required...) {
		return coordinator.Ejected
	}
	return why
}

// reasonOf turns the explanation of a refusal into the reason the task fails with
// when it can wait no longer, and its text. What no agent of the fleet offers is not
// out of reach where one that does may join: it is not online, no more is known.
func (e *Engine) reasonOf(d *coordinator.Decision, t *openTask) (coordinator.Reason, string) {
	reason, text := choice.Reason(d), d.Text()
	if reason == coordinator.ReasonNoEligibleAgents && d.Refused[coordinator.Unscored] == 0 &&
		e.fleet.MayBring(t.askedOf()) {
		return coordinator.ReasonNoAgentsOnline, text + "; discovery admits agents that could take it, and none has joined"
	}
	return reason, text
}

// askedOf is what a task that has been resolved asks of its agent.
func (t *openTask) askedOf() criteria.Needs {
	n := &t.needs
	return criteria.Needs{Task: t.task, Required: n.required, Barred: t.barredFrom(), Only: n.class.only}
}
