package engine

import (
	"math/bits"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
	"taskbus/coordinator/engine/internal/choice"
	"taskbus/coordinator/engine/internal/fleet"
	"taskbus/coordinator/engine/internal/market"
)

// Auctions: a task is offered, if its strategy has a market, to agents that could have it, and the best bid gets it.
// Package market stores the open lots and decides them. This file decides which agents are asked, what is
// announced, and what is dispatched.

// The market's objects, by the kernel's tasks and agents.
type (
	lot    = market.Lot[*openTask, *agent]
	bidder = market.Bidder[*agent]
	closed = market.Closed[*openTask, *agent]
)

// bidTerms are what an explanation shows of bids.
var bidTerms = []string{"fitness", "claimed", "active", "duration_s"}

// marketFleet is what the market reads of the engine.
type marketFleet Engine

func (f *marketFleet) Free(t *openTask, id coordinator.AgentID) int {
	if a := f.fleet.ByID[id]; a != nil && f.fleet.Ready.Has(a.Number) && t.needs.class.Usable.Has(a.Number) {
		return a.Free()
	}
	return 0
}

func (f *marketFleet) Affords(t *openTask, id coordinator.AgentID) bool {
	return (*Engine)(f).affordable(f.now, t, id)
}

// asks reports whether the task is offered before it is given to an agent.
func (t *openTask) asks() bool { return t.needs.strategy.Market != nil && !t.alone }

// backlog returns the number of tasks that wait for a slot, without those that are offered.
func (e *Engine) backlog() int { return e.pending.total() - len(e.market.Lots()) }

// give hands the task to the agent that was chosen for it, or offers it first.
func (e *Engine) give(now time.Time, t *openTask, a *agent, d *coordinator.Decision) {
	if !t.asks() {
		e.assignBest(now, t, a, d)
		return
	}
	if able, lacks, without := e.quotaMissing(now, t); able == nil && lacks != nil { // no agent need bid for it
		e.waitForQuota(now, t, lacks, without)
		return
	}
	// It has come back from the winner of its auction, or no bidder had a slot: another has bid for it.
	if next := t.lot.Next(t, (*marketFleet)(e)); next != nil {
		e.sell(now, t, next, t.lot.TakeNext(next))
		return
	}
	if why := e.offer(now, t); why != coordinator.AuctionNone {
		e.emit(&coordinator.AuctionEnded{Task: t.task, Outcome: why})
		e.giveWithoutBid(now, t, a, d, why)
	}
}

// mayGive reports whether the task may be given to an agent now, or be offered: one that is for the market is while
// more slots are free in its class than its lots seek.
func (e *Engine) mayGive(t *openTask) bool {
	c := t.needs.class
	left := c.lots.Seeking()
	if !t.asks() || left == 0 || t.lot.Next(t, (*marketFleet)(e)) != nil {
		return true
	}
	for w, word := range c.Usable {
		for set := word & e.fleet.Ready[w]; set != 0; set &= set - 1 {
			if left -= e.fleet.Views[w<<6+bits.TrailingZeros64(set)].Free; left < 0 {
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

// invite returns the agents to ask: of those that could have the task now, only preferred ones if there are any,
// and only agents that can receive the offer and do not have too many offers to answer.
func (e *Engine) invite(t *openTask) []*bidder {
	q := e.question(t)
	among := q.Among
	if preferred, n := q.Narrow(e.fleet.Ready); n > 0 {
		among = preferred
	}
	var can []*bidder
	among.Each(func(i int) {
		if b := &e.fleet.Agents[i].bidding; e.fleet.Ready.Has(i) && b.MayAsk() {
			can = append(can, b)
		}
	})
	if t.needs.strategy.Market.InviteAll {
		return can
	}
	score := func(i int) float64 { return -q.Key(can[i].Agent.Number).First }
	return market.Invite(can, t.task.ID, e.policy.Settings.Seed, score)
}

// merit is what is known of an agent and a task without asking.
func (e *Engine) merit(s *choice.TrackRecords, t *openTask, a *agent) auction.Merit {
	known := s.Of(a.Number)
	return auction.Merit{
		Coverage: 1, // an agent that lacks a capability is not asked
		Success:  known.Success,
		Depth:    auction.Depth(e.learner.Outcomes(a.Number, t.needs.kind)),
		Active:   a.InFlight(),
		Duration: fleet.DurationOf(known.Duration),
	}
}

// auctionFor is for how long bids for the task are taken and of which agents; why is AuctionNone, or why there is no
// auction.
func (e *Engine) auctionFor(
	now time.Time, t *openTask,
) (window time.Duration, asked []*bidder, why coordinator.AuctionOutcome) {
	switch window, asked = e.windowFor(now, t), e.invite(t); {
	case window == 0:
		why = coordinator.AuctionNoTime
	case len(asked) == 0:
		why = coordinator.AuctionUnheard
	}
	return window, asked, why
}

// offer opens an auction for a task that could be given to an agent now. It returns AuctionNone, or why
// there is none.
func (e *Engine) offer(now time.Time, t *openTask) coordinator.AuctionOutcome {
	window, asked, why := e.auctionFor(now, t)
	if why != coordinator.AuctionNone {
		return why
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
	if s := e.trackRecords(t); len(asked) <= market.MaxPotential {
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
		d.Agent, d.First = e.fleet.Agents[t.needs.class.Usable.First(e.fleet.Ready)].Spec.ID, true
	}
	window, asked, why := e.auctionFor(now, t)
	if d.Auction = why; why == coordinator.AuctionNone {
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
	a, l := e.fleet.ByID[ev.Agent], e.lotOf(ev.Task, ev.AuctionID)
	reject := func(why coordinator.BidRefusal) {
		e.emit(coordinator.RejectBid{
			Agent: ev.Agent, Task: ev.Task, AuctionID: ev.AuctionID, TraceID: ev.TraceID, Reason: why,
		})
	}
	switch {
	case a == nil:
		reject(coordinator.BidNotInvited)
		return
	case l == nil:
		reject(coordinator.BidLate)
		return
	}
	if ev.AuctionID = l.ID; !l.Open() { // the bid may have named the task alone
		e.market.Late(now, l, ev.Agent)
		reject(coordinator.BidLate)
		return
	}
	t, s := l.Task, e.trackRecords(l.Task)
	refusal, held := e.market.Bid(now, l, &a.bidding, auction.Bid{
		Agent: ev.Agent, Fitness: ev.Fitness, Active: ev.Active, Duration: ev.Duration, Relevance: ev.Relevance,
	}, e.merit(&s, t, a), a.Free() > 0)
	if held {
		e.fleet.Refresh(a)
	}
	if refusal != coordinator.BidCounts {
		reject(refusal)
	} else {
		e.serve(now, t.needs.class) // the lot sought a slot among those that are ready; the bidder may not be
	}
	e.consider(now, l)
}

// offerUnheard notes that an agent has no control queue.
func (e *Engine) offerUnheard(now time.Time, ev coordinator.OfferUnheard) {
	if a := e.fleet.ByID[ev.Agent]; a != nil {
		a.bidding.Unreachable = true
		e.outOfMarket(now, a)
	}
}

// outOfMarket removes an agent from all auctions: it cannot receive messages about them, or could not have the
// tasks.
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
		e.fleet.Refresh(a)
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
		if b.Agent.Number < 0 {
			e.leaveLot(t.lot, b.Agent)
		}
	}
	return goesOn
}

// calibrate learns from how a task ended that its agent had won by a bid.
func (e *Engine) calibrate(t *openTask, a *agent, took time.Duration, succeeded bool) {
	if t.lot.Observe(&a.bidding, took, succeeded) && e.recorder.on {
		e.record(a.bidding.Record())
	}
}

// consider decides an auction if waiting is to no purpose any more, or else looks again in time.
func (e *Engine) consider(now time.Time, l *lot) {
	if !l.Open() {
		return // it was decided together with another
	}
	why, next, doubt := e.market.Look(now, l)
	if why == auction.NotYet || doubt != nil && doubt.Agent.Free() == 0 {
		e.timers.schedule(&l.Task.retry, next)
		return
	}
	e.conclude(now, l, why)
}

// conclude decides an auction, and with it those with which it contends. A task is given to no
// bidder after its deadline, which may pass where nothing was decided for a while.
func (e *Engine) conclude(now time.Time, l *lot, why auction.Closing) {
	var over []ended
	var left []closed // to be awarded
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
		left = append(left, e.closeLot(now, t, cause))
		over = append(over, ended{left[len(left)-1], c})
	}
	e.market.Match(left, (*marketFleet)(e), e.policy.Settings.Seed)
	for i := range left {
		e.award(now, &left[i])
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
		e.fleet.Refresh(b.Agent)
	}
	e.timers.cancel(&t.retry)
	e.pending.count[t.task.Priority]--
	t.state = stateDeciding
	return c
}

// abandon ends the auction of a task that is withdrawn, or judged anew.
func (e *Engine) abandon(now time.Time, t *openTask) closed {
	c := e.closeLot(now, t, auction.WindowOver)
	e.auctionEnded(&c, coordinator.AuctionAbandoned, nil)
	e.turnDown(&c, c.Ranked, coordinator.BidLost)
	t.lot = nil
	return c
}

// award gives the task to the bid that the market has found; without any, the strategy itself decides.
func (e *Engine) award(now time.Time, c *closed) {
	t, a := c.Lot.Task, e.market.Award(c, (*marketFleet)(e), e.policy.Settings.MaxRetryAttempts)
	e.auctionEnded(c, a.Outcome, a.Winner)
	if a.Winner != nil {
		e.sell(now, t, a.Winner, c.Ranked)
	}
	e.turnDown(c, a.Losers, a.Why)
	if a.Outcome == coordinator.AuctionAbandoned {
		t.lot = nil
	}
	if a.Winner == nil {
		e.fallBack(now, t, a.Outcome)
	}
}

// auctionEnded announces how an auction has ended.
func (e *Engine) auctionEnded(c *closed, outcome coordinator.AuctionOutcome, winner *auction.Ranked) {
	ended := &coordinator.AuctionEnded{
		Task: c.Lot.Task.task, AuctionID: c.Lot.ID, Outcome: outcome, Closing: c.Why.String(),
		Invited: len(c.Asked), Bids: len(c.Ranked), Window: c.Window, Took: c.Took,
	}
	if winner != nil {
		ended.Winner = winner.Agent
	}
	if m := c.Lot.Task.needs.strategy.Market; m != nil {
		ended.Fallback = m.Fallback
	}
	e.emit(ended)
}

// turnDown sends to bidders that they have not won.
func (e *Engine) turnDown(c *closed, bids []auction.Ranked, why coordinator.BidRefusal) {
	t := c.Lot.Task.task
	for i := range bids {
		if id := bids[i].Agent; e.fleet.ByID[id] != nil {
			e.emit(coordinator.RejectBid{Agent: id, Task: t.ID, AuctionID: c.Lot.ID, TraceID: t.TraceID, Reason: why})
		}
	}
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
		before, i := c.First(), c.Usable.First(e.fleet.Ready)
		if before == nil || i < 0 || !e.mayGive(before) {
			return
		}
		if e.wake(now, e.fleet.Agents[i]); c.First() == before && e.fleet.Ready.Has(i) {
			return // no agent can have it
		}
	}
}

// sell dispatches the task to a bidder.
func (e *Engine) sell(now time.Time, t *openTask, winner *auction.Ranked, ranked []auction.Ranked) {
	a := e.fleet.ByID[winner.Agent]
	if v := e.reserveQuota(now, t, a); !v.OK { // what it was to have is used up since
		e.assignBest(now, t, a, e.noChoice(t.needs.strategy.Name, a))
		return
	}
	t.lot.Won = winner.Bid
	e.emit(coordinator.Award{
		Agent: a.Spec.ID, Task: t.task.ID, AuctionID: t.lot.ID, TraceID: t.task.TraceID,
		DispatchID: coordinator.DispatchID(t.task, t.attempt),
	})
	d := &coordinator.Decision{
		Strategy: t.needs.strategy.Name, Terms: bidTerms, Scored: true, Agent: a.Spec.ID,
		Auction: coordinator.AuctionAwarded, Fleet: len(e.fleet.Agents), Eligible: len(ranked),
	}
	d.Candidates = append(d.Candidates, e.bidAsCandidate(winner))
	for i := range ranked {
		r := &ranked[i]
		if len(d.Candidates) < coordinator.MaxCandidates && r.Agent != winner.Agent && e.fleet.ByID[r.Agent] != nil {
			d.Candidates = append(d.Candidates, e.bidAsCandidate(r))
		}
	}
	e.dispatch(now, t, a, d)
}

func (e *Engine) bidAsCandidate(r *auction.Ranked) coordinator.Candidate {
	v := &e.fleet.Views[e.fleet.ByID[r.Agent].Number]
	return coordinator.Candidate{
		Agent: r.Agent, Load: v.Load, Free: v.Free,
		Key: coordinator.Key{First: -r.Appraisal.Fitness, Second: float64(r.Appraisal.Active)},
		Terms: coordinator.TermValues{
			r.Appraisal.Fitness, r.Bid.Fitness, float64(r.Appraisal.Active), r.Appraisal.Duration.Seconds(),
		},
	}
}

// fallBack decides without bids: as the strategy would, or by the first agent that can take the task.
func (e *Engine) fallBack(now time.Time, t *openTask, why coordinator.AuctionOutcome) {
	reason, text := e.resolve(t)
	if reason == coordinator.ReasonNone && t.late(now) {
		reason, text = coordinator.ReasonDeadlineExceeded, "the deadline has passed"
	}
	if reason != coordinator.ReasonNone {
		e.fail(now, t, reason, text, nil)
	} else if a, d := e.choose(t); a != nil {
		e.giveWithoutBid(now, t, a, d, why)
	} else {
		e.waitOrAside(now, t)
	}
}

// giveWithoutBid gives the task to the agent that the strategy has chosen, or to the first that can take
// it, where the market wants that; why says what became of the bids.
func (e *Engine) giveWithoutBid(
	now time.Time, t *openTask, a *agent, d *coordinator.Decision, why coordinator.AuctionOutcome,
) {
	d.Auction = why
	if m := t.needs.strategy.Market; m != nil && m.FirstMatch {
		a = e.fleet.Agents[t.needs.class.Usable.First(e.fleet.Ready)]
		d = &coordinator.Decision{
			Strategy: d.Strategy, Agent: a.Spec.ID, Auction: why, First: true, Fleet: d.Fleet, Eligible: d.Eligible,
			Refused: d.Refused, Refusals: d.Refusals,
		}
	}
	e.assignBest(now, t, a, d)
}
