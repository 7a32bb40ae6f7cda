package service

import (
	"errors"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/messages"
	"taskbus/schemas"
)

// What is published for agents beside dispatches, and into lanes.

// withdraw orders an agent to drop or stop a dispatch. It is mandatory:
// an agent without a control queue cannot be reached. Whether it stops is for
// its result to say.
func (r *session) withdraw(w *coordinator.Withdraw) {
	_ = r.send(r.sender().Withdrawal(w), func(outcome bus.Outcome) { // else the session has ended
		if outcome == bus.Unknown {
			return // the session ends; the next one sends it again
		}
		r.ackAll(r.requests.Told(w.Task))
		if outcome == bus.Confirmed || w.Token == 0 { // 0: no request waits: the dispatch is over, or its time is
			return
		}
		r.s.observe.CannotTell(w, outcome)
		r.announce(schemas.TaskCancelRequested+"."+string(w.Agent), schemas.TaskCancelRequested,
			string(w.Task)+".cancel_requested", w.TraceID, messages.AppendTaskCancelRequested(nil, w, r.s.now()))
		r.s.callers.Untold(w.Token)
	})
}

// offer asks an agent whether it wants a task. It runs on the loop's goroutine.
func (r *session) offer(f *coordinator.Offer) {
	r.sendOffers(r.offers.Add(f, r.s.now().Add(f.Window), func() { r.sendOffers(r.offers.Take()) }))
}

func (r *session) sendOffers(letters []*outbox.Letter) {
	for _, l := range letters {
		r.outbox.Add(func() { r.publishOffers(l) })
	}
}

// publishOffers sends a letter. The engine hears if the agent has no control queue with room in it.
func (r *session) publishOffers(l *outbox.Letter) {
	unheard := func() {
		r.s.observe.OfferUnheard(l.Agent)
		r.post(coordinator.OfferUnheard{Agent: l.Agent})
	}
	for p, offers := range r.sender().Available(l) {
		r.s.metrics.Offers.Add(float64(offers))
		r.s.metrics.OfferMessages.Inc()
		err := r.send(p, func(outcome bus.Outcome) {
			if outcome == bus.Unroutable || outcome == bus.Rejected {
				unheard()
			}
		})
		var encoding *bus.EncodingError
		if errors.As(err, &encoding) {
			unheard()
		}
		if err != nil {
			return // the session has ended: the next leader asks anew
		}
	}
}

// reply publishes what became of a bid or claim to its agent. Any number of them can be asked
// for, so what could be missed is dropped while too much waits to be published; an Award
// comes with a dispatch, and these are bounded.
func (r *session) reply(f coordinator.Effect) {
	r.s.observe.Reply(f)
	publish := func(f coordinator.Effect) func() {
		return func() {
			if p, is := r.sender().Reply(f); is {
				_ = r.bus.Publish(p) // the session has ended, or it can never be sent: the answer is optional
			}
		}
	}
	switch f.(type) {
	case coordinator.Award:
		r.outbox.Add(publish(f))
	case coordinator.RejectBid:
		if r.mayAnnounce() {
			r.outbox.Hold(1)
			r.rejections.Add(f, func() {
				for _, f := range r.rejections.Take() {
					r.outbox.Add(publish(f))
					r.outbox.Unhold(1)
				}
			})
		}
	default:
		if r.mayAnnounce() {
			r.outbox.Add(publish(f))
		}
	}
}

// sender is what messages say of this coordinator.
func (r *session) sender() outbox.Sender { return outbox.Sender{User: r.userID(), At: r.s.now()} }

// move sends a task to its lane: the bytes that came, with the properties that
// matter when it comes out again. Of its headers only the trace is kept, as in task.dead.
func (r *session) move(m *coordinator.MoveToLane) {
	h := r.held.Get(m.Handle)
	if h == nil {
		return
	}
	err := r.send(outbox.Move(m, &h.Message), func(outcome bus.Outcome) {
		switch outcome {
		case bus.Confirmed:
			failpoint.Hit(failpoint.AfterLaneConfirm)
			r.held.Conclude(m.Handle, intake.Moved)
		case bus.Unroutable:
			r.lanes.Missing(m.Lane)
		}
		r.post(coordinator.LaneMoved{Handle: m.Handle, Outcome: publishOutcomes[outcome]})
	})
	if err == nil {
		failpoint.Hit(failpoint.AfterLanePublish)
		return
	}
	outcome := coordinator.PublishAbandoned
	var encoding *bus.EncodingError
	if errors.As(err, &encoding) {
		outcome = coordinator.PublishNotSent
	}
	r.post(coordinator.LaneMoved{Handle: m.Handle, Outcome: outcome})
}
