package engine

import (
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/llmcalls"
)

// A task may name several models (Task.Alternatives), of which one is chosen with each dispatch, by what
// a call chooses by (llmcalls.Choose). Tasks that may go to the same models are one class. One for which
// none has room waits for the one that has it again first, and tries all of them when something comes
// back to any: as a task does for which it makes a difference which agent has it (see ownWaits).

// routesOfTask are the models that the task may go to, each in one pool; nil: it has no choice.
func (e *Engine) routesOfTask(t *openTask) []coordinator.Service {
	return llmcalls.Expand(e.quotas.ledger, t.task.Alternatives)
}

// routesKey is what tasks have in common that may go to the same models, in the same order; empty: there
// is no choice. Neither names nor ids contain the separators.
func routesKey(routes []coordinator.Service) string {
	var b strings.Builder
	for _, s := range routes {
		b.WriteByte(5)
		b.WriteString(s.Provider)
		b.WriteByte(6)
		b.WriteString(s.Model)
	}
	return b.String()
}

// demandAt is what the task will probably take if it goes to that model; without one, to its own, or the
// first of those that it may go to.
func (e *Engine) demandAt(t *openTask, s coordinator.Service) (c fairshare.Charge, usual coordinator.Amounts) {
	u := t.task.EstimatedUsage
	if all := t.task.Alternatives; len(all) > 0 {
		var one coordinator.Usage
		if u != nil {
			one = *u
		}
		if s == (coordinator.Service{}) {
			s = all[0]
		}
		one.Provider, one.Model = s.Provider, s.Model
		u = &one
	}
	c, usual = e.quotas.ledger.Demand(t.task.Group, t.task.Type, u, t.task.NoTokens, e.quotas.estimator)
	c.NoBorrowing = t.task.NoBorrowing
	return c, usual
}

// taskChoice is how a task stands with the models that it may go to, for one agent.
type taskChoice struct {
	charge  fairshare.Charge
	usual   coordinator.Amounts
	verdict fairshare.Verdict   // of the one that was chosen, or that has room again first
	refused []fairshare.Verdict // of all that have none, where it has a choice
	models  *coordinator.RouteChoice
}

// chooseFor finds the model that the task goes to with that agent.
func (e *Engine) chooseFor(
	now time.Time, t *openTask, id coordinator.AgentID, services []coordinator.Service,
) (x taskChoice) {
	q, level := &e.quotas, levelOf(t)
	type demand struct {
		charge fairshare.Charge
		usual  coordinator.Amounts
	}
	demands, routes := make([]demand, len(services)), make([]llmcalls.Route, len(services))
	for i, s := range services {
		d, r := &demands[i], &routes[i]
		d.charge, d.usual = e.demandAt(t, s)
		r.Service, r.Charge = s, d.charge
		q.ledger.GiveTo(id, &r.Charge, &d.usual, t.task.Type, t.task.EstimatedUsage)
		r.Path = q.ledger.PathOf(&r.Charge)
		if r.Verdict = q.ledger.Check(now, &r.Path, &r.Charge); r.Verdict.OK {
			if v, behind := q.waits.Ahead(now, r.Charge, level); behind {
				r.Verdict = v
			}
		}
		if !r.Verdict.OK {
			x.refused = append(x.refused, r.Verdict)
		}
	}
	best, scores := llmcalls.Choose(now, q.ledger, routes)
	x.models = &coordinator.RouteChoice{Weights: q.ledger.RouteWeights(), Routes: scores}
	x.charge, x.usual, x.verdict = demands[best].charge, demands[best].usual, routes[best].Verdict
	return x
}

// take has the task charged to what was chosen.
func (h *quotaHold) take(x *taskChoice) {
	h.charge, h.usual, h.models = x.charge, x.usual, x.models
}

// serviceOf is the model that an agent is told to use for the task; zero: the task names no alternatives.
// A dispatch that is sent again names the model that it named before. Without quotas there is nothing to
// choose by, and it is the first.
func (e *Engine) serviceOf(t *openTask) coordinator.Service {
	switch all := t.task.Alternatives; {
	case len(all) == 0:
		return coordinator.Service{}
	case t.resumed && t.service != coordinator.Service{}:
		return t.service
	case t.quota == nil:
		return all[0]
	}
	return coordinator.Service{Provider: t.quota.charge.Provider, Model: t.quota.charge.Model}
}

// modelsOf is how the models were judged of which the one was chosen that the task goes to; nil: it has no
// choice, or whoever led before has chosen.
func (t *openTask) modelsOf() *coordinator.RouteChoice {
	if t.quota == nil {
		return nil
	}
	return t.quota.models
}

// explainModels adds to how a task would be decided how each of its models stands now. If it would wait
// behind another, those of that one, which are the same: it is said what each must have again first.
func (e *Engine) explainModels(now time.Time, t *openTask, d *coordinator.Decision) {
	routes := e.routesOfTask(t)
	if routes == nil || e.quotaDemand(t) == nil {
		return
	}
	if w := e.waitAt(t.needs.class, e.leafOf(t)); d.Lacks != nil && w != nil {
		t = w.Task.(*openTask)
	}
	d.Models = e.chooseFor(now, t, d.Agent, routes).models
}
