package engine

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/pull"
)

// How long a plan is used for later claims. One looks at every agent: with one for each
// task, 10,000 agents that claim would share 200 tasks a second.
const (
	// plansAge is how old it may be.
	plansAge = 100 * time.Millisecond
	// plansPart is of how many of its agents one may be granted something by it: its parts are off by
	// less than an item for so many. A smaller fleet has a new plan each time.
	plansPart = 128
)

// claimPlans are the plans that may be used again, by the classes that an agent reaches of those
// that waited then.
type claimPlans struct {
	classes []*class
	of      map[string]*claimPlan
	round   uint64 // how often claims have been served
}

type claimPlan struct {
	*pull.Plan
	round uint64 // in which it was made; 0: something was given since that it does not know of
	made  time.Time
	left  int // for how many claims of later rounds it is good
}

// sharedPlan is the plan for the agent's claim; former: it was made in an earlier round.
func (e *Engine) sharedPlan(now time.Time, key string, a *agent) (p *pull.Plan, former bool) {
	plans := &e.claims.plans
	if !slices.Equal(plans.classes, e.pending.active) {
		plans.of = nil
	}
	switch one := plans.of[key]; {
	case one == nil:
	case one.round == plans.round:
		return one.Plan, false
	case one.left > 0 && now.Sub(one.made) < plansAge:
		one.left--
		one.Renew(e.inPlan(now, a), e.claimable(a))
		return one.Plan, true
	}
	return e.newPlan(now, key, a), false
}

// newPlan makes the plan for those that reach the same classes as the agent.
func (e *Engine) newPlan(now time.Time, key string, a *agent) *pull.Plan {
	plans := &e.claims.plans
	if plans.of == nil {
		plans.classes, plans.of = slices.Clone(e.pending.active), make(map[string]*claimPlan)
	}
	maps.DeleteFunc(plans.of, func(_ string, p *claimPlan) bool { return p.round != plans.round && now.Sub(p.made) >= plansAge })
	p := e.plan(now, a)
	plans.of[key] = &claimPlan{Plan: p, round: plans.round, made: now, left: p.Agents / plansPart}
	return p
}

// given notes that something was given by the plan of that key; if that does not know of it, the
// plan is not good for another claim either: others may share what was given.
func (c *claims) given(key string, known bool) {
	for other, p := range c.plans.of { // order does not matter
		if other != key || !known {
			p.round = 0
		}
	}
}

// reach names the waiting classes that the agent could serve: those who reach the same
// share one plan.
func (e *Engine) reach(a *agent) string {
	key := make([]byte, len(e.pending.active))
	for i, c := range e.pending.active {
		if c.usable.has(a.number) {
			key[i] = 1
		}
	}
	return string(key)
}

// plan divides the work that the agent could have among those who claim and could have
// some of it, too, by their capabilities and their own quotas. While nothing waits for it,
// everybody shares.
func (e *Engine) plan(now time.Time, of *agent) *pull.Plan {
	f, sharing := pull.Fleet{}, newBitset(len(e.fleet.agents))
	for _, c := range e.pending.active {
		if of.number >= 0 && c.usable.has(of.number) {
			f.Unclaimed += c.servable()
			sharing.add(c.usable)
		}
	}
	f.Agents = make([]pull.Agent, 0, max(len(e.claims.waiting), 16))
	for _, a := range e.fleet.agents {
		if a.claimed.IsZero() || a.spec.Pull == coordinator.PullOff || f.Unclaimed > 0 && !sharing.has(a.number) || e.fleet.presence(a) != coordinator.Eligible {
			continue
		}
		if a != of && f.Unclaimed > 0 && !e.affordsSome(now, a, of) { // a part that it could not take would be kept for it
			continue
		}
		f.Agents = append(f.Agents, e.inPlan(now, a))
	}
	return pull.NewPlan(now, f, pull.Settings{})
}

// inPlan is the agent as plans see it.
func (e *Engine) inPlan(now time.Time, a *agent) pull.Agent {
	one := pull.Agent{ID: a.spec.ID, Capacity: a.claim.Capacity, Pending: a.inFlight() + a.others, Free: a.free(), Seen: a.claimed}
	if a.claiming {
		one.Seen = now
	}
	if one.Capacity == 0 && !a.capacity.WarmUp() {
		one.Capacity = a.capacity.Estimate(now)
	}
	return one
}

// affordsSome tells whether there is quota for giving the agent the first task of some class that
// another shares with it. Only where agents have quota of their own does that depend on the agent.
func (e *Engine) affordsSome(now time.Time, a, other *agent) bool {
	if len(e.quotas.byAgent[""]) == 0 {
		return true
	}
	return slices.ContainsFunc(e.pending.active, func(c *class) bool {
		t := c.first()
		return t != nil && c.usable.has(a.number) && c.usable.has(other.number) && e.affordable(now, t, a.spec.ID)
	})
}
