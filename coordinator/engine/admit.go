package engine

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/lanes"
	"taskbus/coordinator/engine/internal/state"
)

// admit judges a task from scratch: refused for good, placed, or made to wait.
func (k *kernel) admit(now time.Time, t *state.Task) {
	if t.Attempt > dedupe.MaxAttempts {
		k.Fail(now, t, coordinator.ReasonRetriesExhausted, fmt.Sprintf(
			"%d dispatches were made under this task_id, and no more can be told apart; submit it under another",
			dedupe.MaxAttempts), nil)
		return
	}
	if reason, text := k.Resolve(t); reason != coordinator.ReasonNone {
		k.Fail(now, t, reason, text, nil)
		return
	}
	if at := k.heldOff(now, t); !at.IsZero() {
		t.Stage = state.Delayed
		k.Pending.Count[t.Task.Priority]++
		k.waitUntil(t, at)
		return
	}
	if len(t.Tried) > 0 && !t.WaitedForOthers {
		k.ChooseAgain(t)
		k.Resolve(t) // which has an answer, as a moment ago
	}
	if !k.gather(now, t) {
		k.place(now, t)
	}
}

// place gives the task to an agent, or lets it wait behind its equals: then, or when
// it has failed, there is no agent.
func (k *kernel) place(now time.Time, t *state.Task) (*state.Agent, *coordinator.Decision) {
	if k.failHopeless(now, t) {
		return nil, nil
	}
	if t.Needs.Class.First() != nil || k.WaitsForQuota(t) {
		if !k.exceedsQuota(now, t) {
			k.waitOrAside(now, t)
		}
		return nil, nil
	}
	a, d := k.Choose(t)
	switch {
	case a == nil:
		k.waitOrAside(now, t)
	case !t.Asks():
		return k.assignBest(now, t, a, d)
	case !k.MayGive(t):
		k.wait(now, t)
	default:
		k.give(now, t, a, d)
	}
	return nil, nil
}

// give hands the task to the agent that was chosen for it, or offers it first.
func (k *kernel) give(now time.Time, t *state.Task, a *state.Agent, d *coordinator.Decision) {
	if !t.Asks() {
		k.assignBest(now, t, a, d)
		return
	}
	if r := k.QuotaMissing(now, t); r.Able == nil && r.Refused { // no agent need bid for it
		k.waitForQuota(now, t, &r)
		return
	}
	// It has come back from the winner of its auction, or no bidder had a slot: another has bid for it.
	if next, of := t.Lot.TakeNext(t, k.MarketView()); next != nil {
		k.sell(now, t, next, of)
		return
	}
	if why := k.offer(now, t); why != coordinator.AuctionNone {
		k.Emit(&coordinator.AuctionEnded{Task: t.Task, Outcome: why})
		k.giveWithoutBid(now, t, a, d, why)
	}
}

// placeWithoutBid decides on a task for which no bid can win; why says what became of the bids.
func (k *kernel) placeWithoutBid(now time.Time, t *state.Task, why coordinator.AuctionOutcome) {
	if reason, text := k.Resolve(t); reason != coordinator.ReasonNone {
		k.Fail(now, t, reason, text, nil)
	} else if a, d := k.Choose(t); a != nil {
		k.giveWithoutBid(now, t, a, d, why)
	} else {
		k.waitOrAside(now, t)
	}
}

// giveWithoutBid gives the task to the agent that the strategy has chosen, or to the first that can take
// it, where the market wants that; why says what became of the bids.
func (k *kernel) giveWithoutBid(
	now time.Time, t *state.Task, a *state.Agent, d *coordinator.Decision, why coordinator.AuctionOutcome,
) {
	d.Auction = why
	if m := t.Needs.Strategy.Market; m != nil && m.FirstMatch {
		a = k.Fleet.Agents[t.Needs.Class.Usable.First(k.Fleet.Ready)]
		d = &coordinator.Decision{
			Strategy: d.Strategy, Agent: a.Spec.ID, Auction: why, First: true, Fleet: d.Fleet, Eligible: d.Eligible,
			Refused: d.Refused, Refusals: d.Refusals,
		}
	}
	k.assignBest(now, t, a, d)
}

// failHopeless fails a task that is too late, or that no agent can ever take.
func (k *kernel) failHopeless(now time.Time, t *state.Task) bool {
	switch {
	case t.Late(now):
		k.Fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
		return true
	case t.Needs.Class.Unserved():
		d := k.Explain(now, t, false)
		reason, text := k.ReasonOf(d, t)
		if reason != coordinator.ReasonNoAgentsOnline { // else an agent may come that can
			k.Fail(now, t, reason, text+t.CameBefore(), d)
			return true
		}
	}
	return false
}

// waitOrAside lets the task wait in line, or aside if its strategy gives no score to the agents that could have it.
func (k *kernel) waitOrAside(now time.Time, t *state.Task) {
	if k.wait(now, t); t.Stage != state.Waiting || !t.Alone && !k.Unscored(t) {
		return
	}
	if a, _ := k.Choose(t); a == nil { // else others go first, or more is being sought than is free
		k.setAside(now, t)
	}
}

// failFull fails a task for which the backlog has no room.
func (k *kernel) failFull(now time.Time, t *state.Task) {
	k.Fail(now, t, coordinator.ReasonBacklogFull, fmt.Sprintf("%d tasks are waiting already (max_queue_size)",
		k.Backlog()), nil)
}

// A strategy may give no score to any agent that could have a task: a formula that
// reads a label that the task does not have, or divides by what is zero everywhere.
// Such a task must not keep others waiting that need the same. It waits aside, and is
// looked at again from time to time: what a formula reads of agents changes.

// How long until a task is looked at again, doubled each time.
const (
	scoreFirst = time.Second
	scoreMax   = 8 * time.Second
)

// setAside takes a waiting task out of its class's line. It goes on being pending.
func (k *kernel) setAside(now time.Time, t *state.Task) {
	k.Pending.Leave(t)
	t.Stage, t.ScoreIn = state.Unscored, scoreFirst
	k.Timers.Schedule(&t.Retry, now.Add(t.ScoreIn))
}

// scoreAgain looks at it again. Its class may have been forgotten, because no task waits in its line: agents that are
// ejected meanwhile would not be from that.
func (k *kernel) scoreAgain(now time.Time, t *state.Task) {
	_, _ = k.Resolve(t) // it could be served under this policy: nothing else has changed
	a, d := k.Choose(t)
	behind := a != nil && k.WaitsForQuota(t) // others of its group go first
	if a != nil && !behind && k.MayGive(t) {
		k.leavePending(t)
		k.give(now, t, a, d)
		return
	}
	if t.Alone {
		k.Isolated.Add(t, t.Needs.Class, t.Leaf, t.Level)
	}
	if behind || !k.Unscored(t) { // or the agents without a score are not free any more
		t.Stage = state.Waiting
		k.Enter(now, t)
		k.Claims.Wanted(t.Needs.Class.Usable)
		k.watchHeld(now, t)
		return
	}
	if t.Lane.InLine() && !now.Before(t.Came.Add(lanes.HeldLong)) {
		if k.heldTooLong(now, t) {
			return
		}
	}
	t.ScoreIn = min(2*t.ScoreIn, scoreMax)
	k.Timers.Schedule(&t.Retry, now.Add(t.ScoreIn))
}
