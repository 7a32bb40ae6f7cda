package engine

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

// Bids as they come, what they hold, and who is out of an auction.

// saleOf finds the auction of a task by its id, open or over, or without an id the one that
// the task has; nil when there is none.
func (e *Engine) saleOf(task coordinator.TaskID, id string) *sale {
	if t := e.openTask(task); t != nil && t.sale != nil && (id == "" || t.sale.id == id) {
		return t.sale
	}
	return nil
}

// tooLate learns how long those take who answer when an auction is over: else a window
// that has become too short for the fleet would never be longer again.
func (m *market) tooLate(now time.Time, s *sale, agent coordinator.AgentID) {
	if i := slices.Index(s.silent, agent); i >= 0 {
		s.silent = slices.Delete(s.silent, i, i+1)
		m.window.Observe(now.Sub(s.opened))
	}
}

// bidReceived takes a bid in.
func (e *Engine) bidReceived(now time.Time, ev coordinator.BidReceived) {
	a := e.fleet.byID[ev.Agent]
	if a == nil {
		e.rejectBid(ev.Agent, ev.Task, ev.AuctionID, ev.TraceID, coordinator.BidNotInvited)
		return
	}
	sale := e.saleOf(ev.Task, ev.AuctionID)
	if sale != nil {
		ev.AuctionID = sale.id // the bid may have named the task alone
	}
	if sale == nil || sale.lot == nil {
		if sale != nil {
			e.market.tooLate(now, sale, ev.Agent)
		}
		e.rejectBid(ev.Agent, ev.Task, ev.AuctionID, ev.TraceID, coordinator.BidLate)
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
	if refusal != coordinator.BidCounts {
		e.rejectBid(ev.Agent, ev.Task, ev.AuctionID, ev.TraceID, refusal)
	} else {
		e.hold(l, a)
		e.serve(now, l.class) // its slot was sought among those that are ready; the bidder may not be
	}
	e.consider(now, l)
}

func (e *Engine) rejectBid(agent coordinator.AgentID, task coordinator.TaskID, id, trace string, why coordinator.BidRefusal) {
	e.emit(coordinator.RejectBid{Agent: agent, Task: task, AuctionID: id, TraceID: trace, Reason: why})
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
		if l.isOpen() && e.leaveLot(l, a) { // else it was decided with another
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
