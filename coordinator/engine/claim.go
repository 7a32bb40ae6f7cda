package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/claims"
	"taskbus/coordinator/pull"
)

// Agents that claim their tasks themselves. Package claims keeps what waits to be granted something, and
// says how much. Here is what there is to give, and the order in which it is given.

// The line's objects, by the kernel's agents and classes.
type (
	seat       = claims.Seat[*class]
	claimPlan  = claims.Plan[*class]
	claimPlace = claims.Place[*agent, *class]
	reach      = claims.Reach[*class]
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
}

// claimReceived answers a claim, or lets it wait for work.
func (e *Engine) claimReceived(now time.Time, ev coordinator.ClaimReceived) {
	a := e.fleet.ByID[ev.Agent]
	if a == nil || a.Spec.Pull == coordinator.PullOff {
		e.emit(coordinator.ClaimAnswered{
			Agent: ev.Agent, ClaimID: ev.ClaimID, Limit: pull.LimitUnknownAgent.String(), Token: ev.Token,
		})
		return
	}
	if a.seat.Waits() { // the agent has given that one up
		e.answerClaim(a, e.toldPlan(now, a), pull.Grant{Limit: pull.LimitSuperseded})
	}
	e.claims.Add(now, a, a.Number, &a.seat, ev, a.InFlight())
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
	grant := pull.Grant{Limit: (*claimView)(e).Limit(a, e.reach(a.Number)), FairShare: p.FairShare(a.Spec.ID)}
	if grant.Limit == pull.LimitNone {
		grant.Limit = pull.LimitFairShare
	}
	e.answerClaim(a, p, grant)
}

// claimView is what the line of claims reads of the engine.
type claimView Engine

func (e *claimView) Key(c *class) string { return c.Key }
func (e *claimView) Seat(a *agent) (*seat, coordinator.PullMode, int) {
	return &a.seat, a.Spec.Pull, a.Free()
}

func (e *claimView) Limit(a *agent, r reach) pull.Limit {
	switch {
	case !e.connected || e.fleet.PresenceOf(a) != coordinator.Eligible || a.QueueMissing || a.QueueFull:
		return pull.LimitUnavailable
	case a.Free() == 0:
		return pull.LimitSlots
	case r.Tasks > 0:
		return pull.LimitNone
	case slices.ContainsFunc(e.pending.Active(), func(c *waitingClass) bool { // it could do it, but is ejected
		return c.Of.criteria.Set.Has(a.Number) && !c.Usable.Has(a.Number)
	}):
		return pull.LimitUnavailable
	}
	return pull.LimitUnclaimed
}

// reach is what waits that the agent of that number could have. It is good until the next call.
func (e *Engine) reach(number int) reach {
	if number < 0 { // it has left the fleet
		return reach{}
	}
	of, tasks := e.claims.spare[:0], 0
	for _, c := range e.pending.Active() {
		if c.Usable.Has(number) {
			of = append(of, c.Of)
			tasks += c.Servable()
		}
	}
	if cap(of) > cap(e.claims.spare) {
		e.claims.spare = of
	}
	return reach{Classes: of, Tasks: tasks}
}

// serveClaims gives what waits to the agents that have asked for it, first come, first served.
func (e *Engine) serveClaims(now time.Time) {
	if !e.claims.Due() {
		return
	}
	for at := e.claims.Begin(); at != nil && !e.nothingToClaim(); at = e.claims.Next() {
		e.serveClaim(now, at)
	}
	if e.claims.Left() {
		e.timers.schedule(&e.claims.again, now.Add(claimsAgain))
	}
}

// serveClaim gives a claim what it is granted. The agent of one that is passed over is not looked at.
func (e *Engine) serveClaim(now time.Time, at *claimPlace) {
	if at.Try(e.applied + e.quotas.Given) {
		e.retryOwn(int(at.Number))
	}
	a := at.Agent
	if t := e.claimAlone(a); t != nil {
		p := e.toldPlan(now, a)
		e.leavePending(t)
		if e.assign(now, t, a, e.noChoice(pulledBy, a)) {
			grant := pull.Grant{Items: 1}
			if a.seat.Claim.MaxItems > 1 {
				grant.Limit = pull.LimitUnavailable // it is to have nothing beside it
			}
			e.answerClaim(a, p, grant)
			return
		}
	}
	grant, plan := e.claims.Ask(now, at, e.reach(int(at.Number)), (*claimView)(e))
	if plan == nil {
		return
	}
	got := e.yield(now, a, grant.Items)
	if grant, given := e.claims.Given(at, grant, plan, got, (*claimView)(e)); given {
		e.answerClaim(a, plan, grant)
	}
}

// nothingToClaim reports whether no task waits for an agent.
func (e *Engine) nothingToClaim() bool {
	return len(e.pending.Active()) == 0 && e.isolated.Empty()
}

// wanted notes that a task waits that some agent may claim.
func (e *Engine) wanted(c *class) {
	if e.claims.Len() > 0 && !e.claims.Due() && c.Usable.First(e.claims.pullers) >= 0 {
		e.claims.Changed()
	}
}

// yield dispatches up to n of the waiting tasks to the agent, in the order in which they are served, and returns
// how many it dispatched: an agent on trial gets one.
func (e *Engine) yield(now time.Time, a *agent, n int) (given int) {
	next := e.pending.LineOf(a.Number)
	defer next.End()
	for given < n {
		c, t, levels := next.Take()
		if c == nil {
			return given
		}
		if !c.Usable.Has(a.Number) {
			continue
		}
		e.leavePending(t)
		e.quotas.serving = levels
		if e.assign(now, t, a, e.noChoice(pulledBy, a)) {
			given++
		}
		e.quotas.serving = 0
		next.Back(c)
	}
	return given
}

// toldPlan returns the plan that is reported in an answer that grants no task by it.
func (e *Engine) toldPlan(now time.Time, a *agent) *claimPlan {
	return e.claims.Told(now, a, e.reach(a.Number), (*claimView)(e))
}

func (e *claimView) Sharers(now time.Time, of *agent, r reach) []pull.Agent {
	sharing := agentset.New(len(e.fleet.Agents))
	for _, c := range r.Classes {
		sharing.Unite(c.Usable)
	}
	agents := make([]pull.Agent, 0, max(e.claims.Len(), 16))
	for i, a := range e.fleet.Agents {
		if r.Tasks > 0 && !sharing.Has(i) { // said first: most often that is all that is read of an agent
			continue
		}
		if !a.seat.Claimed() || a.Spec.Pull == coordinator.PullOff || e.fleet.PresenceOf(a) != coordinator.Eligible {
			continue
		}
		// A part that it could not take would be reserved for it.
		if a == of || r.Tasks == 0 || (*Engine)(e).affordsSome(now, a, r) {
			agents = append(agents, e.Member(now, a))
		}
	}
	return agents
}

func (e *claimView) Member(now time.Time, a *agent) pull.Agent {
	m := a.seat.Member(now, a.InFlight(), a.Free())
	if m.Capacity == 0 && !a.Capacity.WarmUp() {
		m.Capacity = a.Capacity.Estimate(now)
	}
	return m
}

// affordsSome reports whether there is quota for giving the agent the first task of some class that another
// reaches, too. Only where agents have quota of their own does that depend on the agent.
func (e *Engine) affordsSome(now time.Time, a *agent, other reach) bool {
	if !e.quotas.AgentsDiffer("") {
		return true
	}
	return slices.ContainsFunc(other.Classes, func(c *class) bool {
		t := c.First()
		return t != nil && c.Usable.Has(a.Number) && e.affordable(now, t, a.Spec.ID)
	})
}

// answerClaim ends a claim.
func (e *Engine) answerClaim(a *agent, p *claimPlan, g pull.Grant) {
	e.emit(p.Answer(&a.seat, g))
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

// forgetClaims asks the agents that claim to ask again if they wait: their claims may have been made to the leader
// before, or in the session before, and are not known.
func (e *Engine) forgetClaims() {
	for _, a := range e.fleet.Agents {
		if a.Spec.Pull != coordinator.PullOff {
			e.emit(coordinator.ClaimsForgotten{Agent: a.Spec.ID})
		}
	}
}

// under takes over the agents of another fleet that claim.
func (c *claimLine) under(f *agents) {
	c.Reset(func(a *agent) int { return a.Number })
	c.pullers = agentset.New(len(f.Agents))
	for _, a := range f.Agents {
		if a.Spec.Pull != coordinator.PullOff {
			c.pullers.Add(a.Number)
		}
	}
}

// claimsUnder answers the claims of agents that may not claim any more.
func (e *Engine) claimsUnder(now time.Time) {
	for a := range e.claims.All() {
		if a.Number < 0 || a.Spec.Pull == coordinator.PullOff {
			e.answerClaim(a, e.toldPlan(now, a), pull.Grant{Limit: pull.LimitUnknownAgent})
		}
	}
}
