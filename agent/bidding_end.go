package agent

import (
	"log/slog"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// How bids end: they are awarded, turned down, or not answered.

// requestSettled hears what became of a bid or a claim. None is sent again: a later one
// takes its place.
func (w *worker) requestSettled(l *link, outcome bus.Outcome) {
	if outcome == bus.Confirmed {
		return
	}
	w.mu.Lock()
	l.requestRefusals++
	first := l.requestRefusals == 1
	w.mu.Unlock()
	if first {
		w.log.Warn("the broker does not take this agent's bids and claims: is the queue "+bus.QueueRequest+
			" bound to the exchange "+bus.ExchangeAgents+
			"? A coordinator sees to that, or taskbus topology apply", slog.String("outcome", outcome.String()))
	}
}

// awarded keeps the slot until the dispatch comes, which may have come already.
func (w *worker) awarded(m *messages.TaskAwarded) {
	if w.cfg.Bidder == nil {
		return // a process before this one bid under its id
	}
	now := time.Now()
	w.mu.Lock()
	_, ended := w.ended.get(m.DispatchID)
	if ended || w.open[m.DispatchID] != nil {
		w.bids.remove(m.TaskID, m.AuctionID)
	} else {
		w.bids.add(m.TaskID, m.AuctionID, now.Add(awardGrace))
	}
	w.mu.Unlock()
	w.metrics.bidOutcome("won")
}

// bidRejected gives the slot free that was kept for a bid.
func (w *worker) bidRejected(m *messages.BidRejected) {
	if w.cfg.Bidder == nil {
		return
	}
	if m.Reason != messages.BidDuplicate { // then another bid of ours counts
		w.mu.Lock()
		w.bids.remove(m.TaskID, m.AuctionID)
		w.mu.Unlock()
	}
	w.metrics.bidOutcome(string(m.Reason))
	w.log.Debug("a bid has not won", slog.String("task_id", string(m.TaskID)), slog.String("trace_id", m.CorrelationID),
		slog.String("reason", string(m.Reason)))
}

// aboutOffer is how an offer is named in the log.
func aboutOffer(o messages.TaskOffer) slog.Attr {
	return slog.GroupAttrs("",
		slog.String("task_id", string(o.TaskID)),
		slog.String("auction_id", o.AuctionID),
		slog.String("trace_id", o.CorrelationID))
}

// openBids are the bids of which nothing has been heard. The zero value is ready for
// use; worker.mu guards it.
type openBids struct {
	byTask map[messages.TaskID]openBid // a task is in one auction at a time
	first  time.Time                   // none ends before
}

type openBid struct {
	auction string
	until   time.Time // when it does not count any more
}

func (b *openBids) add(task messages.TaskID, auction string, until time.Time) {
	if b.byTask == nil {
		b.byTask = make(map[messages.TaskID]openBid)
	}
	if len(b.byTask) == 0 || until.Before(b.first) {
		b.first = until
	}
	b.byTask[task] = openBid{auction, until}
}

func (b *openBids) has(task messages.TaskID, auction string) bool {
	return b.byTask[task].auction == auction
}

// remove forgets the bid in this auction, if there is one.
func (b *openBids) remove(task messages.TaskID, auction string) {
	if b.has(task, auction) {
		delete(b.byTask, task)
	}
}

// arrived forgets what was bid for a task: it is here.
func (b *openBids) arrived(task messages.TaskID) { delete(b.byTask, task) }

// count is how many are open.
func (b *openBids) count(now time.Time) int {
	if len(b.byTask) == 0 || now.Before(b.first) {
		return len(b.byTask)
	}
	b.first = time.Time{}
	for task, bid := range b.byTask {
		switch {
		case !now.Before(bid.until):
			delete(b.byTask, task)
		case b.first.IsZero() || bid.until.Before(b.first):
			b.first = bid.until
		}
	}
	return len(b.byTask)
}
