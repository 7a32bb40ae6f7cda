package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

// How what was decided by bids, or without any, is dispatched.

// marketTerms are what an explanation shows of bids.
var marketTerms = []string{"fitness", "claimed", "active", "duration_s"}

// sell dispatches the task to a bidder.
func (e *Engine) sell(now time.Time, t *openTask, winner *auction.Ranked, ranked []auction.Ranked) {
	a := e.fleet.byID[winner.Agent]
	if v := e.afford(now, t, a); !v.OK { // what it was to have is used up since
		e.assignBest(now, t, a, e.noChoice(t.needs.strategy.Name, a))
		return
	}
	t.sale.won = winner.Bid
	e.emit(coordinator.Award{
		Agent: a.spec.ID, Task: t.task.ID, AuctionID: t.sale.id, TraceID: t.task.TraceID,
		DispatchID: coordinator.DispatchID(t.task, t.attempt),
	})
	d := &coordinator.Decision{
		Strategy: t.needs.strategy.Name, Terms: marketTerms, Scored: true, Agent: a.spec.ID, Auction: coordinator.AuctionAwarded,
		Fleet: len(e.fleet.agents), Eligible: len(ranked),
	}
	d.Candidates = append(d.Candidates, e.bidAsCandidate(winner))
	for i := range ranked {
		if len(d.Candidates) < coordinator.MaxCandidates && ranked[i].Agent != winner.Agent && e.fleet.byID[ranked[i].Agent] != nil {
			d.Candidates = append(d.Candidates, e.bidAsCandidate(&ranked[i]))
		}
	}
	e.dispatch(now, t, a, d)
}

func (e *Engine) bidAsCandidate(r *auction.Ranked) coordinator.Candidate {
	v := &e.fleet.views[e.fleet.byID[r.Agent].number]
	return coordinator.Candidate{
		Agent: r.Agent, Load: v.Load, Free: v.Free,
		Key:   coordinator.Key{First: -r.Appraisal.Fitness, Second: float64(r.Appraisal.Active)},
		Terms: coordinator.TermValues{r.Appraisal.Fitness, r.Bid.Fitness, float64(r.Appraisal.Active), r.Appraisal.Duration.Seconds()},
	}
}

// fallBack decides without bids: as the strategy would, or by the first who can take it.
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
	e.withoutBid(now, t, a, d, why)
}

// withoutBid gives the task to the agent that the strategy has chosen, or to the first who
// can take it, where the market wants that; why says what became of the bids.
func (e *Engine) withoutBid(now time.Time, t *openTask, a *agent, d *coordinator.Decision, why coordinator.AuctionOutcome) {
	d.Auction = why
	if m := t.needs.strategy.Market; m != nil && m.FirstMatch {
		a = e.fleet.agents[t.needs.class.usable.first(e.fleet.ready)]
		d = &coordinator.Decision{
			Strategy: d.Strategy, Agent: a.spec.ID, Auction: why, First: true, Fleet: d.Fleet, Eligible: d.Eligible,
			Refused: d.Refused, Refusals: d.Refusals,
		}
	}
	e.assignBest(now, t, a, d)
}

// nextBest gives a task that has come back from the winner of its auction, or for which no
// bidder had a slot, to the best of the others that can take it now; false when there is
// none.
func (e *Engine) nextBest(now time.Time, t *openTask) bool {
	if t.sale == nil {
		return false
	}
	i := slices.IndexFunc(t.sale.next, func(r auction.Ranked) bool { return e.mayHave(t, r.Agent) })
	if i < 0 {
		return false
	}
	all := t.sale.next
	t.sale.next = slices.Delete(slices.Clone(all), i, i+1)
	e.sell(now, t, &all[i], all)
	return true
}

// stillOffered takes an auction over into another policy or fleet; false when its task is
// to be judged anew. Agents that have left are out of it.
func (e *Engine) stillOffered(t *openTask) bool {
	l := t.sale.lot
	reason, _ := e.resolve(t)
	goesOn := reason == coordinator.ReasonNone && t.asks()
	if l.class = t.needs.class; !goesOn {
		l.class = &class{} // those of the old fleet are nobody's any more
	}
	l.class.lots++
	if !l.holds() {
		l.class.seeking++
	}
	for _, a := range slices.Clone(l.asked) {
		if a.number < 0 {
			e.leaveLot(l, a)
		}
	}
	return goesOn
}

// abandon ends the auction of a task that is withdrawn, or judged anew.
func (e *Engine) abandon(now time.Time, t *openTask) {
	l := t.sale.lot
	e.shut(l, auction.WindowOver)
	ranked := l.book.Ranked(nil)
	ended := l.ended(now, len(ranked))
	ended.Outcome = coordinator.AuctionAbandoned
	e.emit(ended)
	e.turnDown(l, ranked, coordinator.BidLost)
	t.sale = nil
}
