package service

import (
	"errors"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// offerPause is how long an offer waits for others to the same agent: one message
// carries what auctions that begin together have for it, and no agent gets more than
// 500 of them a second, but for those that are full.
const offerPause = 2 * time.Millisecond

// letter is what one agent is offered with one task.available, or with as many as it
// takes.
type letter struct {
	agent  coordinator.AgentID
	offers []openOffer
}

// openOffer is an offer that is good until its auction closes.
type openOffer struct {
	*coordinator.Offer
	until time.Time
}

// offers gather on the loop's goroutine; the timer takes them from one of its own.
type offers struct {
	mu      sync.Mutex
	letters []*letter // in the order of their first offers
	of      map[coordinator.AgentID]*letter
	timer   *time.Timer // runs while there are letters
}

func newOffers() *offers { return &offers{of: make(map[coordinator.AgentID]*letter)} }

// add puts an offer with those to the same agent. It gives letters that must not wait:
// all there are, once one of them is full. The first offer of all has due called after
// offerPause.
func (o *offers) add(offer openOffer, due func()) []*letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.letters) == 0 {
		o.timer = time.AfterFunc(offerPause, due)
	}
	l := o.of[offer.Agent]
	if l == nil {
		l = &letter{agent: offer.Agent}
		o.of[offer.Agent] = l
		o.letters = append(o.letters, l)
	}
	if l.offers = append(l.offers, offer); len(l.offers) < messages.MaxOffers {
		return nil
	}
	o.timer.Stop()
	return o.takeAll()
}

// take returns all letters there are.
func (o *offers) take() []*letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takeAll()
}

// takeAll is take while o.mu is held.
func (o *offers) takeAll() []*letter {
	all := o.letters
	o.letters = nil
	clear(o.of)
	return all
}

// offer asks an agent whether it wants a task. It runs on the loop's goroutine.
func (r *session) offer(f *coordinator.Offer) {
	r.sendOffers(r.offers.add(openOffer{f, r.s.now().Add(f.Window)}, func() { r.sendOffers(r.offers.take()) }))
}

func (r *session) sendOffers(letters []*letter) {
	for _, l := range letters {
		r.outbox.add(outgoing{letter: l})
	}
}

// publishOffers sends a letter. What is over by now, because the broker has held up
// publishers, is left out: a bid for it would be late.
func (r *session) publishOffers(l *letter) {
	now := r.s.now()
	rest := make([]messages.TaskOffer, 0, len(l.offers))
	var longest time.Duration // that anything of it is good for
	for _, o := range l.offers {
		if left := o.until.Sub(now); left > 0 {
			rest = append(rest, o.message(left))
			longest = max(longest, left)
		}
	}
	for len(rest) > 0 {
		id, before := rest[0].AuctionID, len(rest)
		p := r.control(l.agent, schemas.TaskAvailable, id+".available", "")
		p.Expiration = longest
		p.Body, rest = messages.AppendTaskAvailable(nil, l.agent, rest)
		p.Token = r.tickets.issue(l)
		r.s.metrics.offers.Add(float64(before - len(rest)))
		r.s.metrics.offerMessages.Inc()
		if err := r.bus.Publish(p); err != nil {
			r.tickets.redeem(p.Token)
			var encoding *bus.EncodingError
			if errors.As(err, &encoding) {
				l.unheard(r)
			}
			return // else the session has ended: the next leader asks anew
		}
	}
}

// message returns the offer in the words of the bus, to be answered within left.
func (o openOffer) message(left time.Duration) messages.TaskOffer {
	t := o.Task
	return messages.TaskOffer{
		TaskID: t.ID, AuctionID: o.AuctionID, TaskType: t.Type, RequiredCapabilities: o.Required,
		BidWindowMS: max(1, int(left/time.Millisecond)), Attempt: o.Attempt,
		Description: t.Description, Priority: t.Priority, Deadline: t.Deadline, CorrelationID: t.TraceID,
	}
}

// settled hears whether the agent has a control queue with room in it.
func (l *letter) settled(r *session, outcome bus.Outcome) {
	if outcome == bus.Unroutable || outcome == bus.Rejected {
		l.unheard(r)
	}
}

// unheard reports to the engine that the letter was not delivered.
func (l *letter) unheard(r *session) {
	r.s.observe.offerUnheard(l.agent)
	r.s.loop.post(r.number, coordinator.OfferUnheard{Agent: l.agent})
}
