package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

// How auctions end: who gets the task, and who hears of it.

// consider decides an auction if waiting is to no purpose any more, or else looks again
// in time.
func (e *Engine) consider(now time.Time, l *lot) {
	if !l.isOpen() {
		return // it was decided together with another
	}
	hopes := l.hopes()
	closing := l.book.Closing(now, hopes)
	switch {
	case closing == auction.NotYet:
		e.timers.schedule(&l.task.retry, l.book.NextLook(hopes))
	case closing != auction.WindowOver && e.outbid(now, l):
		e.timers.schedule(&l.task.retry, l.book.Closes())
	default:
		e.conclude(now, l, closing)
	}
}

// outbid tells whether the best bid is of an agent whose slots are all held for other
// tasks, and which of those it gets is not known yet.
func (e *Engine) outbid(now time.Time, l *lot) bool {
	best, any := l.book.Best()
	if !any {
		return false
	}
	i := slices.IndexFunc(l.bidders, func(b bidder) bool { return b.agent.spec.ID == best.Agent })
	if i < 0 || l.bidders[i].held || l.bidders[i].agent.free() > 0 {
		return false
	}
	holds := bidder{agent: l.bidders[i].agent, held: true}
	return slices.ContainsFunc(e.market.open, func(o *lot) bool {
		return slices.Contains(o.bidders, holds) && o.book.Closing(now, o.hopes()) == auction.NotYet
	})
}

// conclude decides an auction, and with it those with which it contends. A task whose deadline
// has passed, because nothing was decided for a while, is not given to any bidder.
func (e *Engine) conclude(now time.Time, l *lot, closing auction.Closing) {
	over := e.contending(now, l)
	lots := make([]*lot, 0, len(over))
	for _, one := range over {
		if one.task.late(now) {
			e.abandon(now, one.task)
			e.fail(now, one.task, coordinator.ReasonDeadlineExceeded, "the deadline has passed", nil)
			continue
		}
		lots = append(lots, one)
		why := closing
		if one != l {
			if why = one.book.Closing(now, one.hopes()); why == auction.NotYet {
				why = auction.WindowOver // as good as
			}
		}
		e.shut(one, why)
	}
	winners := make([]*auction.Ranked, len(lots))
	if len(lots) > 1 {
		winners = e.joint(lots)
	}
	for _, found := range []bool{true, false} { // what is left may be had by those for whom there was nobody
		for i, one := range lots {
			if (winners[i] != nil) == found {
				e.award(now, one, winners[i])
			}
		}
	}
	e.freed(now, over)
}

// serve offers what waits in a class, as long as more slots are free than are sought.
func (e *Engine) serve(now time.Time, c *class) {
	for {
		before := c.first()
		if before == nil || !e.mayGive(before) {
			return
		}
		i := c.usable.first(e.fleet.ready)
		if i < 0 {
			return
		}
		if e.wake(now, e.fleet.agents[i]); c.first() == before && e.fleet.ready.has(i) {
			return // nobody can have it
		}
	}
}

// freed serves who waits for what auctions held that are over: the slots of those who
// were asked, and in its class those of anybody that it was to have.
func (e *Engine) freed(now time.Time, lots []*lot) {
	for _, one := range lots {
		for _, a := range one.asked {
			e.wake(now, a)
		}
		e.serve(now, one.class)
	}
	if e.market.contending > 0 { // what was waited for may be known now
		for _, o := range slices.Clone(e.market.open) {
			e.consider(now, o)
		}
	}
}

// shut ends the taking of bids, and gives all slots back.
func (e *Engine) shut(l *lot, closing auction.Closing) {
	t := l.task
	l.closing = closing
	l.book.Close()
	e.market.open = slices.DeleteFunc(e.market.open, func(o *lot) bool { return o == l })
	l.class.lots--
	if !l.holds() {
		l.class.seeking--
	}
	for _, b := range l.bidders {
		e.release(b)
	}
	l.book.Silent(func(id coordinator.AgentID) {
		if len(t.sale.silent) < silentKept {
			t.sale.silent = append(t.sale.silent, id)
		}
		e.market.answered(e.fleet.known(id))
	})
	e.timers.cancel(&t.retry)
	e.pending.count[t.task.Priority]--
	t.state, t.sale.lot = stateDeciding, nil
}

// award gives the task to the bidder that it was found to go to, or else to the best that
// can take it; without any, the strategy itself decides.
func (e *Engine) award(now time.Time, l *lot, winner *auction.Ranked) {
	t := l.task
	ranked := l.book.Ranked(nil)
	if winner == nil || !e.mayHave(t, winner.Agent) { // who is on trial may have had its one task by now
		winner = nil
		if i := slices.IndexFunc(ranked, func(r auction.Ranked) bool { return e.mayHave(t, r.Agent) }); i >= 0 {
			winner = &ranked[i]
		}
	}
	if winner != nil && !e.affordable(now, t, winner.Agent) {
		i := slices.IndexFunc(ranked, func(r auction.Ranked) bool { return e.mayHave(t, r.Agent) && e.affordable(now, t, r.Agent) })
		if i < 0 {
			e.unaffordable(now, l, ranked)
			return
		}
		winner = &ranked[i]
	}
	ended := l.ended(now, len(ranked))
	switch {
	case winner != nil:
		ended.Outcome, ended.Winner = coordinator.AuctionAwarded, winner.Agent
	case len(ranked) > 0:
		ended.Outcome = coordinator.AuctionAllFull
	case l.book.Invited() == 0:
		ended.Outcome = coordinator.AuctionUnheard
	default:
		ended.Outcome = coordinator.AuctionNoBids
		e.market.window.Observe(e.market.limit) // nobody was as quick as that
	}
	e.emit(ended)
	if winner == nil {
		e.turnDown(l, ranked, coordinator.BidFull)
		t.sale.next = e.atMostRetries(ranked)
		e.fallBack(now, t, ended.Outcome)
		return
	}
	lost := make([]auction.Ranked, 0, len(ranked)-1)
	for _, r := range ranked {
		if r.Agent != winner.Agent {
			lost = append(lost, r)
		}
	}
	t.sale.next = e.atMostRetries(lost)
	e.sell(now, t, winner, ranked)
	e.turnDown(l, lost, coordinator.BidLost)
}

// unaffordable ends an auction when what its task takes is used up for all who have bid.
func (e *Engine) unaffordable(now time.Time, l *lot, ranked []auction.Ranked) {
	t, ended := l.task, l.ended(now, len(ranked))
	ended.Outcome = coordinator.AuctionAbandoned
	e.emit(ended)
	e.turnDown(l, ranked, coordinator.BidLost)
	t.sale = nil
	e.fallBack(now, t, ended.Outcome)
}

// ended is what there is to say of an auction that is over, but for its outcome.
func (l *lot) ended(now time.Time, bids int) *coordinator.AuctionEnded {
	ended := &coordinator.AuctionEnded{
		Task: l.task.task, AuctionID: l.id, Closing: l.closing.String(), Invited: len(l.asked), Bids: bids,
		Window: l.window, Took: now.Sub(l.book.Opened()),
	}
	if m := l.task.needs.strategy.Market; m != nil {
		ended.Fallback = m.Fallback
	}
	return ended
}

// atMostRetries are the first of the bids, copied: more could not be tried.
func (e *Engine) atMostRetries(bids []auction.Ranked) []auction.Ranked {
	return slices.Clone(bids[:min(len(bids), e.policy.Settings.MaxRetryAttempts)])
}

// turnDown has bidders hear that they have not won.
func (e *Engine) turnDown(l *lot, bids []auction.Ranked, why coordinator.BidRefusal) {
	for i := range bids {
		if a := e.fleet.byID[bids[i].Agent]; a != nil {
			e.rejectBid(a.spec.ID, l.task.task.ID, l.id, l.task.task.TraceID, why)
		}
	}
}

// mayHave tells whether the agent could have the task now.
func (e *Engine) mayHave(t *openTask, id coordinator.AgentID) bool {
	a := e.fleet.byID[id]
	return a != nil && e.fleet.ready.has(a.number) && t.needs.class.usable.has(a.number)
}

// calibrate learns from how a task ended that its agent had won by a bid.
func (e *Engine) calibrate(t *openTask, a *agent, took time.Duration, succeeded bool) {
	if t.sale == nil || t.sale.won.Agent != a.spec.ID {
		return
	}
	a.calibration.Observe(t.sale.won.Fitness, t.sale.won.Duration, took, succeeded)
	if e.recorder.on {
		e.record(a.calibrationRecord())
	}
}

func (a *agent) calibrationRecord() *coordinator.Calibrated {
	s := a.calibration.State()
	return &coordinator.Calibrated{Agent: a.spec.ID, Ratio: s.Ratio, Brier: s.Brier, Bias: s.Bias, Timed: s.Timed, Judged: s.Judged}
}

// calibrated is what outcomes have taught of the agent's word, for people.
func (a *agent) calibrated() coordinator.CalibrationSnapshot {
	c := &a.calibration
	return coordinator.CalibrationSnapshot{Outcomes: c.Outcomes(), Brier: c.Brier(), Bias: c.Bias(), Delta: c.Delta(), Ratio: c.Ratio()}
}
