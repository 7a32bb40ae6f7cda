package engine

import (
	"math"
	"math/bits"
	"strconv"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

// How tasks are offered: when, to whom, and for how long.

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
	if s := &e.policy.Settings; !s.CountsWaiting { // somebody could have it now: it begins anew
		until = later(until, now.Add(s.AssignmentTimeout))
	}
	until = e.within(t, until)
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
