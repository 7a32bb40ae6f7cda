package engine

import (
	"encoding/binary"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/claims"
	"taskbus/coordinator/pull"
)

// Agents that claim their tasks themselves. Package claims keeps what waits to be granted something, and
// the plans. Here is what there is to give, the order in which it is given, and what is answered.

// The line's objects, by the kernel's agents and classes.
type (
	seat      = claims.Seat[*class]
	claimPlan = claims.Plan[*class]
	reach     = claims.Reach[*class]
)

const (
	// pulledBy is the strategy that a decision names when an agent has claimed the task.
	pulledBy = "pull"
	// claimsAgain is how often claims that wait are looked at while there is work: parts of agents that
	// have ceased to ask lapse.
	claimsAgain = time.Second
)

// claiming is an agent's claim.
type claiming struct {
	seat     seat
	claimEnd timer
}

// claimLine is the claims that wait for work.
type claimLine struct {
	claims.Line[*agent, *class]
	pullers agentset.Set // the agents that claim at all
	again   timer        // when to look again although nothing has happened
	spare   []*class     // room for a reach
	key     []byte       // room for its key
}

// claimReceived answers a claim, or lets it wait for work.
func (e *Engine) claimReceived(now time.Time, ev coordinator.ClaimReceived) {
	a := e.fleet.byID[ev.Agent]
	if a == nil || a.spec.Pull == coordinator.PullOff {
		e.emit(coordinator.ClaimAnswered{
			Agent: ev.Agent, ClaimID: ev.ClaimID, Limit: pull.LimitUnknownAgent.String(), Token: ev.Token,
		})
		return
	}
	if a.seat.Waits() { // the agent has given that one up
		e.answerClaim(a, e.toldPlan(now, a), pull.Grant{Limit: pull.LimitSuperseded})
	}
	e.claims.Add(now, a, a.number, &a.seat, ev, a.inFlight())
	e.serveQuotas(now) // there may be quota for a task that only this agent could serve
	e.serveClaims(now)
	switch {
	case !a.seat.Waits():
	case ev.Wait > 0:
		e.timers.schedule(&a.claimEnd, now.Add(ev.Wait))
	default:
		e.claimOver(now, a)
	}
}

// claimOver answers a claim that nothing can be given to in its time.
func (e *Engine) claimOver(now time.Time, a *agent) {
	e.claims.Changed()
	if e.serveClaims(now); !a.seat.Waits() {
		return // something came at the same moment
	}
	p := e.toldPlan(now, a)
	grant := pull.Grant{Limit: e.limit(a, e.reach(a.number)), FairShare: p.FairShare(a.spec.ID)}
	if grant.Limit == pull.LimitNone {
		grant.Limit = pull.LimitFairShare
	}
	e.answerClaim(a, p, grant)
}

// limit is what keeps an agent from being granted anything of what it reaches, but for its fair part.
func (e *Engine) limit(a *agent, r reach) pull.Limit {
	switch {
	case !e.connected || e.fleet.presence(a) != coordinator.Eligible || a.queueMissing || a.queueFull:
		return pull.LimitUnavailable
	case a.free() == 0:
		return pull.LimitSlots
	case r.Tasks > 0:
		return pull.LimitNone
	case e.ejectedFromAll(a):
		return pull.LimitUnavailable
	}
	return pull.LimitUnclaimed
}

// ejectedFromAll reports whether something waits that the agent could do, but that it is not trusted with.
func (e *Engine) ejectedFromAll(a *agent) bool {
	return slices.ContainsFunc(e.pending.active, func(c *class) bool {
		return c.feasible.Has(a.number) && !c.usable.Has(a.number)
	})
}

// reach is what waits that the agent of that number could have. It is good until the next call.
func (e *Engine) reach(number int) reach {
	if number < 0 { // it has left the fleet
		return reach{}
	}
	of, tasks := e.claims.spare[:0], 0
	for _, c := range e.pending.active {
		if c.usable.Has(number) {
			of = append(of, c)
			tasks += c.servable()
		}
	}
	if cap(of) > cap(e.claims.spare) {
		e.claims.spare = of
	}
	return reach{Classes: of, Tasks: tasks}
}

// reachKey names what is reached: agents that reach the same classes share one plan. It is good until the next call.
func (e *Engine) reachKey(r reach) []byte {
	key := e.claims.key[:0]
	for _, c := range r.Classes {
		key = append(binary.AppendUvarint(key, uint64(len(c.key))), c.key...)
	}
	e.claims.key = key
	return key
}

// serveClaims gives what waits to the agents that have asked for it, first come, first served.
func (e *Engine) serveClaims(now time.Time) {
	if !e.claims.Due() {
		return
	}
	e.claims.Begin()
	if e.nothingToClaim() {
		return
	}
	left, former := e.serveLine(now, true)
	if former { // there may be more for them by now
		left, _ = e.serveLine(now, false)
	}
	if left {
		e.timers.schedule(&e.claims.again, now.Add(claimsAgain))
	}
}

// serveLine asks through the claims that wait, by plans of earlier rounds, too, or by new ones alone. It
// reports whether any of them is left that could have some of what is left, and whether a former plan said
// that.
func (e *Engine) serveLine(now time.Time, formers bool) (left, former bool) {
	places := e.claims.Places()
	for i := range places {
		at := &places[i] // the agent of a claim that is passed over is not looked at
		if at.Gone() {
			continue
		}
		if e.nothingToClaim() { // all has been given out: for the others nothing is left to find
			return left, false
		}
		// Once as long as nothing is given out: if the claim gets nothing, these tasks wait again as they
		// did, and would be looked at for it for ever.
		if moment := e.applied + e.quotas.given; at.Tried != moment { // neither ever falls
			at.Tried = moment
			e.retryOwn(int(at.Number))
		}
		a := at.Agent
		s := &a.seat
		if t := e.claimAlone(a); t != nil {
			p := e.toldPlan(now, a)
			e.leavePending(t)
			if e.assign(now, t, a, e.noChoice(pulledBy, a)) {
				grant := pull.Grant{Items: 1}
				if s.Claim.MaxItems > 1 {
					grant.Limit = pull.LimitUnavailable // it is to have nothing beside it
				}
				e.answerClaim(a, p, grant)
				continue
			}
		}
		r := e.reach(int(at.Number))
		switch {
		case r.Tasks == 0: // most often, where agents differ in what they can do
			continue
		case formers && at.HasEnough(now, r):
			left, former = true, true
			continue
		case e.limit(a, r) != pull.LimitNone:
			continue
		}
		p := e.planFor(now, a, r, formers)
		grant := s.Grant(p, a.spec.Pull == coordinator.PullLiteral, r.Tasks, a.free())
		if got := e.yield(now, a, grant.Items); got > 0 {
			if grant.Items = got; got < s.Claim.MaxItems && grant.Limit == pull.LimitNone {
				grant.Limit = pull.LimitUnavailable // it is on trial, and has had its one task
			}
			e.answerClaim(a, p, grant)
			e.claims.Granted(p, a.spec.Pull == coordinator.PullShared)
			continue
		}
		left = true
		if grant.Items == 0 {
			at.SetEnough(p)
			former = former || e.claims.Former(p)
		}
	}
	return left, former
}

// nothingToClaim reports whether no task waits for an agent.
func (e *Engine) nothingToClaim() bool {
	return len(e.pending.active) == 0 && len(e.isolated.groups) == 0
}

// wanted notes that a task waits that some agent may claim.
func (e *Engine) wanted(c *class) {
	if e.claims.Len() > 0 && !e.claims.Due() && c.usable.First(e.claims.pullers) >= 0 {
		e.claims.Changed()
	}
}

// yield dispatches so many of the waiting tasks to the agent, those that go first before the others, and
// returns how many they were: an agent on trial gets one.
func (e *Engine) yield(now time.Time, a *agent, n int) (given int) {
	next := e.line(a)
	defer next.end()
	for given < n {
		c, t := next.take()
		if t == nil {
			return given
		}
		if !c.usable.Has(a.number) {
			continue
		}
		e.leavePending(t)
		if e.assign(now, t, a, e.noChoice(pulledBy, a)) {
			given++
		}
		next.back(c)
	}
	return given
}

// planFor is the plan for the agent's claim: of this round, or a former one that is good yet.
func (e *Engine) planFor(now time.Time, a *agent, r reach, formers bool) *claimPlan {
	key := e.reachKey(r)
	p, renew := e.claims.Plan(now, key, formers)
	switch {
	case p == nil:
		return e.newPlan(now, a, r, key)
	case renew:
		p.Renew(e.member(now, a), r.Tasks)
	}
	return p
}

// toldPlan is the plan that an answer tells of that grants nothing by it.
func (e *Engine) toldPlan(now time.Time, a *agent) *claimPlan {
	r := e.reach(a.number)
	key := e.reachKey(r)
	p := e.claims.Told(now, key)
	if p == nil {
		return e.newPlan(now, a, r, key)
	}
	p.Renew(e.member(now, a), r.Tasks)
	return p
}

// newPlan divides the work that the agent could have among the agents that claim and could have some of it,
// too, by their capabilities and their own quotas. While nothing waits for it, all share.
func (e *Engine) newPlan(now time.Time, of *agent, r reach, key []byte) *claimPlan {
	f, sharing := pull.Fleet{Unclaimed: r.Tasks}, agentset.New(len(e.fleet.agents))
	for _, c := range r.Classes {
		sharing.Unite(c.usable)
	}
	f.Agents = make([]pull.Agent, 0, max(e.claims.Len(), 16))
	for i, a := range e.fleet.agents {
		if f.Unclaimed > 0 && !sharing.Has(i) { // said first: most often that is all that is read of an agent
			continue
		}
		if !a.seat.Claimed() || a.spec.Pull == coordinator.PullOff || e.fleet.presence(a) != coordinator.Eligible {
			continue
		}
		if a != of && f.Unclaimed > 0 && !e.affordsSome(now, a, r) { // a part that it could not take would be kept for it
			continue
		}
		f.Agents = append(f.Agents, e.member(now, a))
	}
	return e.claims.NewPlan(now, key, r.Classes, f)
}

// member is the agent as plans see it.
func (e *Engine) member(now time.Time, a *agent) pull.Agent {
	m := a.seat.Member(now, a.inFlight(), a.free())
	if m.Capacity == 0 && !a.capacity.WarmUp() {
		m.Capacity = a.capacity.Estimate(now)
	}
	return m
}

// affordsSome reports whether there is quota for giving the agent the first task of some class that another
// reaches, too. Only where agents have quota of their own does that depend on the agent.
func (e *Engine) affordsSome(now time.Time, a *agent, other reach) bool {
	if len(e.quotas.byAgent[""]) == 0 {
		return true
	}
	return slices.ContainsFunc(other.Classes, func(c *class) bool {
		t := c.first()
		return t != nil && c.usable.Has(a.number) && e.affordable(now, t, a.spec.ID)
	})
}

// answerClaim ends a claim.
func (e *Engine) answerClaim(a *agent, p *claimPlan, g pull.Grant) {
	ev := &a.seat.Claim
	e.emit(coordinator.ClaimAnswered{
		Agent: a.spec.ID, ClaimID: ev.ClaimID, Granted: g.Items, Limit: g.Limit.String(), Token: ev.Token,
		Fleet: coordinator.PullFleet{
			Agents: p.Agents, Pending: p.Pending(), Unclaimed: p.Unclaimed(), Capacity: p.Capacity, Target: p.Target,
			FairShare: g.FairShare,
		},
	})
	e.endClaim(a)
}

// drainClaims answers all claims that wait: nothing more is given out in this session.
func (e *Engine) drainClaims(now time.Time) {
	for a := range e.claims.All() {
		e.answerClaim(a, e.toldPlan(now, a), pull.Grant{Limit: pull.LimitUnavailable})
	}
}

// endClaim forgets a claim, answered or not.
func (e *Engine) endClaim(a *agent) {
	e.timers.cancel(&a.claimEnd)
	e.claims.Remove(&a.seat)
}

// endClaims forgets all that wait: their session ends.
func (e *Engine) endClaims() {
	for a := range e.claims.All() {
		e.endClaim(a)
	}
}

// forgetClaims tells the agents that claim to ask again if they wait: with the leader before, or in the
// session before, which is not known.
func (e *Engine) forgetClaims() {
	for _, a := range e.fleet.agents {
		if a.spec.Pull != coordinator.PullOff {
			e.emit(coordinator.ClaimsForgotten{Agent: a.spec.ID})
		}
	}
}

// under takes over the agents of another fleet that claim.
func (c *claimLine) under(f *fleet) {
	c.Reset()
	places := c.Places()
	for i := range places {
		if at := &places[i]; !at.Gone() {
			at.Number = int32(at.Agent.number)
		}
	}
	c.pullers = agentset.New(len(f.agents))
	for _, a := range f.agents {
		if a.spec.Pull != coordinator.PullOff {
			c.pullers.Add(a.number)
		}
	}
}

// claimsUnder answers the claims of agents that may not claim any more.
func (e *Engine) claimsUnder(now time.Time) {
	for a := range e.claims.All() {
		if a.number < 0 || a.spec.Pull == coordinator.PullOff {
			e.answerClaim(a, e.toldPlan(now, a), pull.Grant{Limit: pull.LimitUnknownAgent})
		}
	}
}
