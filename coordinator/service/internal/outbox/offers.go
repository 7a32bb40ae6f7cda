package outbox

import (
	"iter"
	"sync"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// OfferPause is how long an offer waits for others to the same agent: one message
// carries what auctions that begin together have for it, and no agent gets more than
// 500 of them a second, but for those that are full.
const OfferPause = 2 * time.Millisecond

// Letter is what one agent is offered with one task.available, or with as many as it
// takes.
type Letter struct {
	Agent  coordinator.AgentID
	offers []openOffer
}

// openOffer is an offer that is good until its auction closes.
type openOffer struct {
	*coordinator.Offer
	until time.Time
}

// Offers gather on the loop's goroutine; the timer takes them from one of its own.
type Offers struct {
	mu      sync.Mutex
	letters []*Letter // in the order of their first offers
	of      map[coordinator.AgentID]*Letter
	timer   *time.Timer // runs while there are letters
}

// NewOffers returns none.
func NewOffers() *Offers { return &Offers{of: make(map[coordinator.AgentID]*Letter)} }

// Add puts an offer that is good until then with those to the same agent. It gives letters that must not wait:
// all there are, once one of them is full. The first offer of all has due called after
// OfferPause.
func (o *Offers) Add(f *coordinator.Offer, until time.Time, due func()) []*Letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	offer := openOffer{f, until}
	if len(o.letters) == 0 {
		o.timer = time.AfterFunc(OfferPause, due)
	}
	l := o.of[offer.Agent]
	if l == nil {
		l = &Letter{Agent: offer.Agent}
		o.of[offer.Agent] = l
		o.letters = append(o.letters, l)
	}
	if l.offers = append(l.offers, offer); len(l.offers) < messages.MaxOffers {
		return nil
	}
	o.timer.Stop()
	return o.takeAll()
}

// Take returns all letters there are.
func (o *Offers) Take() []*Letter {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takeAll()
}

// takeAll is Take while o.mu is held.
func (o *Offers) takeAll() []*Letter {
	all := o.letters
	o.letters = nil
	clear(o.of)
	return all
}

// Available returns the messages of a letter at now, but for their tokens, and how many offers each has. What is over
// by then, because the broker has held up publishers, is left out: a bid for it would be late.
func (s Sender) Available(l *Letter) iter.Seq2[bus.Publication, int] {
	return func(yield func(bus.Publication, int) bool) {
		rest := make([]messages.TaskOffer, 0, len(l.offers))
		var longest time.Duration // that anything of it is good for
		for _, o := range l.offers {
			if left := o.until.Sub(s.At); left > 0 {
				rest = append(rest, o.message(left))
				longest = max(longest, left)
			}
		}
		for len(rest) > 0 {
			id, before := rest[0].AuctionID, len(rest)
			p := s.Control(l.Agent, schemas.TaskAvailable, id+".available", "")
			p.Expiration = longest
			p.Body, rest = messages.AppendTaskAvailable(nil, l.Agent, rest)
			if !yield(p, before-len(rest)) {
				return
			}
		}
	}
}

// message returns the offer in the words of the bus, to be answered within left.
func (o openOffer) message(left time.Duration) messages.TaskOffer {
	t := o.Task
	return messages.TaskOffer{
		TaskID: t.ID, AuctionID: o.AuctionID, TaskType: t.Type, RequiredCapabilities: o.Required,
		BidWindowMS: max(1, int(left/time.Millisecond)), Attempt: o.Attempt,
		Description: t.Description, Priority: t.Priority, Deadline: t.Deadline, CorrelationID: t.CorrelationID,
	}
}

// RejectionDelay is how long rejections of bids wait: an auction of fifty bidders has
// forty-nine of them, and its dispatch goes first.
const RejectionDelay = 10 * time.Millisecond

// Rejections are rejections that wait for what is more urgent. They gather on the goroutines
// of the loop and of task.request; the timer takes them from one of its own.
type Rejections struct {
	mu   sync.Mutex
	list []coordinator.Effect
}

// Add has due called after RejectionDelay, once for all that gather meanwhile.
func (g *Rejections) Add(f coordinator.Effect, due func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.list = append(g.list, f); len(g.list) == 1 {
		time.AfterFunc(RejectionDelay, due)
	}
}

// Take returns what has gathered.
func (g *Rejections) Take() []coordinator.Effect {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.list
	g.list = nil
	return all
}
