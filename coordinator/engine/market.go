package engine

import (
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
func (t *openTask) asks() bool { return t.needs.strategy.Market != nil && !t.alone }

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
