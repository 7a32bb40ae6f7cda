package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/pull"
)

// grant is how many of the waiting tasks the agent may have now.
func (e *Engine) grant(p *pull.Plan, a *agent) pull.Grant {
	most := min(a.claim.MaxItems, e.claimable(a))
	var g pull.Grant
	if a.spec.Pull == coordinator.PullLiteral {
		g = pull.Grant{Items: min(most, a.free()), FairShare: p.FairShare(a.spec.ID)}
		if g.Items == a.free() {
			g.Limit = pull.LimitSlots
		}
	} else {
		g = p.Grant(pull.Claim{Agent: a.spec.ID, MaxItems: most})
	}
	switch {
	case g.Items == a.claim.MaxItems:
		g.Limit = pull.LimitNone
	case g.Items == most:
		g.Limit = pull.LimitUnclaimed
	}
	return g
}

// yield dispatches so many of the waiting tasks to the agent, those that go first
// before the others, and tells how many they were: an agent on trial gets one.
func (e *Engine) yield(now time.Time, a *agent, n int) (given int) {
	next := e.line(a)
	defer next.end()
	for given < n {
		c, t := next.take()
		if t == nil {
			return given
		}
		if !c.usable.has(a.number) {
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

// answerClaim ends a claim.
func (e *Engine) answerClaim(a *agent, p *pull.Plan, g pull.Grant) {
	ev := &a.claim
	e.emit(coordinator.ClaimAnswered{
		Agent: a.spec.ID, ClaimID: ev.ClaimID, Granted: g.Items, Limit: g.Limit.String(), Token: ev.Token,
		Fleet: coordinator.PullFleet{
			Agents: p.Agents, Pending: p.Pending(), Unclaimed: p.Unclaimed(), Capacity: p.Capacity, Target: p.Target, FairShare: g.FairShare,
		},
	})
	e.endClaim(a)
}

// drainClaims answers all that wait: nothing more is given out in this session.
func (e *Engine) drainClaims(now time.Time) {
	for _, a := range e.claims.all() {
		e.answerClaim(a, e.toldPlan(now, a), pull.Grant{Limit: pull.LimitUnavailable})
	}
}
