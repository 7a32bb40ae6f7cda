package engine

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

// The market: a task whose strategy has one is offered to agents that could have it,
// for a while; who bids best gets it. Package auction knows what a bid is worth; here is
// who is asked, what bids hold, and what follows.
//
// An auction is no record: it leaves nothing behind but the decision. Whoever takes over
// decides a task anew that was being offered.
//
// A bid holds a slot of its bidder while its auction is open, so that the agent is
// offered nothing else for it, and nothing else is pushed to it. An agent that was asked
// more often than it has slots may bid for all: what it has no slot left for counts, and
// holds nothing. Such auctions contend, and are decided together (see joint.go).

const (
	// maxOffers is how many open offers an agent is asked to answer at once: what one
	// task.available holds. Beyond, it is not asked.
	maxOffers = 256
	// quorumLeast is how many bids are enough, at least, when a fair part of those who
	// were asked has answered and the slowest twentieth is all there is to wait for.
	quorumLeast = 4
)

// market is all auctions that are open.
type market struct {
	window *auction.Window
	floor  time.Duration
	limit  time.Duration
	open   []*lot // in the order in which they were opened
	// contending counts the bids that hold no slot.
	contending int
}

// lot is one task that is being offered.
type lot struct {
	task    *openTask
	book    *auction.Book
	id      string
	class   *class
	window  time.Duration
	asked   []*agent // whom it was offered to
	bidders []bidder
	// patience is what is known of the bids that may still come.
	patience auction.Patience
	closing  auction.Closing // why it ended
}

// bidder is an agent whose bid counts.
type bidder struct {
	agent *agent
	held  bool // it holds a slot
}

// bidding is an agent's part in the open auctions.
type bidding struct {
	offers     int  // that it was made and has not answered
	bids       int  // slots that its bids hold
	contending int  // bids that hold none
	unheard    bool // it has no control queue, as far as is known
	// calibration is what outcomes have taught of its word.
	calibration auction.Calibration
}

// holds tells whether any bid for it holds a slot.
func (l *lot) holds() bool {
	return slices.ContainsFunc(l.bidders, func(b bidder) bool { return b.held })
}

// sale is what the market remembers of a task beyond its auction.
type sale struct {
	lot *lot // while it is offered
	// next are those whose bids lost, best first: for when the winner does not take it.
	next []auction.Ranked
	id   string // of the auction
	// won is the bid that the dispatch at hand goes by; its Agent is empty without one.
	won auction.Bid
}

// asks tells whether agents are asked before the task is given to anybody.
func (t *openTask) asks() bool { return t.needs.strategy.Market != nil }

// under takes over the window of a policy.
func (m *market) under(p *coordinator.Policy) {
	for i := range p.Strategies {
		if s := p.Strategies[i].Market; s != nil && (m.window == nil || s.Floor != m.floor || s.Ceiling != m.limit) {
			m.floor, m.limit = s.Floor, s.Ceiling
			m.window = auction.NewWindow(s.Floor, s.Ceiling)
		}
	}
}

// give hands the task to the agent that was chosen for it, or offers it first.
func (e *Engine) give(now time.Time, t *openTask, a *agent, d *coordinator.Decision) {
	if !t.asks() || !e.offer(now, t) {
		e.dispatch(now, t, a, d)
	}
}

// mayOffer tells whether the task, should it be one for the market, would find a slot:
// whether more are free in its class than are being sought.
func (e *Engine) mayOffer(t *openTask) bool {
	c := t.needs.class
	if !t.asks() || c.seeking == 0 {
		return true
	}
	left := c.seeking
	for w, word := range c.usable {
		for set := word & e.fleet.ready[w]; set != 0; set &= set - 1 {
			if left -= e.fleet.views[w<<6+bits.TrailingZeros64(set)].Free; left < 0 {
				return true
			}
		}
	}
	return false
}

// offer opens an auction for a task that could be given to somebody now; false when that
// is to no purpose: nobody can be asked, or there is no time for it.
func (e *Engine) offer(now time.Time, t *openTask) bool {
	window := e.market.window.Length()
	if d := t.task.Deadline; !d.IsZero() && d.Sub(now) < 2*window {
		return false
	}
	if t.until.IsZero() {
		t.until = e.pendingUntil(now, t)
	}
	asked := e.invite(t)
	if len(asked) == 0 || t.until.Sub(now) < window {
		return false
	}
	l := &lot{task: t, id: coordinator.DispatchID(t.task.ID, t.attempt), class: t.needs.class, window: window, asked: asked}
	ids := make([]coordinator.AgentID, len(asked))
	for i, a := range asked {
		ids[i] = a.spec.ID
		a.offers++
	}
	l.book = auction.Open(t.task.ID, e.policy.Settings.Seed, ids, now, window, e.appraiser(t))
	l.patience = e.patience(t, asked)
	t.sale = &sale{lot: l, id: l.id}
	t.state = stateBidding
	e.pending.count[t.task.Priority]++
	l.class.seeking++
	e.market.open = append(e.market.open, l)
	for _, a := range asked {
		e.emit(&coordinator.Offer{
			Agent: a.spec.ID, Task: t.task, AuctionID: l.id, Attempt: t.attempt, Required: t.needs.required, Window: window,
		})
	}
	e.timers.schedule(&t.retry, l.book.NextLook(l.patience))
	return true
}

// invite lists whom to ask: of those who could have the task now, preferred ones alone
// where there are any, those who can be told of it and have not too much to answer.
func (e *Engine) invite(t *openTask) []*agent {
	q := e.question(t)
	among := q.feasible
	if q.preferred != nil {
		narrowed := newBitset(len(e.fleet.agents))
		for i, word := range q.feasible {
			narrowed[i] = word & q.preferred[i]
		}
		if narrowed.common(e.fleet.ready) > 0 {
			among = narrowed
		}
	}
	var can []*agent
	among.each(func(i int) {
		if a := e.fleet.agents[i]; e.fleet.ready.has(i) && !a.unheard && a.offers < maxOffers {
			can = append(can, a)
		}
	})
	if t.needs.strategy.Market.InviteAll {
		return can
	}
	score := func(i int) float64 { return -e.fleet.key(q, can[i].number).First }
	picks := auction.Invite(nil, len(can), t.task.ID, e.policy.Settings.Seed, score)
	asked := make([]*agent, len(picks))
	for i, n := range picks {
		asked[i] = can[n]
	}
	return asked
}

// merit is what is known of an agent and a task without asking.
func (e *Engine) merit(s *standings, t *openTask, a *agent) auction.Merit {
	known := s.of(a.number)
	return auction.Merit{
		Coverage: 1, // who lacks a capability is not asked
		Success:  known.Success,
		Depth:    auction.Depth(e.learner.Outcomes(a.number, t.needs.kind)),
		Active:   a.inFlight(),
		Duration: durationOf(known.Duration),
	}
}

// appraiser says what is made of a bid for the task.
func (e *Engine) appraiser(t *openTask) func(auction.Bid) auction.Appraisal {
	mode := auction.Appraised
	if t.needs.strategy.Market.Reported {
		mode = auction.Reported
	}
	s := e.standings(t)
	return func(b auction.Bid) auction.Appraisal {
		a := e.fleet.byID[b.Agent]
		if a == nil {
			return auction.Appraisal{}
		}
		return auction.Appraise(mode, e.merit(&s, t, a), &a.calibration, b)
	}
}

// patience is the best that any of those asked could bid, and how many bids suffice.
func (e *Engine) patience(t *openTask, asked []*agent) auction.Patience {
	p := auction.Patience{Quorum: max(quorumLeast, len(asked)/2), P95: e.market.window.P95()}
	if p.Possible.Fitness = 1; t.needs.strategy.Market.Reported {
		return p
	}
	s, best, active := e.standings(t), 0.0, math.MaxInt
	for _, a := range asked {
		m := e.merit(&s, t, a)
		best, active = max(best, m.Fitness()+a.calibration.Delta()), min(active, m.Active)
	}
	p.Possible.Fitness, p.Possible.Active = min(1, best+fitnessStep), active
	return p
}

// fitnessStep is what rounding may add to a fitness (see auction.Appraise).
const fitnessStep = 0.05

// lotOf finds the open auction of a task by that id; nil when there is none.
func (e *Engine) lotOf(task coordinator.TaskID, id string) *lot {
	number, known := e.memory.lookup(coordinator.KeyOf(task))
	if !known {
		return nil
	}
	if t := e.tasks.of(e.memory.at(number)); t != nil && t.sale != nil && t.sale.id == id {
		return t.sale.lot
	}
	return nil
}

// bidReceived takes a bid in.
func (e *Engine) bidReceived(now time.Time, ev coordinator.BidReceived) {
	a := e.fleet.byID[ev.Agent]
	if a == nil {
		return // it was told nothing, and nobody waits for it
	}
	l := e.lotOf(ev.Task, ev.AuctionID)
	if l == nil {
		e.rejectBid(a, ev.Task, ev.AuctionID, ev.TraceID, coordinator.BidLate)
		return
	}
	e.market.window.Observe(now.Sub(l.book.Opened()))
	waited := l.book.Waiting()
	refusal := l.book.Bid(now, auction.Bid{
		Agent: ev.Agent, Fitness: ev.Fitness, Active: ev.Active, Duration: ev.Duration, Relevance: ev.Relevance,
	})
	if l.book.Waiting() < waited {
		a.offers--
	}
	if refusal != auction.ReasonNone {
		e.rejectBid(a, ev.Task, ev.AuctionID, ev.TraceID, bidRefusals[refusal])
	} else {
		e.hold(l, a)
		e.serve(now, l.class) // its slot was sought among those that are ready; the bidder may not be
	}
	e.consider(now, l)
}

var bidRefusals = [...]coordinator.BidRefusal{
	auction.Late: coordinator.BidLate, auction.Duplicate: coordinator.BidDuplicate, auction.NotInvited: coordinator.BidNotInvited,
	auction.Invalid: coordinator.BidInvalid, auction.Lost: coordinator.BidLost, auction.Full: coordinator.BidFull,
}

func (e *Engine) rejectBid(a *agent, task coordinator.TaskID, id, trace string, why coordinator.BidRefusal) {
	e.emit(coordinator.RejectBid{Agent: a.spec.ID, Task: task, AuctionID: id, TraceID: trace, Reason: why})
}

// hold notes a bidder, and holds a slot of it if one is free.
func (e *Engine) hold(l *lot, a *agent) {
	if slices.ContainsFunc(l.bidders, func(b bidder) bool { return b.agent == a }) {
		return // its bid has taken the place of one before
	}
	b := bidder{agent: a, held: a.number >= 0 && a.free() > 0}
	if b.held {
		a.bids++
		e.fleet.refresh(a)
	} else {
		a.contending++
		e.market.contending++
	}
	if b.held && !l.holds() {
		l.class.seeking-- // its slot is among those held
	}
	l.bidders = append(l.bidders, b)
}

// unheard takes an agent out of all auctions that has no control queue.
func (e *Engine) unheard(now time.Time, ev coordinator.OfferUnheard) {
	a := e.fleet.byID[ev.Agent]
	if a == nil {
		return
	}
	a.unheard = true
	for _, l := range slices.Clone(e.market.open) {
		waited := l.book.Waiting()
		if !slices.Contains(l.asked, a) || !l.book.Withdraw(ev.Agent) {
			continue
		}
		if l.book.Waiting() < waited {
			a.offers--
		}
		e.consider(now, l)
	}
}

// consider decides an auction if waiting is to no purpose any more, or else looks again
// in time.
func (e *Engine) consider(now time.Time, l *lot) {
	if l.task.sale == nil || l.task.sale.lot != l {
		return // it was decided together with another
	}
	closing := l.book.Closing(now, l.patience)
	switch {
	case closing == auction.NotYet:
		e.timers.schedule(&l.task.retry, l.book.NextLook(l.patience))
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
		return slices.Contains(o.bidders, holds) && o.book.Closing(now, o.patience) == auction.NotYet
	})
}

// conclude decides an auction, and with it those with which it contends.
func (e *Engine) conclude(now time.Time, l *lot, closing auction.Closing) {
	lots := e.contending(now, l)
	for _, one := range lots {
		if one != l {
			if c := one.book.Closing(now, one.patience); c != auction.NotYet {
				e.shut(one, c)
			} else {
				e.shut(one, auction.WindowOver)
			}
		} else {
			e.shut(one, closing)
		}
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
	e.freed(now, lots)
}

// serve offers what waits in a class, as long as more slots are free than are sought.
func (e *Engine) serve(now time.Time, c *class) {
	for before := 0; len(c.waiting.items) != before && len(c.waiting.items) > 0 && e.mayOffer(c.waiting.items[0]); {
		before = len(c.waiting.items)
		if i := c.usable.first(e.fleet.ready); i >= 0 {
			e.wake(now, e.fleet.agents[i])
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
	if !l.holds() {
		l.class.seeking--
	}
	for _, b := range l.bidders {
		if b.held {
			b.agent.bids--
			e.fleet.refresh(b.agent)
		} else {
			b.agent.contending--
			e.market.contending--
		}
	}
	l.book.Silent(func(id coordinator.AgentID) {
		if a := e.fleet.known(id); a != nil {
			a.offers--
		}
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
	if winner == nil {
		if i := slices.IndexFunc(ranked, func(r auction.Ranked) bool { return e.mayHave(t, r.Agent) }); i >= 0 {
			winner = &ranked[i]
		}
	}
	ended := &coordinator.AuctionEnded{
		Task: t.task, AuctionID: l.id, Closing: l.closing.String(), Invited: len(l.asked), Bids: len(ranked),
		Window: l.window, Took: now.Sub(l.book.Opened()),
	}
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
		e.fallBack(now, t)
		return
	}
	lost := make([]auction.Ranked, 0, len(ranked)-1)
	for _, r := range ranked {
		if r.Agent != winner.Agent {
			lost = append(lost, r)
		}
	}
	t.sale.next = lost
	e.sell(now, t, winner, ranked)
	e.turnDown(l, lost, coordinator.BidLost)
}

// turnDown has bidders hear that they have not won.
func (e *Engine) turnDown(l *lot, bids []auction.Ranked, why coordinator.BidRefusal) {
	for i := range bids {
		if a := e.fleet.byID[bids[i].Agent]; a != nil {
			e.rejectBid(a, l.task.task.ID, l.id, l.task.task.TraceID, why)
		}
	}
}

// mayHave tells whether the agent could have the task now.
func (e *Engine) mayHave(t *openTask, id coordinator.AgentID) bool {
	a := e.fleet.byID[id]
	return a != nil && e.fleet.ready.has(a.number) && t.needs.class.usable.has(a.number)
}

// marketTerms are what an explanation shows of bids.
var marketTerms = []string{"fitness", "claimed", "active", "duration_s"}

// sell dispatches the task to a bidder.
func (e *Engine) sell(now time.Time, t *openTask, winner *auction.Ranked, ranked []auction.Ranked) {
	a := e.fleet.byID[winner.Agent]
	t.sale.won = winner.Bid
	e.emit(coordinator.Award{
		Agent: a.spec.ID, Task: t.task.ID, AuctionID: t.sale.id, TraceID: t.task.TraceID,
		DispatchID: coordinator.DispatchID(t.task.ID, t.attempt),
	})
	d := &coordinator.Decision{
		Strategy: t.needs.strategy.Name, Terms: marketTerms, Scored: true, Agent: a.spec.ID,
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
func (e *Engine) fallBack(now time.Time, t *openTask) {
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
	if m := t.needs.strategy.Market; m != nil && m.FirstMatch {
		q := e.question(t)
		for i := range e.fleet.agents {
			if q.feasible.has(i) && e.fleet.ready.has(i) {
				first := &coordinator.Decision{}
				*first = *d
				first.Agent, first.Candidates = e.fleet.agents[i].spec.ID, nil
				e.dispatch(now, t, e.fleet.agents[i], first)
				return
			}
		}
	}
	e.dispatch(now, t, a, d)
}

// nextBest gives a task that has come back from the winner of its auction to the next
// best bidder that can take it; false when there is none.
func (e *Engine) nextBest(now time.Time, t *openTask) bool {
	if t.sale == nil {
		return false
	}
	for len(t.sale.next) > 0 {
		r := t.sale.next[0]
		t.sale.next = t.sale.next[1:]
		if e.mayHave(t, r.Agent) {
			e.sell(now, t, &r, append([]auction.Ranked{r}, t.sale.next...))
			return true
		}
	}
	t.sale = nil
	return false
}

// abandon ends the auction of a task that is withdrawn, or judged anew.
func (e *Engine) abandon(now time.Time, t *openTask) {
	l := t.sale.lot
	e.shut(l, auction.WindowOver)
	ranked := l.book.Ranked(nil)
	e.emit(&coordinator.AuctionEnded{
		Task: t.task, AuctionID: l.id, Outcome: coordinator.AuctionAbandoned, Closing: l.closing.String(),
		Invited: len(l.asked), Bids: len(ranked), Window: l.window, Took: now.Sub(l.book.Opened()),
	})
	e.turnDown(l, ranked, coordinator.BidLost)
	t.sale = nil
}

// calibrate learns from how a task ended that its agent had won by a bid.
func (t *openTask) calibrate(a *agent, took time.Duration, succeeded bool) {
	if t.sale != nil && t.sale.won.Agent == a.spec.ID {
		a.calibration.Observe(t.sale.won.Fitness, t.sale.won.Duration, took, succeeded)
	}
}

// calibrated is what outcomes have taught of the agent's word, for people.
func (a *agent) calibrated() coordinator.CalibrationSnapshot {
	c := &a.calibration
	return coordinator.CalibrationSnapshot{Outcomes: c.Outcomes(), Brier: c.Brier(), Bias: c.Bias(), Delta: c.Delta(), Ratio: c.Ratio()}
}
