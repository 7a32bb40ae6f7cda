package service

import (
	"math"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/messages"
	"taskbus/schemas"
)

// ackAll acknowledges requests that are done with.
func (r *session) ackAll(tags []bus.Tag) {
	for _, tag := range tags {
		r.bus.Ack(tag)
	}
}

// onRequest takes a delivery of task.request: a task.cancel, task.bid, task.bids or task.claim. Bids
// come by the thousand at once; nothing here waits for what becomes of one.
func (r *session) onRequest(d bus.Delivery) {
	if r.draining.Load() {
		return // unacknowledged: the broker gives it to the next session
	}
	defer r.surviveRequest(&d)
	r.s.observe.Delivered(&d)
	m, refusal := r.vet.Request(&d)
	switch m := m.(type) {
	case *messages.TaskBid:
		r.onBids(schemas.TaskBid, m.AgentID, []messages.TaskBid{*m}, &d)
	case *messages.TaskBids:
		r.onBids(schemas.TaskBids, m.AgentID, m.Bids, &d)
	case *messages.TaskClaim:
		r.onClaim(m, &d)
	case *messages.TaskCancel:
		refusal = r.onCancel(m, &d)
	default:
		schema, err := r.vet.Perishable(&d, refusal)
		switch {
		case err != nil:
			return // the coordinator stops: the next one gets it
		case schema != "":
			r.ignore(schema, &d, refusal)
			return
		}
	}
	if refusal != nil {
		r.refuse(&intake.Delivery{Message: d, Arrived: r.s.now()}, refusal)
	}
}

// onCancel hands a cancel to the engine if its sender may ask for it, else refuses it.
func (r *session) onCancel(m *messages.TaskCancel, d *bus.Delivery) *messages.Refusal {
	refusal, err := r.vet.Cancel(m, d)
	if refusal != nil || err != nil { // an error: the coordinator stops, and the next one gets it
		return refusal
	}
	token := r.s.callers.NextToken()
	r.requests.Add(token, m.TaskID, d.Tag)
	r.post(coordinator.CancelRequested{Task: m.TaskID, Reason: m.Reason, Token: token})
	return nil
}

// cancelAnswered settles a request by message, or answers the caller that waits.
func (r *session) cancelAnswered(a coordinator.CancelAnswered) {
	done, ours := r.requests.Answered(a)
	if r.ackAll(done); !ours {
		r.s.callers.Answered(a)
	}
}

// onBids hands an agent's bids to the engine. They are acknowledged at once, whatever they
// are worth: auctions live in the engine alone, so that to a later leader they would be
// worth nothing.
func (r *session) onBids(schema string, agent coordinator.AgentID, bids []messages.TaskBid, d *bus.Delivery) {
	defer r.bus.Ack(d.Tag)
	if !r.vet.Authentic(schema, agent, d) {
		r.s.metrics.ForgedBids.Add(float64(len(bids)))
		return
	}
	for i := range bids {
		m := &bids[i]
		relevance := math.NaN()
		if m.HasRelevance {
			relevance = m.Relevance
		}
		r.post(coordinator.BidReceived{
			Agent: agent, Task: m.TaskID, AuctionID: m.AuctionID,
			Fitness: m.Fitness, Active: m.ActiveTasks, Duration: intake.Seconds(m.EstimatedDurationSeconds),
			Relevance: relevance, TraceID: m.CorrelationID,
		})
	}
}

// onClaim hands a claim to the engine. It is acknowledged at once: the agent asks again
// when it hears nothing.
func (r *session) onClaim(m *messages.TaskClaim, d *bus.Delivery) {
	defer r.bus.Ack(d.Tag)
	if !r.vet.Authentic(schemas.TaskClaim, m.AgentID, d) {
		r.s.metrics.ForgedClaims.Inc()
		return
	}
	r.post(coordinator.ClaimReceived{
		Agent: m.AgentID, ClaimID: m.ClaimID, MaxItems: m.MaxItems, Pending: m.PendingItems,
		Capacity: m.CapacityItemsPerSecond, Wait: intake.Seconds(m.WaitSeconds), Token: r.s.callers.NextToken(),
	})
}

// ignore is done with a bid or claim that is not valid. Its agent gets an answer to the bid, if that is possible.
func (r *session) ignore(schema string, d *bus.Delivery, refusal *messages.Refusal) {
	defer r.bus.Ack(d.Tag)
	r.s.observe.InvalidRequest(schema, d, refusal)
	switch {
	case schema == schemas.TaskClaim:
		r.s.metrics.InvalidClaims.Inc()
	case r.vet.Answerable(d, refusal):
		r.reply(coordinator.RejectBid{
			Agent: coordinator.AgentID(refusal.AgentID), Task: refusal.TaskID, AuctionID: refusal.AuctionID,
			Reason: coordinator.BidInvalid, TraceID: refusal.CorrelationID,
		})
	default:
		r.s.metrics.BidsRefused[coordinator.BidInvalid].Inc()
	}
}
