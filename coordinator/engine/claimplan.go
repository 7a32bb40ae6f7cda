package engine

import (
	"encoding/binary"
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

// claimPlans are the plans that may be used again, by the waiting classes that an agent reaches: a
// plan depends on no others.
type claimPlans struct {
	of    map[string]*claimPlan
	round uint64 // how often claims have been served
}

type claimPlan struct {
	*pull.Plan
	classes []*class // that those it is for reach
	round   uint64   // in which it was made; 0: something was given since that it does not know of
	made    time.Time
	left    int // how many claims of later rounds may be granted something by it
}

// sharedPlan is the plan for the agent's claim: of this round, or a former one that is good yet.
func (e *Engine) sharedPlan(now time.Time, a *agent, mayBeFormer bool) *claimPlan {
	plans := &e.claims.plans
	switch p := plans.of[e.reach(a)]; {
	case p == nil:
	case p.round == plans.round:
		return p
	case mayBeFormer && p.left > 0 && now.Sub(p.made) < plansAge:
		p.Renew(e.inPlan(now, a), e.claimable(a))
		return p
	}
	return e.newPlan(now, a)
}

// toldPlan is the plan that an answer tells of that grants nothing by it: any that is not too old, where
// the fleet is large.
func (e *Engine) toldPlan(now time.Time, a *agent) *pull.Plan {
	p := e.claims.plans.of[e.reach(a)]
	if p == nil || p.Agents < plansPart || now.Sub(p.made) >= plansAge {
		return e.newPlan(now, a).Plan
	}
	p.Renew(e.inPlan(now, a), e.claimable(a))
	return p.Plan
}

// newPlan makes the plan for those that reach the same classes as the agent.
func (e *Engine) newPlan(now time.Time, a *agent) *claimPlan {
	plans := &e.claims.plans
	if plans.of == nil {
		plans.of = make(map[string]*claimPlan)
	}
	maps.DeleteFunc(plans.of, func(_ string, p *claimPlan) bool {
		return p.round != plans.round && now.Sub(p.made) >= plansAge
	})
	p := &claimPlan{Plan: e.plan(now, a), round: plans.round, made: now}
	p.left = p.Agents / plansPart
	for _, c := range e.pending.active {
		if a.number >= 0 && c.usable.has(a.number) {
			p.classes = append(p.classes, c)
		}
	}
	plans.of[e.reach(a)] = p
	return p
}

// good tells whether the plan may be asked for another claim of the agent: it is not too old, and the
// agent reaches the same classes.
func (p *claimPlan) good(e *Engine, now time.Time, a *agent) bool {
	if p == nil || p.left == 0 || now.Sub(p.made) >= plansAge {
		return false
	}
	n := 0
	for _, c := range e.pending.active {
		if c.usable.has(a.number) {
			if n == len(p.classes) || p.classes[n] != c {
				return false
			}
			n++
		}
	}
	return n == len(p.classes)
}

// given notes that something was given by that plan; if that does not know of it, the plan is not
// good for another claim of its round either: others may share what was given.
func (c *claims) given(by *claimPlan, known bool) {
	if by.round != c.plans.round {
		by.left--
	}
	for _, p := range c.plans.of { // order does not matter
		if p != by || !known {
			p.round = 0
		}
	}
}

// reach names the waiting classes that the agent could serve: those who reach the same
// share one plan.
func (e *Engine) reach(a *agent) string {
	if a.number < 0 {
		return ""
	}
	var key []byte
	for _, c := range e.pending.active {
		if c.usable.has(a.number) {
			key = append(binary.AppendUvarint(key, uint64(len(c.key))), c.key...)
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
	f.Agents = make([]pull.Agent, 0, max(e.claims.waiting.Len(), 16))
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
