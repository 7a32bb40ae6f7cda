package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

const (
	// maxOffers is how many offers may wait for the Bidder; by what is more it could
	// hardly be in time.
	maxOffers = 1024
	// awardGrace is for how long a slot is kept for a task that was won.
	awardGrace = 5 * time.Second
	// requestToken marks the publications to task.request; a dispatch never has it as
	// its number.
	requestToken = 1 << 63
)

// offered is an offer that waits for the Bidder.
type offered struct {
	link  *link // that it came by: the answer goes the same way
	offer messages.TaskOffer
	until time.Time
}

// offer takes a task.available. It does not wait for the Bidder.
func (w *worker) offer(l *link, m *messages.TaskAvailable) {
	if w.cfg.Bidder == nil {
		return // the coordinator waits for the window and no longer
	}
	now := time.Now()
	all := make([]offered, len(m.Offers))
	for i, o := range m.Offers {
		all[i] = offered{l, o, now.Add(time.Duration(o.BidWindowMS) * time.Millisecond)}
	}
	if dropped := w.offers.push(all); dropped > 0 {
		w.metrics.answered(offerDropped, dropped)
		w.log.Warn("the Bidder is too slow: offers are not answered", slog.Int("offers", dropped),
			slog.Int("waiting", maxOffers))
	}
}

// offerQueue holds the offers that wait for the Bidder. What comes in one message is there
// at once, so that it is answered together whenever the Bidder's goroutine looks.
type offerQueue struct {
	mu   sync.Mutex
	list []offered
	some chan struct{} // told when there are some
}

// push adds offers, and returns for how many there was no room.
func (q *offerQueue) push(all []offered) (dropped int) {
	q.mu.Lock()
	n := min(len(all), maxOffers-len(q.list))
	q.list = append(q.list, all[:n]...)
	q.mu.Unlock()
	signal(q.some)
	return len(all) - n
}

// pop takes the oldest one. ok is false where there is none.
func (q *offerQueue) pop() (o offered, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return o, false
	}
	o = q.list[0]
	q.list[0] = offered{}
	q.list = q.list[1:]
	return o, true
}

// answerOffers asks the Bidder until life has ended. A Bidder that hangs holds up
// nothing but the bids.
func (w *worker) answerOffers(life context.Context) {
	returns := false
	defer func() {
		if !returns { // the Bidder has ended the goroutine
			go w.answerOffers(life)
		}
	}()
	for {
		for o, ok := w.offers.pop(); ok && life.Err() == nil; o, ok = w.offers.pop() {
			w.answerTogether(o)
		}
		select {
		case <-w.offers.some:
		case <-life.Done():
			returns = true
			return
		}
	}
}

// bidPause is for how long a bid waits for others at most: a Bidder that takes its time
// must not make the first too late.
const bidPause = 2 * time.Millisecond

// answerTogether answers an offer and those that wait behind it, and bids for all of them
// with one message: what comes together is answered together.
func (w *worker) answerTogether(o offered) {
	all := bidding{w: w, link: o.link}
	defer all.send() // also when the Bidder ends the goroutine
	begun := time.Now()
	for {
		if m, wants := w.answerOffer(o); wants {
			all.bids = append(all.bids, m)
		}
		if len(all.bids) == messages.MaxBids || len(all.bids) > 0 && time.Since(begun) >= bidPause {
			return
		}
		var more bool
		if o, more = w.offers.pop(); !more {
			return
		}
		if o.link != all.link {
			all.send()
			all.link = o.link
		}
	}
}

// bidding is bids that go by one link.
type bidding struct {
	w    *worker
	link *link
	bids []messages.TaskBid
}

// send publishes them, and begins anew.
func (b *bidding) send() {
	w, bids := b.w, b.bids
	b.bids = nil
	var body []byte
	p := bus.Properties{Timestamp: time.Now()}
	switch len(bids) {
	case 0:
		return
	case 1:
		p.Type, p.MessageID, p.CorrelationID = "task.bid", bids[0].AuctionID, bids[0].CorrelationID
		body = messages.AppendTaskBid(nil, &bids[0])
	default:
		p.Type, p.MessageID = "task.bids", bids[0].AuctionID
		body, _ = messages.AppendTaskBids(nil, bids[0].AgentID, bids) // never more than MaxBids
	}
	// They do not expire: task.request would hand what does to task.dead, where people look
	// for what is wrong. The coordinator finds by itself that a bid is too late.
	err := w.request(b.link, p, body)
	if err == nil {
		w.metrics.answered(offerBid, len(bids))
		return
	}
	w.metrics.answered(offerUnsent, len(bids))
	w.log.Debug("bids were not sent", slog.Int("bids", len(bids)), slog.String("task_id", string(bids[0].TaskID)),
		slog.Any("error", err))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range bids {
		w.bids.remove(bids[i].TaskID, bids[i].AuctionID)
	}
}

// What became of an offer: values of the label answer.
const (
	offerBid      = "bid"
	offerDeclined = "declined"
	offerLate     = "late"     // its window had closed
	offerBroken   = "broken"   // the Bidder panicked, or its bid says what cannot be
	offerDropped  = "dropped"  // too many waited
	offerUnsent   = "unsent"   // the session had ended
	offerRepeated = "repeated" // the same auction again
)

// answerOffer makes a bid for one offer, if the agent wants it, and remembers it. It counts
// what it does not bid for.
func (w *worker) answerOffer(o offered) (m messages.TaskBid, wants bool) {
	answer := offerBroken
	defer func() {
		if !wants {
			w.metrics.answered(answer, 1)
		}
	}()
	if !time.Now().Before(o.until) {
		answer = offerLate
		return
	}
	offer, repeated, leaving := w.present(o)
	switch {
	case repeated:
		answer = offerRepeated
		return
	case leaving:
		answer = offerDeclined
		return
	}
	bid, would, fine := w.ask(offer)
	if !fine {
		return
	}
	if !would {
		answer = offerDeclined
		return
	}
	if fault := bid.fault(); fault != "" {
		w.log.Warn("the Bidder's bid is not sent: "+fault, aboutOffer(o.offer))
		return
	}
	m, answer = w.bid(o, bid)
	return m, answer == offerBid
}

// present is what the Bidder is told. repeated: there is a bid in this auction;
// leaving: the agent drains.
func (w *worker) present(o offered) (offer Offer, repeated, leaving bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	typical, _ := w.means.get(o.offer.TaskType)
	return Offer{
		TaskID: string(o.offer.TaskID), Type: o.offer.TaskType, Required: o.offer.RequiredCapabilities,
		Description: o.offer.Description, Priority: int(o.offer.Priority), Deadline: o.offer.Deadline,
		Attempt: o.offer.Attempt, CorrelationID: o.offer.CorrelationID,
		Until: o.until, Typical: typical.duration(), Agent: w.state(time.Now()),
	}, w.bids.has(o.offer.TaskID, o.offer.AuctionID), w.draining
}

// state is how much there is to do. mu is held.
func (w *worker) state(now time.Time) State {
	s := State{Slots: w.cfg.Slots, Active: w.active(), Bids: w.bids.count(now), Capabilities: w.cfg.Capabilities}
	s.Free = max(0, s.Slots-s.Active-s.Bids)
	return s
}

// active is how many tasks are in hand. mu is held.
func (w *worker) active() int { return len(w.running) + len(w.waiting) }

// ask calls the Bidder. It is not fine when that panicked, or ended its goroutine.
func (w *worker) ask(o Offer) (bid Bid, wants, fine bool) {
	defer func() {
		if fine {
			return
		}
		if p := recover(); p != nil {
			w.bidderPanicked(o, p)
		}
	}()
	bid, wants = w.cfg.Bidder(o)
	return bid, wants, true
}

// bidderPanicked tells the log, in words that quote nothing of the offer.
func (w *worker) bidderPanicked(o Offer, p any) {
	w.log.Error("the Bidder panicked; there is no bid", slog.String("task_id", o.TaskID),
		slog.String("trace_id", o.CorrelationID),
		slog.String("panic_type", fmt.Sprintf("%T", p)), slog.String("stack", panicStack()))
}

// bid is what there is to send for a bid, which is remembered, if there is time for it.
func (w *worker) bid(o offered, b Bid) (m messages.TaskBid, answer string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	m = messages.TaskBid{
		TaskID: o.offer.TaskID, AuctionID: o.offer.AuctionID, AgentID: messages.AgentID(w.cfg.ID),
		Fitness: b.Fitness, ActiveTasks: w.active(), EstimatedDurationSeconds: b.Duration.Seconds(),
		Relevance: b.Relevance, HasRelevance: b.HasRelevance, CorrelationID: o.offer.CorrelationID,
	}
	switch {
	case w.draining:
		return m, offerDeclined
	case !now.Before(o.until):
		return m, offerLate
	}
	w.bids.add(m.TaskID, m.AuctionID, o.until)
	return m, offerBid
}

// request publishes to task.request, by the exchange and with a key of the agent's own.
// It may wait for the broker to take messages.
func (w *worker) request(l *link, p bus.Properties, body []byte) error {
	p.ContentType, p.UserID = contentType, l.session.User()
	return l.session.Publish(bus.Publication{
		Token: requestToken, Exchange: bus.ExchangeAgents, Key: bus.QueueRequest + "." + w.cfg.ID, Properties: p, Body: body,
	})
}
