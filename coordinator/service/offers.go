package service

import (
	"errors"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
)

// offer asks an agent whether it wants a task. It runs on the loop's goroutine.
func (r *session) offer(f *coordinator.Offer) {
	r.sendOffers(r.offers.Add(f, r.s.now().Add(f.Window), func() { r.sendOffers(r.offers.Take()) }))
}

func (r *session) sendOffers(letters []*outbox.Letter) {
	for _, l := range letters {
		r.outbox.Add(outgoing{letter: &letter{l}})
	}
}

// publishOffers sends a letter.
func (r *session) publishOffers(l *letter) {
	for p, offers := range r.sender().Available(l.Letter) {
		p.Token = r.issue(l)
		r.s.metrics.Offers.Add(float64(offers))
		r.s.metrics.OfferMessages.Inc()
		if err := r.bus.Publish(p); err != nil {
			r.tickets.Redeem(p.Token)
			var encoding *bus.EncodingError
			if errors.As(err, &encoding) {
				l.unheard(r)
			}
			return // else the session has ended: the next leader asks anew
		}
	}
}

// letter is one on its way to its agent.
type letter struct{ *outbox.Letter }

// settled hears whether the agent has a control queue with room in it.
func (l *letter) settled(r *session, outcome bus.Outcome) {
	if outcome == bus.Unroutable || outcome == bus.Rejected {
		l.unheard(r)
	}
}

// unheard reports to the engine that the letter was not delivered.
func (l *letter) unheard(r *session) {
	r.s.observe.OfferUnheard(l.Agent)
	r.s.loop.post(r.number, coordinator.OfferUnheard{Agent: l.Agent})
}
