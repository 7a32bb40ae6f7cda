package engine

import (
	"math/bits"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/engine/internal/market"
)

// Auctions: a task whose strategy has a market is offered to agents that could have it, and the best bid
// gets it. Package market keeps the lots that are open and what their bids hold. Here is which agents are
// asked, what is told of it, and what follows from a decision, in this order.

// The market's objects, by the kernel's tasks and agents.
type (
	lot    = market.Lot[*openTask, *agent]
	bidder = market.Bidder[*agent]
	closed = market.Closed[*openTask, *agent]
)

// asks reports whether the task is offered before it is given to an agent.
func (t *openTask) asks() bool { return t.needs.strategy.Market != nil && !t.alone }

// backlog counts the tasks that wait for a slot: not those that are offered.
func (e *Engine) backlog() int { return e.pending.total() - len(e.market.Lots()) }

// give hands the task to the agent that was chosen for it, or offers it first.
func (e *Engine) give(now time.Time, t *openTask, a *agent, d *coordinator.Decision) {
	if !t.asks() {
		e.assignBest(now, t, a, d)
		return
	}
	if lacks, without := e.quotaMissing(now, t); lacks != nil { // no agent need bid for it
		e.waitForQuota(now, t, lacks, without)
		return
	}
	if e.giveNextBest(now, t) {
		return
	}
	if why := e.offer(now, t); why != coordinator.AuctionNone {
		e.emit(&coordinator.AuctionEnded{Task: t.task, Outcome: why})
		e.giveWithoutBid(now, t, a, d, why)
	}
}

// mayGive reports whether the task may be given to an agent now, or be offered. One that is not for the
// market may.
func (e *Engine) mayGive(t *openTask) bool {
	return !t.asks() || e.nextBest(t) >= 0 || e.mayOffer(t)
}

// mayHave reports whether the agent could have the task now.
func (e *Engine) mayHave(t *openTask, id coordinator.AgentID) bool {
	a := e.fleet.byID[id]
	return a != nil && e.fleet.ready.Has(a.number) && t.needs.class.usable.Has(a.number)
}

// mayOffer reports whether the task, should it be one for the market, would find a slot: whether more are
// free in its class than its lots seek.
func (e *Engine) mayOffer(t *openTask) bool {
	c := t.needs.class
	left := c.lots.Seeking()
	if !t.asks() || left == 0 {
		return true
	}
	for w, word := range c.usable {
		for set := word & e.fleet.ready[w]; set != 0; set &= set - 1 {
			if left -= e.fleet.views[w<<6+bits.TrailingZeros64(set)].Free; left < 0 {
				return true
			}
		}
	}
	return false
}

// windowFor is how long bids for the task are to be taken; 0: it has no time for an auction.
func (e *Engine) windowFor(now time.Time, t *openTask) time.Duration {
	until := t.until
	if until.IsZero() {
		until = e.pendingUntil(now, t)
	}
	if s := &e.policy.Settings; !s.CountsWaiting { // an agent could have it now: the time begins anew
		until = later(until, now.Add(s.AssignmentTimeout))
	}
	return e.market.WindowFor(e.within(t, until).Sub(now))
}

// invite lists which agents to ask: of those that could have the task now, preferred ones alone where
// there are any, those that can be told of it and have not too much to answer.
func (e *Engine) invite(t *openTask) []*bidder {
	q := e.question(t)
	among := q.feasible
	if preferred, n := q.narrow(e.fleet.ready); n > 0 {
		among = preferred
	}
	var can []*bidder
	among.Each(func(i int) {
		if b := &e.fleet.agents[i].bidding; e.fleet.ready.Has(i) && b.MayAsk() {
			can = append(can, b)
		}
	})
	if t.needs.strategy.Market.InviteAll {
		return can
	}
	score := func(i int) float64 { return -e.fleet.key(q, can[i].Agent.number).First }
	picks := auction.Invite(nil, len(can), t.task.ID, e.policy.Settings.Seed, score)
	asked := make([]*bidder, len(picks))
	for i, n := range picks {
		asked[i] = can[n]
	}
	return asked
}

// merit is what is known of an agent and a task without asking.
func (e *Engine) merit(s *standings, t *openTask, a *agent) auction.Merit {
	known := s.of(a.number)
	return auction.Merit{
		Coverage: 1, // an agent that lacks a capability is not asked
		Success:  known.Success,
		Depth:    auction.Depth(e.learner.Outcomes(a.number, t.needs.kind)),
		Active:   a.inFlight(),
		Duration: durationOf(known.Duration),
	}
}

// offer opens an auction for a task that could be given to an agent now. It returns AuctionNone, or why
// there is none.
func (e *Engine) offer(now time.Time, t *openTask) coordinator.AuctionOutcome {
	window := e.windowFor(now, t)
	if window == 0 {
		return coordinator.AuctionNoTime
	}
	asked := e.invite(t)
	if len(asked) == 0 {
		return coordinator.AuctionUnheard
	}
	if t.until.IsZero() {
		t.until = e.pendingUntil(now, t)
	}
	terms := market.Terms[*openTask, *agent]{
		Task: t, ID: t.task.ID, Arrival: t.arrival, Class: &t.needs.class.lots, Seed: e.policy.Settings.Seed,
		Mode: auction.Appraised, Window: window, Asked: asked,
	}
	if t.needs.strategy.Market.Reported {
		terms.Mode = auction.Reported
	}
	if s := e.standings(t); len(asked) <= market.MaxPotential {
		terms.Merits = make([]auction.Merit, len(asked))
		for i, b := range asked {
			terms.Merits[i] = e.merit(&s, t, b.Agent)
		}
	}
	l, look := e.market.Offer(now, terms)
	t.lot, t.state = l, stateBidding
	e.pending.count[t.task.Priority]++
	for _, b := range asked {
		e.emit(&coordinator.Offer{
			Agent: b.ID, Task: t.task, AuctionID: l.ID, Attempt: t.attempt, Required: t.needs.required, Window: window,
		})
	}
	e.timers.schedule(&t.retry, look)
	return coordinator.AuctionNone
}

// explainMarket adds to how the task would be decided that agents would be asked first, or why not.
func (e *Engine) explainMarket(now time.Time, t *openTask, d *coordinator.Decision) {
	if m := t.needs.strategy.Market; m.FirstMatch {
		d.Agent, d.First = e.fleet.agents[t.needs.class.usable.First(e.fleet.ready)].spec.ID, true
	}
	switch window, asked := e.windowFor(now, t), e.invite(t); {
	case window == 0:
		d.Auction = coordinator.AuctionNoTime
	case len(asked) == 0:
		d.Auction = coordinator.AuctionUnheard
	default:
		d.Offers, d.Window = len(asked), window
	}
}

// lotOf finds the lot of a task by its id, open or closed, or without an id the one that the task has;
// nil when there is none.
func (e *Engine) lotOf(task coordinator.TaskID, id string) *lot {
	if t := e.openTask(task); t != nil && t.lot != nil && (id == "" || t.lot.ID == id) {
		return t.lot
	}
	return nil
}

// bidReceived takes a bid in.
func (e *Engine) bidReceived(now time.Time, ev coordinator.BidReceived) {
	a := e.fleet.byID[ev.Agent]
	if a == nil {
		e.rejectBid(ev.Agent, ev.Task, ev.AuctionID, ev.TraceID, coordinator.BidNotInvited)
		return
	}
	l := e.lotOf(ev.Task, ev.AuctionID)
	if l != nil {
		ev.AuctionID = l.ID // the bid may have named the task alone
	}
	if l == nil || !l.Open() {
		if l != nil {
			e.market.Late(now, l, ev.Agent)
		}
		e.rejectBid(ev.Agent, ev.Task, ev.AuctionID, ev.TraceID, coordinator.BidLate)
		return
	}
	t := l.Task
	s := e.standings(t)
	refusal, held := e.market.Bid(now, l, &a.bidding, auction.Bid{
		Agent: ev.Agent, Fitness: ev.Fitness, Active: ev.Active, Duration: ev.Duration, Relevance: ev.Relevance,
	}, e.merit(&s, t, a), a.free() > 0)
	if held {
		e.fleet.refresh(a)
	}
	if refusal != coordinator.BidCounts {
		e.rejectBid(ev.Agent, ev.Task, ev.AuctionID, ev.TraceID, refusal)
	} else {
		e.serve(now, t.needs.class) // the lot sought a slot among those that are ready; the bidder may not be
	}
	e.consider(now, l)
}

func (e *Engine) rejectBid(
	agent coordinator.AgentID, task coordinator.TaskID, id, trace string, why coordinator.BidRefusal,
) {
	e.emit(coordinator.RejectBid{Agent: agent, Task: task, AuctionID: id, TraceID: trace, Reason: why})
}

// offerUnheard notes that an agent has no control queue.
func (e *Engine) offerUnheard(now time.Time, ev coordinator.OfferUnheard) {
	if a := e.fleet.byID[ev.Agent]; a != nil {
		a.bidding.Unreachable = true
		e.outOfMarket(now, a)
	}
}

// outOfMarket takes an agent out of all auctions: it cannot be told of them, or could not have the tasks.
func (e *Engine) outOfMarket(now time.Time, a *agent) {
	if !a.bidding.Takes() {
		return
	}
	for _, l := range slices.Clone(e.market.Lots()) {
		if l.Open() && e.leaveLot(l, a) { // else it was decided with another
			c := l.Task.needs.class
			e.consider(now, l)
			e.serve(now, c)
		}
	}
	e.wake(now, a) // its bids hold nothing any more
}

// leaveLot takes an agent out of one auction, and reports whether it was in it.
func (e *Engine) leaveLot(l *lot, a *agent) bool {
	in, freed := e.market.Withdraw(l, &a.bidding)
	if freed {
		e.fleet.refresh(a)
	}
	return in
}

// marketUnder takes over how long the auctions of a policy may take.
func (e *Engine) marketUnder(p *coordinator.Policy) {
	for i := range p.Strategies {
		if s := p.Strategies[i].Market; s != nil {
			e.market.SetBounds(s.Floor, s.Ceiling)
		}
	}
}

// stillOffered takes an auction over into another policy or fleet, and reports whether it goes on: else
// its task is to be judged anew. Agents that have left are out of it.
func (e *Engine) stillOffered(t *openTask) bool {
	reason, _ := e.resolve(t)
	goesOn := reason == coordinator.ReasonNone && t.asks()
	if goesOn {
		e.market.Move(t.lot, &t.needs.class.lots)
	}
	for _, b := range slices.Clone(t.lot.Asked()) {
		if b.Agent.number < 0 {
			e.leaveLot(t.lot, b.Agent)
		}
	}
	return goesOn
}

// calibrate learns from how a task ended that its agent had won by a bid.
func (e *Engine) calibrate(t *openTask, a *agent, took time.Duration, succeeded bool) {
	if t.lot == nil || t.lot.Won.Agent != a.spec.ID {
		return
	}
	a.bidding.Calibration.Observe(t.lot.Won.Fitness, t.lot.Won.Duration, took, succeeded)
	if e.recorder.on {
		e.record(a.calibrationRecord())
	}
}

func (a *agent) calibrationRecord() *coordinator.Calibrated {
	s := a.bidding.Calibration.State()
	return &coordinator.Calibrated{
		Agent: a.spec.ID, Ratio: s.Ratio, Brier: s.Brier, Bias: s.Bias, Timed: s.Timed, Judged: s.Judged,
	}
}

// calibrationSnapshot is what outcomes have taught of the agent's bids, for people.
func (a *agent) calibrationSnapshot() coordinator.CalibrationSnapshot {
	c := &a.bidding.Calibration
	return coordinator.CalibrationSnapshot{
		Outcomes: c.Outcomes(), Brier: c.Brier(), Bias: c.Bias(), Delta: c.Delta(), Ratio: c.Ratio(),
	}
}
