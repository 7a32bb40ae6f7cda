package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/engine/internal/market"
)

// How auctions end: which agent gets the task, what the bidders are told, and how what was decided by
// bids, or without any, is dispatched.

// bidTerms are what an explanation shows of bids.
var bidTerms = []string{"fitness", "claimed", "active", "duration_s"}

// consider decides an auction if waiting is to no purpose any more, or else looks again in time.
func (e *Engine) consider(now time.Time, l *lot) {
	if !l.Open() {
		return // it was decided together with another
	}
	why, next, doubt := e.market.Look(now, l)
	if why == auction.NotYet || doubt != nil && doubt.Agent.free() == 0 {
		e.timers.schedule(&l.Task.retry, next)
		return
	}
	e.conclude(now, l, why)
}

// conclude decides an auction, and with it those with which it contends. A task whose deadline has
// passed, because nothing was decided for a while, is given to no bidder.
func (e *Engine) conclude(now time.Time, l *lot, why auction.Closing) {
	var over, left []ended // left: to be awarded
	for _, one := range e.market.Together(now, l) {
		t, c := one.Task, one.Task.needs.class
		if t.late(now) {
			over = append(over, ended{e.abandon(now, t), c})
			e.fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
			continue
		}
		cause := auction.NotYet // as it stands
		if one == l {
			cause = why
		}
		end := ended{e.closeLot(now, t, cause), c}
		over, left = append(over, end), append(left, end)
	}
	winners := make([]*auction.Ranked, len(left))
	if len(left) > 1 {
		winners = e.match(left)
	}
	for _, found := range []bool{true, false} { // lots without a match may have what is left
		for i := range left {
			if (winners[i] != nil) == found {
				e.award(now, &left[i].closed, winners[i])
			}
		}
	}
	e.freed(now, over)
}

// ended is a closed lot and the class that its task was in.
type ended struct {
	closed
	class *class
}

// closeLot ends the taking of bids for a task, and gives all slots back.
func (e *Engine) closeLot(now time.Time, t *openTask, why auction.Closing) closed {
	c := e.market.Close(now, t.lot, why)
	for _, b := range c.Freed {
		e.fleet.refresh(b.Agent)
	}
	e.timers.cancel(&t.retry)
	e.pending.count[t.task.Priority]--
	t.state = stateDeciding
	return c
}

// abandon ends the auction of a task that is withdrawn, or judged anew.
func (e *Engine) abandon(now time.Time, t *openTask) closed {
	c := e.closeLot(now, t, auction.WindowOver)
	e.auctionEnded(&c, coordinator.AuctionAbandoned, "")
	e.turnDown(&c, c.Ranked, coordinator.BidLost)
	t.lot = nil
	return c
}

// match finds for each closed lot the bid that it goes to; nil: none.
func (e *Engine) match(lots []ended) []*auction.Ranked {
	rankings, free := make([][]auction.Ranked, len(lots)), make(map[coordinator.AgentID]int)
	for i := range lots {
		for _, r := range lots[i].Ranked {
			if e.mayHave(lots[i].Lot.Task, r.Agent) {
				rankings[i], free[r.Agent] = append(rankings[i], r), e.fleet.byID[r.Agent].free()
			}
		}
	}
	seed := coordinator.Hash(string(lots[0].Lot.Task.task.ID), e.policy.Settings.Seed)
	return market.Match(seed, rankings, free)
}

// award gives the task to the bidder that it was found to go to, or else to the best that can take it;
// without any, the strategy itself decides.
func (e *Engine) award(now time.Time, c *closed, winner *auction.Ranked) {
	t, ranked := c.Lot.Task, c.Ranked
	if winner == nil || !e.mayHave(t, winner.Agent) { // an agent on trial may have had its one task by now
		winner = first(ranked, func(r auction.Ranked) bool { return e.mayHave(t, r.Agent) })
	}
	if winner != nil && !e.affordable(now, t, winner.Agent) {
		winner = first(ranked, func(r auction.Ranked) bool {
			return e.mayHave(t, r.Agent) && e.affordable(now, t, r.Agent)
		})
		if winner == nil { // what the task takes is used up for all that have bid
			e.auctionEnded(c, coordinator.AuctionAbandoned, "")
			e.turnDown(c, ranked, coordinator.BidLost)
			t.lot = nil
			e.fallBack(now, t, coordinator.AuctionAbandoned)
			return
		}
	}
	if winner == nil {
		outcome := coordinator.AuctionNoBids
		switch {
		case len(ranked) > 0:
			outcome = coordinator.AuctionAllFull
		case len(c.Asked) == 0:
			outcome = coordinator.AuctionUnheard
		default:
			e.market.Unanswered()
		}
		e.auctionEnded(c, outcome, "")
		e.turnDown(c, ranked, coordinator.BidFull)
		t.lot.Next = e.atMostRetries(ranked)
		e.fallBack(now, t, outcome)
		return
	}
	e.auctionEnded(c, coordinator.AuctionAwarded, winner.Agent)
	lost := make([]auction.Ranked, 0, len(ranked)-1)
	for _, r := range ranked {
		if r.Agent != winner.Agent {
			lost = append(lost, r)
		}
	}
	t.lot.Next = e.atMostRetries(lost)
	e.sell(now, t, winner, ranked)
	e.turnDown(c, lost, coordinator.BidLost)
}

// first is the first of the bids that does; nil: none does.
func first(bids []auction.Ranked, does func(auction.Ranked) bool) *auction.Ranked {
	if i := slices.IndexFunc(bids, does); i >= 0 {
		return &bids[i]
	}
	return nil
}

// auctionEnded tells how an auction has ended.
func (e *Engine) auctionEnded(c *closed, outcome coordinator.AuctionOutcome, winner coordinator.AgentID) {
	ended := &coordinator.AuctionEnded{
		Task: c.Lot.Task.task, AuctionID: c.Lot.ID, Outcome: outcome, Winner: winner, Closing: c.Why.String(),
		Invited: len(c.Asked), Bids: len(c.Ranked), Window: c.Window, Took: c.Took,
	}
	if m := c.Lot.Task.needs.strategy.Market; m != nil {
		ended.Fallback = m.Fallback
	}
	e.emit(ended)
}

// turnDown tells bidders that they have not won.
func (e *Engine) turnDown(c *closed, bids []auction.Ranked, why coordinator.BidRefusal) {
	t := c.Lot.Task.task
	for i := range bids {
		if a := e.fleet.byID[bids[i].Agent]; a != nil {
			e.rejectBid(a.spec.ID, t.ID, c.Lot.ID, t.TraceID, why)
		}
	}
}

// atMostRetries are the first of the bids, copied: more could not be tried.
func (e *Engine) atMostRetries(bids []auction.Ranked) []auction.Ranked {
	return slices.Clone(bids[:min(len(bids), e.policy.Settings.MaxRetryAttempts)])
}

// freed serves what waits for what auctions held that are over: the slots of the agents that were asked,
// and in their classes the slots of any that the lots were to have.
func (e *Engine) freed(now time.Time, over []ended) {
	for i := range over {
		for _, b := range over[i].Asked {
			e.wake(now, b.Agent)
		}
		e.serve(now, over[i].class)
	}
	if e.market.Contended() { // what was waited for may be known now
		for _, l := range slices.Clone(e.market.Lots()) {
			e.consider(now, l)
		}
	}
}

// serve offers what waits in a class, as long as more slots are free than are sought.
func (e *Engine) serve(now time.Time, c *class) {
	for {
		before := c.first()
		if before == nil || !e.mayGive(before) {
			return
		}
		i := c.usable.First(e.fleet.ready)
		if i < 0 {
			return
		}
		if e.wake(now, e.fleet.agents[i]); c.first() == before && e.fleet.ready.Has(i) {
			return // no agent can have it
		}
	}
}

// sell dispatches the task to a bidder.
func (e *Engine) sell(now time.Time, t *openTask, winner *auction.Ranked, ranked []auction.Ranked) {
	a := e.fleet.byID[winner.Agent]
	if v := e.reserveQuota(now, t, a); !v.OK { // what it was to have is used up since
		e.assignBest(now, t, a, e.noChoice(t.needs.strategy.Name, a))
		return
	}
	t.lot.Won = winner.Bid
	e.emit(coordinator.Award{
		Agent: a.spec.ID, Task: t.task.ID, AuctionID: t.lot.ID, TraceID: t.task.TraceID,
		DispatchID: coordinator.DispatchID(t.task, t.attempt),
	})
	d := &coordinator.Decision{
		Strategy: t.needs.strategy.Name, Terms: bidTerms, Scored: true, Agent: a.spec.ID,
		Auction: coordinator.AuctionAwarded, Fleet: len(e.fleet.agents), Eligible: len(ranked),
	}
	d.Candidates = append(d.Candidates, e.bidAsCandidate(winner))
	for i := range ranked {
		r := &ranked[i]
		if len(d.Candidates) < coordinator.MaxCandidates && r.Agent != winner.Agent && e.fleet.byID[r.Agent] != nil {
			d.Candidates = append(d.Candidates, e.bidAsCandidate(r))
		}
	}
	e.dispatch(now, t, a, d)
}

func (e *Engine) bidAsCandidate(r *auction.Ranked) coordinator.Candidate {
	v := &e.fleet.views[e.fleet.byID[r.Agent].number]
	return coordinator.Candidate{
		Agent: r.Agent, Load: v.Load, Free: v.Free,
		Key: coordinator.Key{First: -r.Appraisal.Fitness, Second: float64(r.Appraisal.Active)},
		Terms: coordinator.TermValues{
			r.Appraisal.Fitness, r.Bid.Fitness, float64(r.Appraisal.Active), r.Appraisal.Duration.Seconds(),
		},
	}
}

// nextBest is the place among those that did not win the task of the best that can have it now; below 0:
// there is none.
func (e *Engine) nextBest(t *openTask) int {
	if t.lot == nil {
		return -1
	}
	return slices.IndexFunc(t.lot.Next, func(r auction.Ranked) bool { return e.mayHave(t, r.Agent) })
}

// giveNextBest gives a task that has come back from the winner of its auction, or for which no bidder had
// a slot, to the best of the others that can have it now. It reports whether there is one.
func (e *Engine) giveNextBest(now time.Time, t *openTask) bool {
	i := e.nextBest(t)
	if i < 0 {
		return false
	}
	all := t.lot.Next
	t.lot.Next = slices.Delete(slices.Clone(all), i, i+1)
	e.sell(now, t, &all[i], all)
	return true
}

// fallBack decides without bids: as the strategy would, or by the first agent that can take the task.
func (e *Engine) fallBack(now time.Time, t *openTask, why coordinator.AuctionOutcome) {
	if reason, text := e.resolve(t); reason != coordinator.ReasonNone {
		e.fail(now, t, reason, text, nil)
		return
	}
	if t.late(now) {
		e.fail(now, t, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
		return
	}
	a, d := e.choose(t)
	if a == nil {
		e.waitOrAside(now, t)
		return
	}
	e.giveWithoutBid(now, t, a, d, why)
}

// giveWithoutBid gives the task to the agent that the strategy has chosen, or to the first that can take
// it, where the market wants that; why says what became of the bids.
func (e *Engine) giveWithoutBid(
	now time.Time, t *openTask, a *agent, d *coordinator.Decision, why coordinator.AuctionOutcome,
) {
	d.Auction = why
	if m := t.needs.strategy.Market; m != nil && m.FirstMatch {
		a = e.fleet.agents[t.needs.class.usable.First(e.fleet.ready)]
		d = &coordinator.Decision{
			Strategy: d.Strategy, Agent: a.spec.ID, Auction: why, First: true, Fleet: d.Fleet, Eligible: d.Eligible,
			Refused: d.Refused, Refusals: d.Refusals,
		}
	}
	e.assignBest(now, t, a, d)
}
