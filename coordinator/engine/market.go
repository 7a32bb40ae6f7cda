package engine

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
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
	auctions   uint64 // opened so far
	// offers counts those that nobody has answered.
	offers int
}

// bidTakes is what one bid takes the broker and the coordinator when they have nothing
// but bids to do: 60 to 100 µs, measured with 10,000 on two cores.
const bidTakes = 100 * time.Microsecond

// length is how long the next auction takes bids: what the fleet has needed of late, and
// the time that the bids take which are to come before its own.
func (m *market) length() time.Duration {
	return min(m.limit, m.window.Length()+time.Duration(m.offers)*bidTakes)
}

// answered notes that an offer is no longer waited for.
func (m *market) answered(a *agent) {
	a.offers--
	m.offers--
}

// lot is one task that is being offered.
type lot struct {
	task    *openTask
	book    *auction.Book
	id      string
	class   *class
	window  time.Duration
	asked   []*agent // whom it was offered to, but for those who are out of it
	bidders []bidder
	// potential is the best that each of those asked could bid.
	potential map[coordinator.AgentID]auction.Appraisal
	patience  auction.Patience
	closing   auction.Closing // why it ended
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
	// next are those whose bids did not win, best first: for when the winner does not take
	// it, or none of them had a slot. At most MaxRetryAttempts.
	next   []auction.Ranked
	id     string // of the latest auction
	opened time.Time
	silent []coordinator.AgentID // some of those who had not answered when it ended
	// won is the bid that the dispatch at hand goes by; its Agent is empty without one.
	won auction.Bid
}

// silentKept is of how many agents a late answer is still learnt from.
const silentKept = 32

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
	if !t.asks() || !e.nextBest(now, t) && !e.offer(now, t) {
		e.dispatch(now, t, a, d)
	}
}

// mayGive tells whether the task may go to somebody now, or be offered. One that does not
// ask may.
func (e *Engine) mayGive(t *openTask) bool {
	return !t.asks() || t.sale != nil && slices.ContainsFunc(t.sale.next, func(r auction.Ranked) bool { return e.mayHave(t, r.Agent) }) || e.mayOffer(t)
}

// backlog is how many tasks wait that nobody has a slot for: what is being offered is not
// among them.
func (e *Engine) backlog() int { return e.pending.total() - len(e.market.open) }

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
	window := e.market.length()
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
	e.market.auctions++
	l := &lot{task: t, id: auctionID(now, e.market.auctions), class: t.needs.class, window: window, asked: asked}
	ids := make([]coordinator.AgentID, len(asked))
	for i, a := range asked {
		ids[i] = a.spec.ID
		a.offers++
	}
	e.market.offers += len(asked)
	l.book = auction.Open(t.task.ID, e.policy.Settings.Seed, ids, now, window, e.appraiser(t))
	l.potential = e.potential(t, asked)
	l.patience = auction.Patience{Quorum: max(quorumLeast, len(asked)/2), P95: e.market.window.P95()}
	t.sale = &sale{lot: l, id: l.id, opened: now}
	t.state = stateBidding
	e.pending.count[t.task.Priority]++
	l.class.lots++
	l.class.seeking++
	e.market.open = append(e.market.open, l)
	for _, a := range asked {
		e.emit(&coordinator.Offer{
			Agent: a.spec.ID, Task: t.task, AuctionID: l.id, Attempt: t.attempt, Required: t.needs.required, Window: window,
		})
	}
	e.timers.schedule(&t.retry, l.book.NextLook(l.hopes()))
	return true
}

// auctionID names one auction for good, also among those of other leaders and of the same
// task: what was bid in another must not count.
func auctionID(now time.Time, n uint64) string {
	return "auction-" + strconv.FormatInt(now.UnixMilli(), 36) + "-" + strconv.FormatUint(n, 36)
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

// manyAsked is beyond how many it is not looked at any more who could still outdo the
// best bid: each look costs a pass over them.
const manyAsked = 512

// potential is the best that each of those asked could bid, as the auctioneer would see it.
func (e *Engine) potential(t *openTask, asked []*agent) map[coordinator.AgentID]auction.Appraisal {
	if len(asked) > manyAsked {
		return nil
	}
	s, all := e.standings(t), make(map[coordinator.AgentID]auction.Appraisal, len(asked))
	for _, a := range asked {
		m := e.merit(&s, t, a)
		best := auction.Appraisal{Fitness: 1, Duration: m.Duration}
		if !t.needs.strategy.Market.Reported {
			best = auction.Potential(m, &a.calibration)
		}
		all[a.spec.ID] = best
	}
	return all
}

// hopes is the best that may still come.
func (l *lot) hopes() auction.Patience {
	p := l.patience
	if l.potential == nil {
		p.Possible.Fitness = 1
		return p
	}
	p.Possible = auction.Appraisal{Active: math.MaxInt, Duration: math.MaxInt64}
	l.book.Silent(func(id coordinator.AgentID) {
		b := l.potential[id]
		p.Possible.Fitness = max(p.Possible.Fitness, b.Fitness)
		p.Possible.Active, p.Possible.Duration = min(p.Possible.Active, b.Active), min(p.Possible.Duration, b.Duration)
	})
	return p
}

// saleOf finds the auction of a task by its id, open or over; nil when there is none.
func (e *Engine) saleOf(task coordinator.TaskID, id string) *sale {
	number, known := e.memory.lookup(coordinator.KeyOf(task))
	if !known {
		return nil
	}
	if t := e.tasks.of(e.memory.at(number)); t != nil && t.sale != nil && t.sale.id == id {
		return t.sale
	}
	return nil
}

// tooLate learns how long those take who answer when an auction is over: else a window
// that has become too short for the fleet would never be longer again.
func (e *Engine) tooLate(now time.Time, ev *coordinator.BidReceived) {
	if s := e.saleOf(ev.Task, ev.AuctionID); s != nil {
		if i := slices.Index(s.silent, ev.Agent); i >= 0 {
			s.silent = slices.Delete(s.silent, i, i+1)
			e.market.window.Observe(now.Sub(s.opened))
		}
	}
}

// bidReceived takes a bid in.
func (e *Engine) bidReceived(now time.Time, ev coordinator.BidReceived) {
	a := e.fleet.byID[ev.Agent]
	if a == nil {
		e.emit(coordinator.RejectBid{Agent: ev.Agent, Task: ev.Task, AuctionID: ev.AuctionID, TraceID: ev.TraceID, Reason: coordinator.BidNotInvited})
		return
	}
	sale := e.saleOf(ev.Task, ev.AuctionID)
	if sale == nil || sale.lot == nil {
		e.tooLate(now, &ev)
		e.rejectBid(a, ev.Task, ev.AuctionID, ev.TraceID, coordinator.BidLate)
		return
	}
	l := sale.lot
	waited := l.book.Waiting()
	refusal := l.book.Bid(now, auction.Bid{
		Agent: ev.Agent, Fitness: ev.Fitness, Active: ev.Active, Duration: ev.Duration, Relevance: ev.Relevance,
	})
	if l.book.Waiting() < waited { // its first answer
		e.market.answered(a)
		e.market.window.Observe(now.Sub(l.book.Opened()))
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

// offerUnheard notes that an agent has no control queue.
func (e *Engine) offerUnheard(now time.Time, ev coordinator.OfferUnheard) {
	if a := e.fleet.byID[ev.Agent]; a != nil {
		a.unheard = true
		e.outOfMarket(now, a)
	}
}

// outOfMarket takes an agent out of all auctions: it cannot be told of them, or could not
// have the tasks. It is not waited for, and its bids do not count.
func (e *Engine) outOfMarket(now time.Time, a *agent) {
	if a.offers+a.bids+a.contending == 0 {
		return
	}
	for _, l := range slices.Clone(e.market.open) {
		if l.task.sale != nil && l.task.sale.lot == l && e.leaveLot(l, a) { // else it was decided with another
			e.consider(now, l)
			e.serve(now, l.class)
		}
	}
	e.wake(now, a) // its bids hold nothing any more
}

// leaveLot takes an agent out of one auction; false when it was not in it.
func (e *Engine) leaveLot(l *lot, a *agent) bool {
	i := slices.Index(l.asked, a)
	if i < 0 {
		return false
	}
	l.asked = slices.Delete(l.asked, i, i+1)
	waited := l.book.Waiting()
	l.book.Withdraw(a.spec.ID)
	if l.book.Waiting() < waited {
		e.market.answered(a)
	}
	if i := slices.IndexFunc(l.bidders, func(b bidder) bool { return b.agent == a }); i >= 0 {
		held := l.holds()
		e.release(l.bidders[i])
		l.bidders = slices.Delete(l.bidders, i, i+1)
		if held && !l.holds() {
			l.class.seeking++
		}
	}
	return true
}

// release gives back what a bid holds.
func (e *Engine) release(b bidder) {
	if !b.held {
		b.agent.contending--
		e.market.contending--
		return
	}
	b.agent.bids--
	e.fleet.refresh(b.agent)
}

// consider decides an auction if waiting is to no purpose any more, or else looks again
// in time.
func (e *Engine) consider(now time.Time, l *lot) {
	if l.task.sale == nil || l.task.sale.lot != l {
		return // it was decided together with another
	}
	closing := l.book.Closing(now, l.hopes())
	switch {
	case closing == auction.NotYet:
		e.timers.schedule(&l.task.retry, l.book.NextLook(l.hopes()))
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

// conclude decides an auction, and with it those with which it contends.
func (e *Engine) conclude(now time.Time, l *lot, closing auction.Closing) {
	lots := e.contending(now, l)
	for _, one := range lots {
		if one != l {
			if c := one.book.Closing(now, one.hopes()); c != auction.NotYet {
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
	for before := 0; len(c.waiting.items) != before && len(c.waiting.items) > 0 && e.mayGive(c.waiting.items[0]); {
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
		t.sale.next = e.atMostRetries(ranked)
		e.fallBack(now, t)
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

// atMostRetries are the first of the bids, copied: more could not be tried.
func (e *Engine) atMostRetries(bids []auction.Ranked) []auction.Ranked {
	return slices.Clone(bids[:min(len(bids), e.policy.Settings.MaxRetryAttempts)])
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
