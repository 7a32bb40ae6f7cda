package questions

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/state"
)

// explainMarket adds to how the task would be decided that agents would be asked first, or why not.
func (q Questions) explainMarket(now time.Time, t *state.Task, d *coordinator.Decision) {
	if m := t.Needs.Strategy.Market; m.FirstMatch {
		d.Agent, d.First = q.s.Fleet.Agents[t.Needs.Class.Usable.First(q.s.Fleet.Ready)].Spec.ID, true
	}
	window, asked, why := q.s.AuctionFor(now, t)
	if d.Auction = why; why == coordinator.AuctionNone {
		d.Offers, d.Window = len(asked), window
	}
}

// Quotas answers readers as of now, until the next Apply; a standby engine as of the latest record.
func (q Questions) Quotas(now time.Time) admission.Reader {
	return admission.Reader{
		Quotas: q.s.Quotas.Quotas, Calls: &q.s.Calls, Now: now, At: q.s.ReadingTime(now), Waiting: &q.s.Pending,
	}
}

// explainLack adds to how a task would be decided, or why it waits, what quota it lacks, with the reason for which
// it waits or fails then. open is the task if it is open, else nil; chosen the agent that it would go to but for
// quota.
func (q Questions) explainLack(now time.Time, t, open *state.Task, chosen *state.Agent,
	d *coordinator.Decision) (coordinator.Reason, string) {
	r := q.lackOf(q.s.ReadingTime(now), t, open)
	switch {
	case r.Able != nil && !r.Able.Has(chosen.Number) && !t.Asks(): // it has none of its own, and others have
		if a, choice := q.s.ChooseAmong(t, r.Able); a != nil {
			d.Agent, d.Preferred, d.Explored = choice.Agent, choice.Preferred, choice.Explored
		}
		fallthrough
	case r.Able != nil, !r.Refused:
		return coordinator.ReasonNone, ""
	case r.Lacks.Permanent:
		d.Agent = ""
		return coordinator.ReasonExceedsQuota, r.Lacks.Describe()
	}
	d.Lacks = r.Lacks.Lack()
	return coordinator.ReasonQuotaExhausted, d.Lacks.Text
}

// lackOf returns what quota keeps the task waiting, or would. What it lacks counts only where no agent is able.
func (q Questions) lackOf(now time.Time, t, open *state.Task) admission.Refusal {
	if q.s.QuotaDemand(t) == nil || open != nil && open.Quota != nil && open.Quota.Open { // it has what it needs
		return admission.Refusal{}
	}
	if w := q.s.WaitOf(open); w != nil {
		return admission.Refusal{Refused: true, Lacks: w.Lacks}
	}
	r := q.s.Quotas.Able(now, t.Task, t.Quota, q.s.Takers(t), false)
	never := r.Able == nil && r.Refused && r.Lacks.Permanent
	if open == nil && !never && q.s.WaitsForQuota(t) {
		return admission.Refusal{Refused: true, Lacks: q.s.WaitAt(t.Needs.Class, q.s.LeafOf(t)).Lacks}
	}
	return r
}

// explainModels adds to how a task would be decided how each of its models stands now. If it would wait behind
// another task, it adds how they stand for that task instead; they are the same models: the explanation says what
// each must have again first.
func (q Questions) explainModels(now time.Time, t *state.Task, d *coordinator.Decision) {
	routes := q.s.Quotas.Routes(t.Task)
	if routes == nil || q.s.QuotaDemand(t) == nil {
		return
	}
	if w := q.s.WaitAt(t.Needs.Class, q.s.LeafOf(t)); d.Lacks != nil && w != nil {
		t = w.Task.(*state.Task)
	}
	d.Models = q.s.Quotas.Choose(now, t.Task, d.Agent, routes, false).Models
}

// Capabilities reports demand and supply of every capability that the fleet
// offers or waiting tasks require, sorted by name.
func (q Questions) Capabilities(now time.Time) []coordinator.CapabilitySnapshot {
	waiting := make(map[string]fleet.Waiting)
	for c := range q.s.Pending.All() { // order does not matter: it is a sum
		for _, name := range c.Required {
			w := waiting[name]
			waiting[name] = fleet.Waiting{Tasks: w.Tasks + c.Waiting.Len(), Asked: w.Asked + c.Asked}
		}
	}
	list := q.s.Fleet.Capabilities(now, waiting)
	for i := range list {
		if set, name := q.s.Fleet.Index.Offering[list[i].Name], list[i].Name; set != nil {
			q.s.Fleet.Supply(&list[i], q.s.Ejections.Usable(set, []string{name}))
		}
	}
	return list
}
