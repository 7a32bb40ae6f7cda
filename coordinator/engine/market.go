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

// bidTakes is what one bid that comes alone takes broker and coordinator when they have nothing
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

// isOpen tells whether bids are still taken for it.
func (l *lot) isOpen() bool { return l.task.sale != nil && l.task.sale.lot == l }

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
	if !t.asks() {
		e.assignBest(now, t, a, d)
		return
	}
	if lacks, without := e.lacksFor(now, t); lacks != nil { // nobody need bid for it
		e.lacksQuota(now, t, lacks, without)
		return
	}
	if e.nextBest(now, t) {
		return
	}
	if why := e.offer(now, t); why != coordinator.AuctionNone {
		e.emit(&coordinator.AuctionEnded{Task: t.task, Outcome: why})
		e.withoutBid(now, t, a, d, why)
	}
}

// explainMarket adds to how the task would be decided that agents would be asked first, or
// why not.
func (e *Engine) explainMarket(now time.Time, t *openTask, d *coordinator.Decision) {
	if m := t.needs.strategy.Market; m.FirstMatch {
		d.Agent, d.First = e.fleet.agents[t.needs.class.usable.first(e.fleet.ready)].spec.ID, true
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

// windowFor is how long bids for the task are to be taken: at most half of the time that
// it may wait, so that the other half is left for the work and for a second try; 0 when
// that is less than the shortest window.
func (e *Engine) windowFor(now time.Time, t *openTask) time.Duration {
	until := t.until
	if until.IsZero() {
		until = e.pendingUntil(now, t)
	}
	if d := t.task.Deadline; !d.IsZero() && d.Before(until) {
		until = d
	}
	window := min(e.market.length(), until.Sub(now)/2)
	if window < e.market.floor {
		return 0
	}
	return window
}

// offer opens an auction for a task that could be given to somebody now. It returns
// AuctionNone, or why there is none.
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
	return coordinator.AuctionNone
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
	if preferred, n := q.narrow(e.fleet.ready); n > 0 {
		among = preferred
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
