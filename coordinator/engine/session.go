package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/state"
)

// What a session brings with it, and what its end leaves.

// sessionOpened begins a session: what an earlier one may have lost is done again.
func (k *kernel) sessionOpened(now time.Time, ev coordinator.SessionOpened) {
	k.notAfter(now)
	k.Ends.SessionOpened(now)
	changes, deaf := k.Fleet.SessionOpened(now, &ev)
	k.agentsChanged(now, changes)
	k.beginAdopting(now)
	k.heardAgain(now, deaf)
	k.withdrawAgain()
	k.ResendFailures()
	for _, r := range k.Quotas.ReleaseLost(now) {
		k.Commit(r)
	}
	k.ReviewQuotas(now)
	// Claims may have been made to the leader before, or in the session before, and are not known.
	for _, a := range k.Fleet.Agents {
		if a.Spec.Pull != coordinator.PullOff {
			k.Emit(coordinator.ClaimsForgotten{Agent: a.Spec.ID})
		}
	}
	k.Lanes.SessionOpened()
	k.Ends.ForgetAnnounced()
}

// sessionLost forgets every task held: the broker will deliver them again. What was published without an answer is
// remembered, and still counts against its agent, because it may be in the agent's queue: a copy of the task goes the
// same way.
func (k *kernel) sessionLost(now time.Time) {
	k.Fleet.SessionLost(now)
	for _, t := range k.InOrder() {
		if t.Stage == state.Moving {
			t.Stage = state.Deciding
			k.Lanes.Moved(now, &t.Lane, coordinator.PublishUnknown)
			k.forgetMoving(t)
		}
		if t.Stage != state.Dispatching {
			continue
		}
		delete(k.Held, t.Handle)
		t.Handle = 0
		if t.Over {
			t.Stage, t.Settled = state.Leased, now
			k.Messages.Unanswered(t.Key)
			if t.Agent.Gone() {
				k.Discharge(t)
			}
			continue
		}
		k.BeginLease(now, t, coordinator.FateUnsettled)
	}
	k.Messages.SessionLost(now, now.Sub(k.Fleet.OpenedAt), k.MayBeHeld)
	k.giveUp()
}

// giveUp forgets every task that is not on its way to an agent, or into its lane.
func (k *kernel) giveUp() {
	for _, t := range k.InOrder() {
		if t.Stage == state.Bidding {
			c := k.Market.Close(k.Now, t.Lot, auction.WindowOver) // no result can be sent
			k.lotClosed(&c)
		}
		if t.Stage != state.Dispatching && t.Stage != state.Moving {
			k.Timers.Cancel(&t.Expire)
			k.Timers.Cancel(&t.Retry)
			k.CancelWiden(t)
			k.Forget(t)
		}
	}
	k.Unpark(k.Quotas.Waits.Clear(), false)
	k.Isolated.Clear()
	k.Pending.Clear()
	k.Pending.Count = [4]int{}
	k.Batches.Clear()
	k.Lanes.SessionClosed()
	k.Timers.Cancel(&k.relieveAgain)
	for a := range k.Claims.All() {
		k.endClaim(a)
	}
	k.Timers.Cancel(&k.retryEnd)
	k.Retries.Clear()
}

// The clock of a leader before this one may have been ahead, by years where a machine has lost its battery. What it
// recorded is folded as it is; what would happen by that only when the time has come by this one's clock too is
// brought back to now, as if it had been done a moment ago: leases run for as long as they may from now on, no
// agent is ejected for longer than the limit, and what is learnt counts.
//
// (A clock that was behind causes no problem: the times that it set are over, and have the grace of the session.)

// notAfter limits to now the times that records have set, all but those of budgets, which are limited since Lead.
// It is called with every session; where one clock has set all times nothing changes.
func (k *kernel) notAfter(now time.Time) {
	for _, t := range k.Tasks.All {
		if t != nil && t.Stage == state.Leased {
			k.leaseNotAfter(now, t)
		}
	}
	k.Learner.NotAfter(now)
	for _, a := range k.Fleet.Agents {
		a.Capacity.NotAfter(now)
	}
	k.ApplyBreakers(k.Ejections.NotAfter(now))
}

// quotasNotAfter brings budgets back to the periods of now, with what was counted in them, and the day
// at hand to today: what was used on one that has not begun was used today.
func (k *kernel) quotasNotAfter(now time.Time) {
	q := &k.Quotas
	q.Ledger.NotAfter(now)
	q.Flow.NotAfter(now)
	k.ScheduleQuota()
	if k.Controls.DayNotAfter(now) {
		k.scheduleDay()
	}
}

// leaseNotAfter bounds a lease by what one has that begins now. The reports of an agent that reports no ends count
// a dispatch only if it was made before they were.
func (k *kernel) leaseNotAfter(now time.Time, t *state.Task) {
	if t.AssignedAt.After(now) {
		t.AssignedAt = now
	}
	if t.Settled.After(now) {
		t.Settled = now
	}
	t.RunsFrom, t.Renewed = coordinator.Earlier(t.RunsFrom, now), coordinator.Earlier(t.Renewed, now)
	if latest := now.Add(t.Timeout + state.LeaseMargin); t.Deadline.After(latest) {
		t.Deadline = latest
		if t.Expire.Index >= 0 {
			k.Timers.Schedule(&t.Expire, t.Deadline)
		}
	}
}

// heardAgain ends a time in which no agent could be heard: leases that could not be reported on have stood still.
func (k *kernel) heardAgain(now time.Time, d fleet.Deafness) {
	for _, t := range k.Tasks.All {
		// One that is sent to its agent again keeps the time that it had.
		if t == nil || t.Deadline.IsZero() || t.Stage != state.Leased && t.Stage != state.Dispatching {
			continue
		}
		if stood := d.Until.Sub(coordinator.Later(d.From, t.RunsFrom)); !d.From.IsZero() && stood > 0 {
			t.Deadline = t.Deadline.Add(stood)
		}
		t.Deadline = coordinator.Later(t.Deadline, d.Awaited)
		if t.Stage == state.Leased && t.Expire.Index >= 0 {
			k.Timers.Schedule(&t.Expire, t.Deadline)
		}
	}
	for _, a := range k.Fleet.Agents {
		k.agentsChanged(now, k.Fleet.Awaited(now, a))
	}
}
