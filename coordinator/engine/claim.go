package engine

import (
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
	waiting []*agent // in the order in which they came
	pullers bitset   // who claims at all
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
		e.answerClaim(a, e.plan(now, a), pull.Grant{Limit: pull.LimitSuperseded})
	}
	a.claim, a.claiming, a.claimed = ev, true, now
	a.others = max(0, ev.Pending-a.inFlight())
	e.claims.waiting, e.claims.stale = append(e.claims.waiting, a), true
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
	p := e.plan(now, a)
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
	if !c.stale || len(c.waiting) == 0 {
		return
	}
	c.stale = false
	if e.nothingToClaim() {
		return
	}
	c.plans.round++
	left := false
	for _, a := range slices.Clone(c.waiting) {
		if e.nothingToClaim() { // all has been given out: for the others nothing is left to find
			break
		}
		// Once as long as nothing is given out: if the claim gets nothing, they wait again as they
		// did, and would be looked at for it for ever.
		if at := (turn{e.applied, e.quotas.given}); a.retried != at {
			a.retried = at
			e.retryOwn(a)
		}
		if t := e.claimAlone(a); t != nil {
			p := e.plan(now, a)
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
		if e.limit(a) != pull.LimitNone {
			continue
		}
		key := e.reach(a)
		p, former := e.sharedPlan(now, key, a)
		grant := e.grant(p, a)
		if grant.Items == 0 && former { // there may be more for it by now
			p = e.newPlan(now, key, a)
			grant = e.grant(p, a)
		}
		if got := e.yield(now, a, grant.Items); got > 0 {
			if grant.Items = got; got < a.claim.MaxItems && grant.Limit == pull.LimitNone {
				grant.Limit = pull.LimitUnavailable // it is on trial, and has had its one task
			}
			e.answerClaim(a, p, grant)
			e.claims.given(key, a.spec.Pull == coordinator.PullShared)
		} else {
			left = true
		}
	}
	if left {
		e.timers.schedule(&c.again, now.Add(claimsAgain))
	}
}

// nothingToClaim tells whether no task waits for an agent.
func (e *Engine) nothingToClaim() bool {
	return len(e.pending.active) == 0 && len(e.isolated.groups) == 0
}

// wanted notes that a task waits which somebody may claim.
func (e *Engine) wanted(c *class) {
	if len(e.claims.waiting) > 0 && !e.claims.stale {
		e.claims.stale = c.usable.first(e.claims.pullers) >= 0
	}
}

// endClaim forgets a claim, answered or not.
func (e *Engine) endClaim(a *agent) {
	a.claiming = false
	e.timers.cancel(&a.claimEnd)
	e.claims.waiting = slices.DeleteFunc(e.claims.waiting, func(other *agent) bool { return other == a })
}

// endClaims forgets all that wait: their session ends.
func (e *Engine) endClaims() {
	for _, a := range slices.Clone(e.claims.waiting) {
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
	for _, a := range slices.Clone(e.claims.waiting) {
		if a.number < 0 || a.spec.Pull == coordinator.PullOff {
			e.answerClaim(a, e.plan(now, a), pull.Grant{Limit: pull.LimitUnknownAgent})
		}
	}
}
