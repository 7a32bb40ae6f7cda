package service

import (
	"cmp"
	"math"
	"sync"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// replyLife is how long an agent has to fetch the answers to its bids and claims. An older answer is of no
// use to it.
const replyLife = time.Minute

// onBids hands an agent's bids to the engine. They are acknowledged at once, whatever they
// are worth: auctions live in the engine alone, so that to a later leader they would be
// worth nothing.
func (r *session) onBids(schema string, agent coordinator.AgentID, bids []messages.TaskBid, d *bus.Delivery) {
	defer r.bus.Ack(d.Tag)
	if !r.authentic(schema, agent, d) {
		r.s.metrics.forgedBids.Add(float64(len(bids)))
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
			Fitness: m.Fitness, Active: m.ActiveTasks, Duration: seconds(m.EstimatedDurationSeconds),
			Relevance: relevance, TraceID: m.CorrelationID,
		})
	}
}

// onClaim hands a claim to the engine. It is acknowledged at once: the agent asks again
// when it hears nothing.
func (r *session) onClaim(m *messages.TaskClaim, d *bus.Delivery) {
	defer r.bus.Ack(d.Tag)
	if !r.authentic(schemas.TaskClaim, m.AgentID, d) {
		r.s.metrics.forgedClaims.Inc()
		return
	}
	r.s.loop.post(r.number, coordinator.ClaimReceived{
		Agent: m.AgentID, ClaimID: m.ClaimID, MaxItems: m.MaxItems, Pending: m.PendingItems,
		Capacity: m.CapacityItemsPerSecond, Wait: seconds(m.WaitSeconds), Token: r.s.callers.token(),
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
	r.s.observe.invalidRequest(schema, d, refusal)
	agent := coordinator.AgentID(refusal.AgentID)
	switch {
	case schema == schemas.TaskClaim:
		r.s.metrics.invalidClaims.Inc()
	case refusal.TaskID != "" && refusal.AuctionID != "" && messages.ValidAgentID(refusal.AgentID) && r.proven(d, agent):
		r.reply(coordinator.RejectBid{
			Agent: agent, Task: refusal.TaskID, AuctionID: refusal.AuctionID, Reason: coordinator.BidInvalid,
			TraceID: refusal.CorrelationID,
		})
	default:
		r.s.metrics.bidsRefused[coordinator.BidInvalid].Inc()
	}
}

// proven reports whether the broker vouches that this agent has sent the message, by its key or its user,
// and neither says otherwise.
func (r *session) proven(d *bus.Delivery, agent coordinator.AgentID) bool {
	key, keyed := keyOf(d)
	if keyed && key != agent || d.UserID != "" && d.UserID != string(agent) {
		return false
	}
	if r.s.config.Load().Auth == config.AuthStrict {
		return d.UserID != ""
	}
	return keyed || d.UserID != ""
}

// seconds returns a time given in seconds, from 0 to as long as a Duration may be.
func seconds(s float64) time.Duration {
	switch ns := s * float64(time.Second); {
	case !(ns > 0): // NaN, too
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	default:
		return time.Duration(ns)
	}
}

// reply publishes what became of a bid or claim to its agent. Any number of them can be asked
// for, so what could be missed is dropped while too much waits to be published; an Award
// comes with a dispatch, and these are bounded.
func (r *session) reply(f coordinator.Effect) {
	r.s.observe.reply(f)
	switch f.(type) {
	case coordinator.Award:
		r.outbox.add(outgoing{reply: f})
	case coordinator.RejectBid:
		if r.mayAnnounce() {
			r.outbox.hold(1)
			r.rejections.add(f, func() {
				for _, f := range r.rejections.take() {
					r.outbox.add(outgoing{reply: f})
					r.outbox.unhold(1)
				}
			})
		}
	default:
		if r.mayAnnounce() {
			r.outbox.add(outgoing{reply: f})
		}
	}
}

// rejectionDelay is how long rejections of bids wait: an auction of fifty bidders has
// forty-nine of them, and its dispatch goes first.
const rejectionDelay = 10 * time.Millisecond

// delayedRejections are rejections that wait for what is more urgent. They gather on the goroutines
// of the loop and of task.request; the timer takes them from one of its own.
type delayedRejections struct {
	mu   sync.Mutex
	list []coordinator.Effect
}

// add has due called after rejectionDelay, once for all that gather meanwhile.
func (g *delayedRejections) add(f coordinator.Effect, due func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.list = append(g.list, f); len(g.list) == 1 {
		time.AfterFunc(rejectionDelay, due)
	}
}

func (g *delayedRejections) take() []coordinator.Effect {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.list
	g.list = nil
	return all
}

// publishReply publishes an answer to an agent. These messages are optional: a lost one changes nothing (a
// dispatch comes all the same, and an agent that claims asks again), so the broker need not return those
// that cannot be routed, their confirms are not awaited, and those of dispatches do not wait behind them.
func (r *session) publishReply(f coordinator.Effect) {
	var p bus.Publication
	switch f := f.(type) {
	case coordinator.Award:
		p = r.control(f.Agent, schemas.TaskAwarded, f.AuctionID+".awarded", f.TraceID)
		p.Body = messages.AppendTaskAwarded(nil, &messages.TaskAwarded{
			TaskID: f.Task, AuctionID: f.AuctionID, AgentID: f.Agent, DispatchID: f.DispatchID, CorrelationID: f.TraceID,
		})
	case coordinator.RejectBid:
		p = r.control(f.Agent, schemas.BidRejected, cmp.Or(f.AuctionID, string(f.Task))+".bid_rejected", f.TraceID)
		p.Body = messages.AppendBidRejected(nil, &messages.BidRejected{
			TaskID: f.Task, AuctionID: f.AuctionID, AgentID: f.Agent,
			Reason: messages.BidReason(f.Reason.String()), CorrelationID: f.TraceID,
		})
	case coordinator.ClaimAnswered:
		p = r.control(f.Agent, schemas.TaskGranted, f.ClaimID+".granted", "")
		p.Body = messages.AppendTaskGranted(nil, &messages.TaskGranted{
			AgentID: f.Agent, ClaimID: f.ClaimID, Granted: f.Granted, Reason: f.Limit,
			Fleet: messages.GrantFleet{
				Agents: f.Fleet.Agents, PendingItems: f.Fleet.Pending, UnclaimedItems: f.Fleet.Unclaimed,
				CapacityItemsPerSecond: f.Fleet.Capacity, TargetDrainSeconds: f.Fleet.Target.Seconds(),
				FairShareItems: f.Fleet.FairShare,
			},
		})
	case coordinator.ClaimsForgotten:
		p = r.control(f.Agent, schemas.TaskGranted, string(f.Agent)+".new_session", "")
		p.Body = messages.AppendTaskGranted(nil, &messages.TaskGranted{AgentID: f.Agent, ClaimID: messages.AnyClaim,
			Reason: "new_session"})
	default:
		return
	}
	p.Token, p.Optional, p.Expiration = tokenIgnored, true, replyLife
	_ = r.bus.Publish(p) // the session has ended, or it can never be sent: the answer is optional
}

// control returns a message to an agent's control queue, but for its body. It is mandatory:
// an agent without that queue cannot be reached.
func (r *session) control(agent coordinator.AgentID, messageType, id, traceID string) bus.Publication {
	return bus.Publication{
		Exchange: bus.ExchangeControl, Key: string(agent),
		Properties: bus.Properties{
			ContentType: contentJSON, Type: messageType, AppID: appID, UserID: r.userID(),
			MessageID: id, CorrelationID: traceID, Timestamp: r.s.now(),
		},
	}
}
