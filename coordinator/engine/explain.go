package engine

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
)

// explain makes a full pass over the fleet and counts why each agent may not
// have the task. It is only done for refusals and for people who ask.
func (e *Engine) explain(now time.Time, t *openTask) *coordinator.Decision {
	d := &coordinator.Decision{Strategy: t.needs.strategy.Name, Fleet: len(e.fleet.Agents)}
	missing := make(map[string]int)
	var nearest coordinator.Refusal
	e.judge(t, missing, func(a *agent, why coordinator.Ineligibility) {
		if why == coordinator.Eligible {
			d.Eligible++
			return
		}
		d.Refused[why]++
		if why == coordinator.Pulling && a.seat.Waits() {
			d.Claiming++
		}
		if why == coordinator.Unscored && d.UnscoredWhy == "" {
			d.UnscoredWhy = e.question(t).Why(a.Number)
		}
		if r := e.refusal(now, a, why); nearer(&r, &nearest) {
			nearest = r
		}
	})
	if nearest.Agent != "" {
		d.Nearest = &nearest
	}
	d.Missing = mostMissing(missing)
	return d
}

// judge tells of every agent, in the order of their numbers, why it may not have
// the task. missing counts the agents that lack each required capability.
func (e *Engine) judge(t *openTask, missing map[string]int, tell func(*agent, coordinator.Ineligibility)) {
	q, asked := e.question(t), t.askedOf()
	for i, a := range e.fleet.Agents {
		why := e.ineligibility(a, t, &asked)
		if why == coordinator.LacksCapability {
			for _, c := range asked.Required {
				if !criteria.Offers(&a.Spec, c) {
					missing[c]++
				}
			}
		}
		if why == coordinator.Eligible && q.Key(i).Unscored() {
			why = coordinator.Unscored
		}
		tell(a, why)
	}
}

// detail adds every agent to an explanation, bounded.
func (e *Engine) detail(now time.Time, t *openTask, d *coordinator.Decision) {
	q := e.question(t)
	d.Terms, d.Scored = q.Strategy.Terms, q.Strategy.Scored
	var eligible []int
	e.judge(t, make(map[string]int), func(a *agent, why coordinator.Ineligibility) {
		if why == coordinator.Eligible {
			eligible = append(eligible, a.Number)
			return
		}
		d.Refusals = append(d.Refusals, e.refusal(now, a, why))
	})
	keys := make(map[int]coordinator.Key, len(eligible))
	for _, i := range eligible {
		keys[i] = q.Key(i)
	}
	slices.SortFunc(eligible, func(i, j int) int {
		if q.Fleet.Better(i, keys[i], j, keys[j]) {
			return -1
		}
		return 1
	})
	eligible = eligible[:min(len(eligible), coordinator.MaxExplained)]
	d.Candidates = make([]coordinator.Candidate, len(eligible))
	for n, i := range eligible {
		q.Candidate(&d.Candidates[n], i, keys[i])
	}
	slices.SortStableFunc(d.Refusals, func(a, b coordinator.Refusal) int {
		switch {
		case nearer(&a, &b):
			return -1
		case nearer(&b, &a):
			return 1
		}
		return cmp.Compare(b.Why, a.Why)
	})
	d.Refusals = d.Refusals[:min(len(d.Refusals), coordinator.MaxExplained)]
}

func mostMissing(missing map[string]int) []coordinator.MissingCapability {
	list := make([]coordinator.MissingCapability, 0, len(missing))
	for c, n := range missing {
		list = append(list, coordinator.MissingCapability{Capability: c, Agents: n})
	}
	slices.SortFunc(list, func(a, b coordinator.MissingCapability) int {
		return cmp.Or(cmp.Compare(b.Agents, a.Agents), cmp.Compare(a.Capability, b.Capability))
	})
	return list
}

// refusal says why an agent may not have the task, and of a full one when it is
// expected to have a slot.
func (e *Engine) refusal(now time.Time, a *agent, why coordinator.Ineligibility) coordinator.Refusal {
	r := coordinator.Refusal{Agent: a.Spec.ID, Why: why}
	if why == coordinator.Full {
		r.FreeIn = e.freeIn(now, a)
	}
	return r
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

// nearer says whether refusal a is closer to eligible than b. The later a
// criterion is tested, the closer the agent came; of two full agents the one that
// will have a slot sooner. One that cannot have the task at all is never "near".
func nearer(a, b *coordinator.Refusal) bool {
	if a.Why.Lasting() {
		return false
	}
	if a.Why != b.Why {
		return a.Why > b.Why
	}
	return a.FreeIn > 0 && (b.FreeIn == 0 || a.FreeIn < b.FreeIn)
}

// reasonOf turns the explanation of a refusal into the reason the task fails with
// when it can wait no longer, and its text. What nobody of the fleet offers is not
// out of reach where an agent that does may join: it is not online, no more is known.
func (e *Engine) reasonOf(d *coordinator.Decision, t *openTask) (coordinator.Reason, string) {
	reason, text := countedReason(d), d.Text()
	if reason == coordinator.ReasonNoEligibleAgents && d.Refused[coordinator.Unscored] == 0 &&
		e.joining.mayBring(t.askedOf()) {
		return coordinator.ReasonNoAgentsOnline, text + "; discovery admits agents that could take it, and none has joined"
	}
	return reason, text
}

// countedReason is the reason by the counts alone.
func countedReason(d *coordinator.Decision) coordinator.Reason {
	left := d.Fleet
	for _, reason := range ruledOut {
		for why, n := range d.Refused {
			if is := coordinator.Ineligibility(why); is.Reason() == reason && (is.Lasting() || is.Away()) {
				left -= n
			}
		}
		if left == 0 {
			return reason
		}
	}
	for why, n := range d.Refused {
		if is := coordinator.Ineligibility(why); n == left && !is.Lasting() && !is.Away() {
			return is.Reason()
		}
	}
	if d.Refused[coordinator.Pulling] > 0 { // they have free slots
		return coordinator.ReasonNotClaimed
	}
	return coordinator.ReasonAllAgentsAtCapacity
}

// ruledOut are the reasons that leave a task none of the agents: a reason is asked of those that the ones before it
// leave.
var ruledOut = [...]coordinator.Reason{
	coordinator.ReasonNoEligibleAgents, coordinator.ReasonRetriesExhausted, coordinator.ReasonNoAgentsOnline,
}

// askedOf is what a task that has been resolved asks of its agent.
func (t *openTask) askedOf() criteria.Needs {
	n := &t.needs
	return criteria.Needs{Task: t.task, Required: n.required, Barred: t.barredFrom(), Only: n.class.only}
}

// contains looks an agent up in a short list.
func contains(list []coordinator.AgentID, id coordinator.AgentID) bool {
	for _, x := range list {
		if x == id {
			return true
		}
	}
	return false
}
