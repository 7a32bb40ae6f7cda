package admission

import (
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/llmcalls"
)

// Hold is what a task will take, and whether it is reserved for the dispatch at hand.
type Hold struct {
	Charge fairshare.Charge
	Usual  coordinator.Amounts // what such tasks take in the mean
	Key    coordinator.TaskKey // of the reservation
	Open   bool                // its turn has been charged, and quota may be reserved
	// Models are how those were judged that it may go to, when one was chosen last; nil: it has no choice.
	Models *coordinator.RouteChoice
}

// Demand returns what the task will probably take if it goes to that model; without one, to its own, or the
// first of those that it may go to.
func (q *Quotas) Demand(
	task *coordinator.Task, s coordinator.Service,
) (c fairshare.Charge, usual coordinator.Amounts) {
	u := task.EstimatedUsage
	if all := task.Alternatives; len(all) > 0 {
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
	c, usual = q.Ledger.Demand(task.Group, task.Type, u, task.NoTokens, q.Estimator)
	c.NoBorrowing = task.NoBorrowing
	return c, usual
}

// Hold returns what a task will take, with nothing reserved for it.
func (q *Quotas) Hold(task *coordinator.Task) *Hold {
	h := &Hold{}
	h.Charge, h.Usual = q.Demand(task, coordinator.Service{})
	return h
}

// TakesNoTokens reports whether it takes neither tokens nor money.
func (h *Hold) TakesNoTokens() bool {
	return h.Charge.Amounts[coordinator.DimTotalTokens] == 0 && h.Charge.Amounts[coordinator.DimCost] == 0
}

// Service returns the model that the task goes to; zero: it names no alternatives. Without quotas (h is nil) there is
// no criterion for the choice, and it is the first.
func (h *Hold) Service(task *coordinator.Task) coordinator.Service {
	switch all := task.Alternatives; {
	case len(all) == 0:
		return coordinator.Service{}
	case h == nil:
		return all[0]
	}
	return coordinator.Service{Provider: h.Charge.Provider, Model: h.Charge.Model}
}

// Judged returns how the models were judged of which the one was chosen that the task goes to; nil: it has no
// choice, there are no quotas (h is nil), or the leader before has chosen.
func (h *Hold) Judged() *coordinator.RouteChoice {
	if h == nil {
		return nil
	}
	return h.Models
}

// Record returns the record of a reservation: that of a dispatch at a level, of those at which something waited.
func (h *Hold) Record(now time.Time, level int, waiting uint8) *coordinator.QuotaReserved {
	r := h.Charge.Reserved(h.Key, now)
	r.Level, r.Waiting = coordinator.Priority(level), waiting
	return r
}

// PoolOf returns the name of the provider's pool that the task is charged to, or all that it may be charged to, so
// that tasks which may go to the same models in the same order have the same name; empty: none. Neither names nor
// ids contain the separators.
func (q *Quotas) PoolOf(task *coordinator.Task, h *Hold) string {
	if len(task.Alternatives) == 0 {
		return q.Ledger.PoolOf(&h.Charge)
	}
	var b strings.Builder
	for _, s := range task.Alternatives {
		b.WriteByte(5)
		b.WriteString(s.Provider)
		b.WriteByte(6)
		b.WriteString(s.Model)
	}
	return b.String()
}

// Choice is where a task would go with an agent: the only model that it may go to, or the one of several that is
// chosen.
type Choice struct {
	Charge  fairshare.Charge
	Usual   coordinator.Amounts
	Verdict fairshare.Verdict // whether there is quota for it; if for none of several: of that which has it first
	// Refused are the verdicts of all of several models that have none, and Models how these were judged.
	Refused []fairshare.Verdict
	Models  *coordinator.RouteChoice
}

// Take charges the task to what was chosen of several models.
func (h *Hold) Take(x *Choice) { h.Charge, h.Usual, h.Models = x.Charge, x.Usual, x.Models }

// Routes returns the models that the task may go to, each in one pool; nil: it has no choice.
func (q *Quotas) Routes(task *coordinator.Task) []coordinator.Service {
	return llmcalls.Expand(q.Ledger, task.Alternatives)
}

// Judge finds where the task would go with that agent, or without one with agents that have no quota of their
// own, and whether there is quota for it. keep: it is not a mere question (see fairshare.Ledger.Ask).
func (q *Quotas) Judge(
	now time.Time, task *coordinator.Task, h *Hold, id coordinator.AgentID, keep bool,
) Choice {
	if routes := q.Routes(task); routes != nil {
		return q.Choose(now, task, id, routes, keep)
	}
	c, usual := h.Charge, h.Usual
	q.Ledger.GiveTo(id, &c, &usual, task.Type, task.EstimatedUsage)
	p := q.Ledger.PathOf(&c)
	return Choice{Charge: c, Usual: usual, Verdict: q.Ledger.Ask(now, &p, &c, keep)}
}

// Choose finds the model that the task goes to with that agent, by what a call chooses by. One for which none has
// quota waits for the one that has it again first.
func (q *Quotas) Choose(
	now time.Time, task *coordinator.Task, id coordinator.AgentID, services []coordinator.Service, keep bool,
) (x Choice) {
	type demand struct {
		charge fairshare.Charge
		usual  coordinator.Amounts
	}
	demands, routes := make([]demand, len(services)), make([]llmcalls.Route, len(services))
	for i, s := range services {
		d, r := &demands[i], &routes[i]
		d.charge, d.usual = q.Demand(task, s)
		r.Service, r.Charge = s, d.charge
		q.Ledger.GiveTo(id, &r.Charge, &d.usual, task.Type, task.EstimatedUsage)
		r.Path = q.Ledger.PathOf(&r.Charge)
		if r.Verdict = q.Ledger.Ask(now, &r.Path, &r.Charge, keep); r.Verdict.OK {
			if v, behind := q.Waits.Ahead(now, r.Charge, int(task.Priority)); behind {
				r.Verdict = v
			}
		}
		if !r.Verdict.OK {
			x.Refused = append(x.Refused, r.Verdict)
		}
	}
	best, scores := llmcalls.Choose(now, q.Ledger, routes)
	x.Models = &coordinator.RouteChoice{Weights: q.Ledger.RouteWeights(), Routes: scores}
	x.Charge, x.Usual, x.Verdict = demands[best].charge, demands[best].usual, routes[best].Verdict
	return x
}

// Dearest returns what the task will probably take, with the one of these agents with which it costs most. That differs
// where it has no group: it is charged to that of its agent.
func (q *Quotas) Dearest(task *coordinator.Task, c fairshare.Charge, among []coordinator.AgentID) fairshare.Charge {
	if c.Group != "" {
		return c
	}
	const cost = coordinator.DimCost
	for _, id := range among {
		given, usual := c, coordinator.Amounts{}
		q.Ledger.GiveTo(id, &given, &usual, task.Type, task.EstimatedUsage)
		c.Amounts[cost] = max(c.Amounts[cost], given.Amounts[cost])
	}
	return c
}

// Reserve reserves quota for giving the task to the agent now, under the id of its dispatch, and charges the turn
// of its group. A refusal reserves nothing.
func (q *Quotas) Reserve(
	now time.Time, task *coordinator.Task, attempt int, h *Hold, agent coordinator.AgentID,
) fairshare.Verdict {
	if routes := q.Routes(task); routes != nil {
		x := q.Choose(now, task, agent, routes, true)
		h.Take(&x)
	}
	q.Ledger.GiveTo(agent, &h.Charge, &h.Usual, task.Type, task.EstimatedUsage)
	if v, behind := q.Waits.Ahead(now, h.Charge, int(task.Priority)); behind {
		return v
	}
	h.Key = KeyOf(task.ID, attempt)
	v := q.Ledger.Reserve(now, h.Key, &h.Charge, time.Time{})
	if v.Known && !v.OK { // of a life of the task that is forgotten
		q.Ledger.Forget(h.Key)
		v = q.Ledger.Reserve(now, h.Key, &h.Charge, time.Time{})
	}
	if !v.OK {
		q.Ledger.Lacks(now, &h.Charge)
		return v
	}
	h.Open = true
	q.Given++
	q.servedAt[q.Shares.Leaf(task.Group)] = now
	q.dispatched(now, h.Charge.Group, h.Charge.Expect)
	return v
}

// KeyOf returns the key under which quota for a dispatch is reserved.
func KeyOf(id coordinator.TaskID, attempt int) coordinator.TaskKey {
	return coordinator.KeyOf(coordinator.TaskID(coordinator.AttemptID(id, attempt)))
}

// dispatched charges a dispatch to its group's turn.
func (q *Quotas) dispatched(now time.Time, group string, cost int64) {
	leaf := q.Shares.Leaf(group)
	q.Shares.Charge(leaf, cost)
	q.Flow.Dispatched(now, q.Shares.Name(leaf), cost)
}
