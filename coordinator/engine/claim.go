package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/claims"
	"taskbus/coordinator/engine/internal/state"
	"taskbus/coordinator/pull"
)

// Agents that claim their tasks themselves. Package claims keeps what waits to be granted something, and
// says how much. Here is what there is to give, and the order in which it is given.

const (
	// pulledBy is the strategy that a decision names when an agent has claimed the task.
	pulledBy = "pull"
	// claimsAgain is how often claims that wait are looked at while there is work: parts of agents that
	// have ceased to ask lapse.
	claimsAgain = time.Second
)

// claimReceived answers a claim, or lets it wait for work.
func (k *kernel) claimReceived(now time.Time, ev coordinator.ClaimReceived) {
	a := k.Fleet.ByID[ev.Agent]
	if a == nil || a.Spec.Pull == coordinator.PullOff {
		k.Emit(coordinator.ClaimAnswered{
			Agent: ev.Agent, ClaimID: ev.ClaimID, Limit: pull.LimitUnknownAgent.String(), Token: ev.Token,
		})
		return
	}
	if a.Seat.Waits() { // the agent has given that one up
		k.refuseClaim(now, a, pull.LimitSuperseded)
	}
	k.Claims.Add(now, a, a.Number, &a.Seat, ev, a.InFlight())
	k.serveQuotas(now) // there may be quota for a task that only this agent could serve
	k.serveClaims(now)
	switch {
	case !a.Seat.Waits():
	case ev.Wait > 0:
		k.Timers.Schedule(&a.ClaimEnd, now.Add(ev.Wait))
	default:
		k.claimOver(now, a)
	}
}

// claimOver answers a claim that nothing can be given to in its time.
func (k *kernel) claimOver(now time.Time, a *state.Agent) {
	k.Claims.Changed()
	if k.serveClaims(now); a.Seat.Waits() { // else something came at the same moment
		k.answerClaim(a, k.Claims.Over(now, a, k.Reach(a.Number), k.ClaimView()))
	}
}

// serveClaims gives what waits to the agents that have asked for it, first come, first served.
func (k *kernel) serveClaims(now time.Time) {
	if !k.Claims.Due() {
		return
	}
	for at := k.Claims.Begin(); at != nil; at = k.Claims.Next() {
		if len(k.Pending.Active()) == 0 && k.Isolated.Empty() {
			break // nothing waits for an agent
		}
		k.serveClaim(now, at)
	}
	if k.Claims.Left() {
		k.Timers.Schedule(&k.claimsAgain, now.Add(claimsAgain))
	}
}

// serveClaim gives a claim what it is granted. The agent of one that is passed over is not looked at.
func (k *kernel) serveClaim(now time.Time, at *claims.Place[*state.Agent, *state.Class]) {
	if at.Try(k.applied + k.Quotas.Given) {
		k.RetryOwn(int(at.Number))
	}
	a, v := at.Agent, k.ClaimView()
	if t := k.claimAlone(a); t != nil {
		reported := k.Claims.Reported(now, a, k.Reach(a.Number), v)
		k.leavePending(t)
		if k.assign(now, t, a, k.NoChoice(pulledBy, a)) {
			k.answerClaim(a, reported.AnswerOne(&a.Seat))
			return
		}
	}
	grant, plan := k.Claims.Ask(now, at, k.Reach(int(at.Number)), v)
	if plan == nil {
		return
	}
	got := k.yield(now, a, grant.Items)
	if answer, given := k.Claims.Given(at, grant, plan, got, v); given {
		k.answerClaim(a, answer)
	}
}

// refuseClaim answers a claim that is granted nothing for that reason.
func (k *kernel) refuseClaim(now time.Time, a *state.Agent, why pull.Limit) {
	k.answerClaim(a, k.Claims.Refuse(now, a, k.Reach(a.Number), why, k.ClaimView()))
}

// answerClaim ends a claim.
func (k *kernel) answerClaim(a *state.Agent, answer coordinator.ClaimAnswered) {
	k.Emit(answer)
	k.endClaim(a)
}

// drainClaims answers all claims that wait: nothing more is given out in this session.
func (k *kernel) drainClaims(now time.Time) {
	for a := range k.Claims.All() {
		k.refuseClaim(now, a, pull.LimitUnavailable)
	}
}

// endClaim forgets a claim, answered or not.
func (k *kernel) endClaim(a *state.Agent) {
	k.Timers.Cancel(&a.ClaimEnd)
	k.Claims.Remove(&a.Seat)
}
