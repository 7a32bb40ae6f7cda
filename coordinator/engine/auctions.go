package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/engine/internal/market"
	"taskbus/coordinator/engine/internal/state"
)

// Auctions: a task is offered, if its strategy has a market, to agents that could have it, and the best bid gets it.
// Package market stores the open lots and decides them. This file says what may be asked and given, announces it, and
// dispatches.

// offer opens an auction for a task that could be given to an agent now. It returns AuctionNone, or why
// there is none.
func (k *kernel) offer(now time.Time, t *state.Task) coordinator.AuctionOutcome {
	window, asked, why := k.AuctionFor(now, t)
	if why != coordinator.AuctionNone {
		return why
	}
	if t.Until.IsZero() {
		t.Until = k.PendingUntil(now, t)
	}
	l, look := k.Market.Offer(now, market.Terms[*state.Task, *state.Agent]{
		Task: t, Of: t.Task, Arrival: t.Arrival, Class: &t.Needs.Class.Lots, Seed: k.Policy.Settings.Seed,
		Reported: t.Needs.Strategy.Market.Reported, Window: window, Asked: asked,
	}, k.MarketView())
	t.Lot, t.Stage = l, state.Bidding
	k.Pending.Count[t.Task.Priority]++
	for _, b := range asked {
		k.Emit(&coordinator.Offer{
			Agent: b.ID, Task: t.Task, AuctionID: l.ID, Attempt: t.Attempt, Required: t.Needs.Required, Window: window,
		})
	}
	k.Timers.Schedule(&t.Retry, look)
	return coordinator.AuctionNone
}

// bidReceived takes a bid in, for a lot that it names or that its task has.
func (k *kernel) bidReceived(now time.Time, ev coordinator.BidReceived) {
	var l *state.Lot
	if t := k.FindTask(ev.Task); t != nil && t.Lot != nil && (ev.AuctionID == "" || t.Lot.ID == ev.AuctionID) {
		l = t.Lot
	}
	a, by := k.Fleet.ByID[ev.Agent], (*state.Bidder)(nil)
	if a != nil {
		by = &a.Bidding
	}
	answer, held := k.Market.Bid(now, l, by, &ev, k.MarketView())
	if held {
		k.Fleet.Refresh(a)
	}
	if answer.Reason != coordinator.BidCounts {
		k.Emit(answer)
	} else {
		k.serve(now, l.Task.Needs.Class) // the lot sought a slot among those that are ready; the bidder may not be
	}
	if a != nil && l != nil {
		k.consider(now, l)
	}
}

// offerUnheard notes that an agent has no control queue.
func (k *kernel) offerUnheard(now time.Time, ev coordinator.OfferUnheard) {
	if a := k.Fleet.ByID[ev.Agent]; a != nil {
		a.Bidding.Unreachable = true
		k.outOfMarket(now, a)
	}
}

// outOfMarket removes an agent from all auctions: it cannot receive messages about them, or could not have the
// tasks.
func (k *kernel) outOfMarket(now time.Time, a *state.Agent) {
	if !a.Bidding.Takes() {
		return
	}
	for _, l := range slices.Clone(k.Market.Lots()) {
		if in, freed := k.Market.Withdraw(l, &a.Bidding); in {
			if freed {
				k.Fleet.Refresh(a)
			}
			c := l.Task.Needs.Class
			k.consider(now, l)
			k.serve(now, c)
		}
	}
	k.wake(now, a) // its bids hold nothing any more
}

// stillOffered takes an auction over into another policy or fleet, and reports whether it goes on: else
// its task is to be judged anew.
func (k *kernel) stillOffered(t *state.Task) bool {
	var class *market.Class
	if reason, _ := k.Resolve(t); reason == coordinator.ReasonNone && t.Asks() {
		class = &t.Needs.Class.Lots
	}
	k.Market.Move(t.Lot, class, k.MarketView())
	return class != nil
}

// consider decides an auction, and those with which it contends, if waiting is to no purpose any more, or else looks
// again in time.
func (k *kernel) consider(now time.Time, l *state.Lot) {
	if !l.Open() {
		return // it was decided together with another
	}
	v := k.MarketView()
	why, next := k.Market.Look(now, l, v)
	if why == auction.NotYet {
		k.Timers.Schedule(&l.Task.Retry, next)
		return
	}
	over := k.Market.Conclude(now, l, why, v)
	for i := range over {
		k.lotClosed(&over[i])
	}
	for _, c := range k.Market.Match(over, v, k.Policy.Settings.Seed) {
		k.award(now, c)
	}
	k.lotsFreed(now, over)
}

// lotClosed gives back what the auction of a task held.
func (k *kernel) lotClosed(c *state.Closed) {
	for _, b := range c.Freed {
		k.Fleet.Refresh(b.Agent)
	}
	t := c.Lot.Task
	k.Timers.Cancel(&t.Retry)
	k.Pending.Count[t.Task.Priority]--
	t.Stage = state.Deciding
	if m := t.Needs.Strategy.Market; m != nil {
		c.Fallback = m.Fallback
	}
}

// abandon ends the auction of a task that is withdrawn, or judged anew.
func (k *kernel) abandon(now time.Time, t *state.Task) state.Closed {
	c := k.Market.Close(now, t.Lot, auction.WindowOver)
	k.lotClosed(&c)
	c.Abandoned = true
	k.award(now, &c)
	return c
}

// award announces the end of an auction and gives the task to the bid that the market has found; without any, the
// strategy itself decides.
func (k *kernel) award(now time.Time, c *state.Closed) {
	t, a := c.Lot.Task, k.Market.Award(c, k.MarketView(), k.Policy.Settings.MaxRetryAttempts)
	k.Emit(a.Ended)
	if a.Winner != nil {
		k.sell(now, t, a.Winner, c.Ranked)
	}
	for i := range a.Rejected {
		k.Emit(a.Rejected[i])
	}
	if a.Ended.Outcome == coordinator.AuctionAbandoned {
		t.Lot = nil
	}
	switch {
	case c.Abandoned:
	case c.Late:
		k.Fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
	case a.Winner == nil:
		k.placeWithoutBid(now, t, a.Ended.Outcome)
	}
}

// sell dispatches the task to a bidder.
func (k *kernel) sell(now time.Time, t *state.Task, winner *auction.Ranked, ranked []auction.Ranked) {
	a := k.Fleet.ByID[winner.Agent]
	if v := k.ReserveQuota(now, t, a); !v.OK { // what it was to have is used up since
		k.assignBest(now, t, a, k.NoChoice(t.Needs.Strategy.Name, a))
		return
	}
	t.Lot.Won = winner.Bid
	k.Emit(coordinator.Award{
		Agent: a.Spec.ID, Task: t.Task.ID, AuctionID: t.Lot.ID, TraceID: t.Task.CorrelationID,
		DispatchID: coordinator.DispatchID(t.Task, t.Attempt),
	})
	k.dispatch(now, t, a, &coordinator.Decision{
		Strategy: t.Needs.Strategy.Name, Terms: market.BidTerms, Scored: true, Agent: a.Spec.ID,
		Auction: coordinator.AuctionAwarded, Fleet: len(k.Fleet.Agents), Eligible: len(ranked),
		Candidates: market.Candidates(winner, ranked, k.MarketView()),
	})
}

// lotsFreed serves what waits for what auctions held that are over: the slots of the agents that were asked,
// and in their classes the slots of any that the lots were to have.
func (k *kernel) lotsFreed(now time.Time, over []state.Closed) {
	for i := range over {
		for _, b := range over[i].Asked {
			k.wake(now, b.Agent)
		}
		k.serve(now, over[i].Class.Of.(*state.Class))
	}
	if k.Market.Contended() { // what was waited for may be known now
		for _, l := range slices.Clone(k.Market.Lots()) {
			k.consider(now, l)
		}
	}
}
