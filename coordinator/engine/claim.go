package engine

import (
	"container/list"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/pull"
)

// Agents that claim their tasks themselves. Nothing is pushed to them: their tasks wait
// until one of them asks. Package pull knows how many it may have; here is what there is
// to give, and to whom it goes. A claim that finds nothing may wait for work.
//
// A claim is no record, as an auction is none: what it was granted are dispatches as any
// others, and an agent that hears nothing asks again.

// pulledBy is the strategy that a decision names when an agent has claimed the task.
const pulledBy = "pull"

// pulling is what is known of an agent that claims.
type pulling struct {
	claim    coordinator.ClaimReceived // the latest
	claiming bool                      // it has not been answered
	inLine   *list.Element             // its place in claims.waiting, while it claims
	enough   *claimPlan                // by which its latest claim was granted nothing; nil: by none
	claimed  time.Time                 // when it came; zero: never
	// others is how many items it said that it has beyond those that are known to be
	// with it.
	others   int
	claimEnd timer
	// retried is the moment at which those were last looked at again for its claim who could have
	// quota with it, though not with others.
	retried turn
}

// turn is a moment within an Apply: so many events have come, and so much was given out.
type turn struct{ applied, given uint64 }

// claims are those that wait for work.
type claims struct {
	waiting list.List // of *agent, in the order in which they came
	pullers bitset    // which agents claim at all
	// stale: something has changed by which a claim may be given something: a task waits
	// that its agent could have, a slot has become free, or a part has lapsed.
	stale bool
	again timer // when to look again although nothing has happened
	plans claimPlans
}

// claimsAgain is how often claims are looked at that wait while there is work: parts of
// agents that have ceased to ask lapse.
const claimsAgain = time.Second

// claimReceived answers a claim, or lets it wait for work.
func (e *Engine) claimReceived(now time.Time, ev coordinator.ClaimReceived) {
	a := e.fleet.byID[ev.Agent]
	if a == nil || a.spec.Pull == coordinator.PullOff {
		e.emit(coordinator.ClaimAnswered{Agent: ev.Agent, ClaimID: ev.ClaimID, Limit: pull.LimitUnknownAgent.String(), Token: ev.Token})
		return
	}
	if a.claiming { // it has given that one up
		e.answerClaim(a, e.toldPlan(now, a), pull.Grant{Limit: pull.LimitSuperseded})
	}
	a.claim, a.claiming, a.claimed, a.enough = ev, true, now, nil
	a.others = max(0, ev.Pending-a.inFlight())
	a.inLine, e.claims.stale = e.claims.waiting.PushBack(a), true
	e.serveQuotas(now) // there may be quota for which somebody waits whom only it could serve
	e.serveClaims(now)
	switch {
	case !a.claiming:
	case ev.Wait > 0:
		e.timers.schedule(&a.claimEnd, now.Add(ev.Wait))
	default:
		e.claimOver(now, a)
	}
}

// claimOver answers a claim that nothing can be given to in its time.
func (e *Engine) claimOver(now time.Time, a *agent) {
	e.claims.stale = true
	if e.serveClaims(now); !a.claiming {
		return // what came in the same moment
	}
	p := e.toldPlan(now, a)
	grant := pull.Grant{Limit: e.limit(a), FairShare: p.FairShare(a.spec.ID)}
	if grant.Limit == pull.LimitNone {
		grant.Limit = pull.LimitFairShare
	}
	e.answerClaim(a, p, grant)
}

// limit is what keeps an agent from being granted anything, but for its fair part.
func (e *Engine) limit(a *agent) pull.Limit {
	switch {
	case !e.connected || e.fleet.presence(a) != coordinator.Eligible || a.queueMissing || a.queueFull:
		return pull.LimitUnavailable
	case a.free() == 0:
		return pull.LimitSlots
	case e.claimable(a) > 0:
		return pull.LimitNone
	case e.ejectedFromAll(a):
		return pull.LimitUnavailable
	}
	return pull.LimitUnclaimed
}

// ejectedFromAll tells whether something waits that the agent could do, but that it is not
// trusted with.
func (e *Engine) ejectedFromAll(a *agent) bool {
	return slices.ContainsFunc(e.pending.active, func(c *class) bool { return c.feasible.has(a.number) && !c.usable.has(a.number) })
}

// claimable counts the waiting tasks that the agent could have.
func (e *Engine) claimable(a *agent) (n int) {
	if a.number < 0 { // it has left the fleet
		return 0
	}
	for _, c := range e.pending.active {
		if c.usable.has(a.number) {
			n += c.servable()
		}
	}
	return n
}

// serveClaims gives what waits to those who have asked for it, first come, first served.
func (e *Engine) serveClaims(now time.Time) {
	c := &e.claims
	if !c.stale || c.waiting.Len() == 0 {
		return
	}
	c.stale = false
	if e.nothingToClaim() {
		return
	}
	c.plans.round++
	left, former := e.serveLine(now, true)
	if former { // there may be more for them by now
		left, _ = e.serveLine(now, false)
	}
	if left {
		e.timers.schedule(&c.again, now.Add(claimsAgain))
	}
}

// serveLine asks through those that claim, by plans of earlier rounds, too, or by new ones alone. It
// tells whether any of them is left that could have some of what is left, and whether that was said
// by a former plan.
func (e *Engine) serveLine(now time.Time, mayUseFormer bool) (left, former bool) {
	c := &e.claims
	for at := c.waiting.Front(); at != nil; {
		a := at.Value.(*agent)
		at = at.Next()          // a claim that is answered leaves the line
		if e.nothingToClaim() { // all has been given out: for the others nothing is left to find
			return left, false
		}
		// Once as long as nothing is given out: if the claim gets nothing, they wait again as they
		// did, and would be looked at for it for ever.
		if at := (turn{e.applied, e.quotas.given}); a.retried != at {
			a.retried = at
			e.retryOwn(a)
		}
		if t := e.claimAlone(a); t != nil {
			p := e.toldPlan(now, a)
			e.leavePending(t)
			if e.assign(now, t, a, e.noChoice(pulledBy, a)) {
				grant := pull.Grant{Items: 1}
				if a.claim.MaxItems > 1 {
					grant.Limit = pull.LimitUnavailable // it is to have nothing beside it
				}
				e.answerClaim(a, p, grant)
				continue
			}
		}
		switch {
		case e.claimable(a) == 0: // most often, where agents differ in what they can do
			continue
		case mayUseFormer && a.enough.good(e, now, a):
			left, former = true, true
			continue
		case e.limit(a) != pull.LimitNone:
			continue
		}
		p := e.sharedPlan(now, a, mayUseFormer)
		grant := e.grant(p.Plan, a)
		if got := e.yield(now, a, grant.Items); got > 0 {
			if grant.Items = got; got < a.claim.MaxItems && grant.Limit == pull.LimitNone {
				grant.Limit = pull.LimitUnavailable // it is on trial, and has had its one task
			}
			e.answerClaim(a, p.Plan, grant)
			c.given(p, a.spec.Pull == coordinator.PullShared)
			continue
		}
		left = true
		if grant.Items == 0 {
			a.enough, former = p, former || p.round != c.plans.round
		}
	}
	return left, former
}

// nothingToClaim tells whether no task waits for an agent.
func (e *Engine) nothingToClaim() bool {
	return len(e.pending.active) == 0 && len(e.isolated.groups) == 0
}

// wanted notes that a task waits which somebody may claim.
func (e *Engine) wanted(c *class) {
	if e.claims.waiting.Len() > 0 && !e.claims.stale {
		e.claims.stale = c.usable.first(e.claims.pullers) >= 0
	}
}

// all are those that wait, in order.
func (c *claims) all() []*agent {
	list := make([]*agent, 0, c.waiting.Len())
	for at := c.waiting.Front(); at != nil; at = at.Next() {
		list = append(list, at.Value.(*agent))
	}
	return list
}

// endClaim forgets a claim, answered or not.
func (e *Engine) endClaim(a *agent) {
	a.claiming = false
	e.timers.cancel(&a.claimEnd)
	if a.inLine != nil {
		e.claims.waiting.Remove(a.inLine)
		a.inLine, a.enough = nil, nil
	}
}

// endClaims forgets all that wait: their session ends.
func (e *Engine) endClaims() {
	for _, a := range e.claims.all() {
		e.endClaim(a)
	}
}

// forgetClaims has those who pull told that whoever waits should ask again: with the
// leader before, or in the session before, and nobody knows.
func (e *Engine) forgetClaims() {
	for _, a := range e.fleet.agents {
		if a.spec.Pull != coordinator.PullOff {
			e.emit(coordinator.ClaimsForgotten{Agent: a.spec.ID})
		}
	}
}

// under takes over who claims in another fleet.
func (c *claims) under(f *fleet) {
	c.pullers, c.stale, c.plans.of = newBitset(len(f.agents)), true, nil
	for _, a := range f.agents {
		if a.spec.Pull != coordinator.PullOff {
			c.pullers.set(a.number)
		}
	}
}

// claimsUnder answers those who may not claim any more.
func (e *Engine) claimsUnder(now time.Time) {
	for _, a := range e.claims.all() {
		if a.number < 0 || a.spec.Pull == coordinator.PullOff {
			e.answerClaim(a, e.toldPlan(now, a), pull.Grant{Limit: pull.LimitUnknownAgent})
		}
	}
}
