package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/state"
)

// kernel decides: it alone says in which order things are done.
type kernel struct {
	*state.State
	retryEnd    state.Timer // of the time until the budget allows the next of them
	joinTurn    state.Timer
	claimsAgain state.Timer // when to look again although nothing has happened
	controlsEnd state.Timer // of the next that ends by itself
	dayEnd      state.Timer
	// relieveAgain is when to go on with moves that were too many for one event, or when a lane has rested.
	relieveAgain state.Timer
	// rejudging: tasks that waited under the policy before may wait again, however many they are.
	rejudging bool
	// adoptUntil and adoptFor: until then, results that are not older than this may
	// count although we never saw their tasks.
	adoptUntil time.Time
	adoptFor   time.Duration
	applied    uint64 // how many events there were
}

// apply does what an event brings, in the order in which the engine promises it.
func (k *kernel) apply(now time.Time, ev coordinator.Event, dst []coordinator.Effect) []coordinator.Effect {
	k.Out, k.Now, k.Fleet.Now = dst, now, now
	k.applied++
	k.ForgetAgents()
	k.runDue(now)
	k.relieve(now)
	k.wakeTrusted(now) // before the event: waiting tasks go before new ones
	switch ev := ev.(type) {
	case coordinator.TaskReceived:
		k.received(now, ev)
		if ev.Lane != "" {
			k.carryOut(k.Lanes.TookOut(now, ev.Lane))
		}
	case coordinator.DispatchSettled:
		k.settled(now, ev)
	case coordinator.AgentReported:
		k.reported(now, &ev)
	case coordinator.ResultReported:
		k.resulted(now, ev)
	case coordinator.ProgressReported:
		k.progressed(now, ev.Progress)
	case coordinator.TaskReturned:
		k.returned(now, ev)
	case coordinator.QueueSeen:
		k.agentsChanged(now, k.Fleet.QueueSeen(now, ev))
	case coordinator.CancelRequested:
		k.cancel(now, ev)
	case coordinator.AgentOrdered:
		k.agentsChanged(now, k.Fleet.Ordered(ev))
	case coordinator.QuotaControlsRequested:
		k.changeControls(ev.Set, ev.Remove, ev.Token)
	case coordinator.TakeBackEnded:
		if a := k.Fleet.ByID[ev.Agent]; a != nil {
			k.Fleet.TakeBackEnded(a)
		}
	case coordinator.QueueChecked:
		k.agentsChanged(now, k.Fleet.QueueChecked(ev))
	case coordinator.BidReceived:
		k.bidReceived(now, ev)
	case coordinator.OfferUnheard:
		k.offerUnheard(now, ev)
	case coordinator.ClaimReceived:
		k.claimReceived(now, ev)
	case coordinator.CallAsked:
		k.callAsked(now, &ev)
	case coordinator.FailureTold:
		k.FailureAcked(ev.Task)
	case coordinator.LaneMoved:
		k.laneMoved(now, ev)
	case coordinator.LaneSeen:
		k.carryOut(k.Lanes.Seen(now, ev))
	case coordinator.LaneEnded:
		k.carryOut(k.Lanes.Ended(now, ev.Lane))
	case coordinator.IntakeChanged:
		k.Lanes.SetIntake(ev.Window)
	case coordinator.PolicyChanged:
		k.Fleet.SetRules(ev.Policy)
		k.install(now, ev.Policy)
	case coordinator.SessionOpened:
		k.sessionOpened(now, ev)
	case coordinator.PublishingHeld:
		if d, over := k.Fleet.PublishingHeld(now, ev.Held); over {
			k.heardAgain(now, d)
		}
	case coordinator.SessionLost:
		k.sessionLost(now)
	case coordinator.DrainBegan:
		k.drainClaims(now)
		k.Fleet.Disconnect()
		k.giveUp()
	case coordinator.Tick:
	}
	k.wakeTrusted(now)
	if k.Fleet.Claimants {
		k.Fleet.Claimants = false
		k.Claims.Changed()
	}
	// Where the first has left there may be another. It ends: what is refused is parked, and not tried again
	// before something is given back or given out (see nextAlone, RetryOwn for claims).
	for again := true; again; again = k.Quotas.Claimed || k.Quotas.Waits.Pending() {
		k.serveQuotas(now)
		k.serveClaims(now)
		k.relieve(now)
	}
	k.serveIsolated(now)
	k.sealBatches()
	out := k.Out
	k.Out = nil
	return out
}

// runDue does what was scheduled for now or earlier.
func (k *kernel) runDue(now time.Time) {
	due := false
	for t := k.Timers.PopDue(now); t != nil; t = k.Timers.PopDue(now) {
		due = true
		switch t.Duty {
		case state.DutyExpire:
			k.expired(now, t.Task)
		case state.DutyRetry:
			switch t.Task.Stage {
			case state.Waiting:
				k.heldTooLong(now, t.Task)
			case state.Unscored:
				k.scoreAgain(now, t.Task)
			case state.Gathering:
				k.gathered(now, state.BatchKeyOf(t.Task))
			case state.Bidding:
				k.consider(now, t.Task.Lot)
			default:
				k.retryDue(now, t.Task)
			}
		case state.DutyStale, state.DutyAgent:
			k.agentsChanged(now, k.Fleet.Due(now, t.Agent, t.Of))
		case state.DutyBudget:
			k.retryAffordable(now)
		case state.DutyBreaker:
			k.ApplyBreakers(k.Ejections.Advance(now))
		case state.DutyClaim:
			if t.Agent == nil {
				k.Claims.Changed() // served at the end of this Apply
			} else {
				k.claimOver(now, t.Agent)
			}
		case state.DutyQuota:
			k.quotaDue(now)
		case state.DutyControls:
			k.controlsDue()
		case state.DutyDay:
			k.dayDue(now)
		case state.DutyWiden:
			k.widenDue(now, t.Task)
		case state.DutyJoin:
			k.join(now)
		case state.DutyLanes:
			k.relieve(now)
		}
	}
	if k.Quotas.Installed() {
		k.serveQuotas(now) // waiting tasks go before new ones
	}
	if due {
		k.serveIsolated(now)
	}
	k.sealBatches()
}

// wake serves waiting tasks after an agent has changed, in their order (see queue.Queue), while it is ready. No
// other agent needs to be checked: an agent that was ready before could take none of the tasks, or they would not
// wait. But where there are quotas, what the agent has given back may be for other tasks: those that are next go
// first, whichever agent serves them.
func (k *kernel) wake(now time.Time, a *state.Agent) {
	if len(k.Pending.Active()) == 0 || a.Number < 0 || !k.Fleet.Ready.Has(a.Number) {
		return
	}
	if k.RetryOwn(a.Number); k.Quotas.Installed() {
		k.serveQuotas(now)
		return
	}
	next := k.Pending.LineOf(a.Number)
	defer next.End()
	for k.Fleet.Ready.Has(a.Number) && k.serveNext(now, &next) {
	}
}

// serve offers what waits in a class, as long as more slots are free than are sought.
func (k *kernel) serve(now time.Time, c *state.Class) {
	for {
		before, i := c.First(), c.Usable.First(k.Fleet.Ready)
		if before == nil || i < 0 || !k.MayGive(before) {
			return
		}
		if k.wake(now, k.Fleet.Agents[i]); c.First() == before && k.Fleet.Ready.Has(i) {
			return // no agent can have it
		}
	}
}

// yield dispatches up to n of the waiting tasks to the agent, in the order in which they are served, and returns
// how many it dispatched: an agent on trial gets one.
func (k *kernel) yield(now time.Time, a *state.Agent, n int) (given int) {
	next := k.Pending.LineOf(a.Number)
	defer next.End()
	for given < n {
		c, t, levels := next.Take()
		if c == nil {
			return given
		}
		if !c.Usable.Has(a.Number) {
			continue
		}
		k.leavePending(t)
		k.Quotas.Serving = levels
		if k.assign(now, t, a, k.NoChoice(pulledBy, a)) {
			given++
		}
		k.Quotas.Serving = 0
		next.Back(c)
	}
	return given
}

// serveNext gives the first of a line that may go to an agent; false: there is none.
func (k *kernel) serveNext(now time.Time, next *state.Line) bool {
	for {
		c, t, levels := next.Take()
		if c == nil {
			return false
		}
		a, d := k.Choose(t)
		switch {
		case a == nil && !k.Unscored(t), a != nil && !k.MayGive(t):
			continue
		case a == nil: // a task behind it may find one
			k.setAside(now, t)
		default:
			k.leavePending(t)
			k.Quotas.Serving = levels
			k.give(now, t, a, d)
			k.Quotas.Serving = 0
		}
		next.Back(c)
		return true
	}
}
