package service

import (
	"cmp"
	"math"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/messages"
	"taskbus/schemas"
)

// onBids hands an agent's bids to the engine. They are acknowledged at once, whatever they
// are worth: auctions live in the engine alone, so that to a later leader they would be
// worth nothing.
func (r *session) onBids(schema string, agent coordinator.AgentID, bids []messages.TaskBid, d *bus.Delivery) {
	defer r.bus.Ack(d.Tag)
	if !r.authentic(schema, agent, d) {
		r.s.metrics.ForgedBids.Add(float64(len(bids)))
		return
	}
	for i := range bids {
		m := &bids[i]
		relevance := math.NaN()
		if m.HasRelevance {
			relevance = m.Relevance
		}
		r.s.loop.post(r.number, coordinator.BidReceived{
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
	if !r.authentic(schemas.TaskClaim, m.AgentID, d) {
		r.s.metrics.ForgedClaims.Inc()
		return
	}
	r.s.loop.post(r.number, coordinator.ClaimReceived{
		Agent: m.AgentID, ClaimID: m.ClaimID, MaxItems: m.MaxItems, Pending: m.PendingItems,
		Capacity: m.CapacityItemsPerSecond, Wait: intake.Seconds(m.WaitSeconds), Token: r.s.callers.token(),
	})
}

// perishable names the schema that a refused request should have followed, if it is a bid
// or a claim: worth nothing a moment later, and not to be kept. It is what it says that it
// is; where it says nothing, what its property type or an agent's key says. What comes by
// such a key and is no cancel counts as a bid, as most of it is.
func (r *session) perishable(d *bus.Delivery, refusal *messages.Refusal) (schema string, err error) {
	switch t := cmp.Or(refusal.MessageType, d.Type); t {
	case schemas.TaskBid, schemas.TaskBids, schemas.TaskClaim:
		return t, nil
	case schemas.TaskCancel:
		return "", nil
	}
	_, agent, err := r.agentsKey(d)
	if err != nil || !agent {
		return "", err
	}
	return schemas.TaskBid, nil
}

// ignore is done with a bid or claim that is not valid. Its agent gets an answer to the bid, if it can be
// read which one, and if it is the sender beyond doubt: no agent can have another's bids called invalid.
func (r *session) ignore(schema string, d *bus.Delivery, refusal *messages.Refusal) {
	defer r.bus.Ack(d.Tag)
	r.s.observe.InvalidRequest(schema, d, refusal)
	agent := coordinator.AgentID(refusal.AgentID)
	switch {
	case schema == schemas.TaskClaim:
		r.s.metrics.InvalidClaims.Inc()
	case refusal.TaskID != "" && refusal.AuctionID != "" && messages.ValidAgentID(refusal.AgentID) && r.proven(d, agent):
		r.reply(coordinator.RejectBid{
			Agent: agent, Task: refusal.TaskID, AuctionID: refusal.AuctionID, Reason: coordinator.BidInvalid,
			TraceID: refusal.CorrelationID,
		})
	default:
		r.s.metrics.BidsRefused[coordinator.BidInvalid].Inc()
	}
}

// proven reports whether the broker vouches that this agent has sent the message, by its key or its user,
// and neither says otherwise.
func (r *session) proven(d *bus.Delivery, agent coordinator.AgentID) bool {
	key, keyed := intake.KeyOf(d)
	if keyed && key != agent || d.UserID != "" && d.UserID != string(agent) {
		return false
	}
	if r.s.config.Load().Auth == config.AuthStrict {
		return d.UserID != ""
	}
	return keyed || d.UserID != ""
}

// reply publishes what became of a bid or claim to its agent. Any number of them can be asked
// for, so what could be missed is dropped while too much waits to be published; an Award
// comes with a dispatch, and these are bounded.
func (r *session) reply(f coordinator.Effect) {
	r.s.observe.Reply(f)
	switch f.(type) {
	case coordinator.Award:
		r.outbox.Add(outgoing{reply: f})
	case coordinator.RejectBid:
		if r.mayAnnounce() {
			r.outbox.Hold(1)
			r.rejections.Add(f, func() {
				for _, f := range r.rejections.Take() {
					r.outbox.Add(outgoing{reply: f})
					r.outbox.Unhold(1)
				}
			})
		}
	default:
		if r.mayAnnounce() {
			r.outbox.Add(outgoing{reply: f})
		}
	}
}

// publishReply publishes an answer to an agent.
func (r *session) publishReply(f coordinator.Effect) {
	if p, is := r.sender().Reply(f); is {
		_ = r.bus.Publish(p) // the session has ended, or it can never be sent: the answer is optional
	}
}

// sender is what messages say of this coordinator.
func (r *session) sender() outbox.Sender { return outbox.Sender{User: r.userID(), At: r.s.now()} }
