package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
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
	m, refusal := r.readRequest(&d)
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
		schema, err := r.perishable(&d, refusal)
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

// readRequest reads a request, or refuses it.
func (r *session) readRequest(d *bus.Delivery) (messages.Request, *messages.Refusal) {
	if refusal := intake.CheckProperties(d); refusal != nil {
		return nil, refusal
	}
	m, refusal := r.s.decoder.DecodeRequest(d.Body)
	switch m := m.(type) {
	case *messages.TaskBid:
		if refusal = r.knows(schemas.TaskBid, m.Unknown, string(m.AgentID), d); refusal != nil {
			refusal.TaskID, refusal.AuctionID, refusal.CorrelationID = m.TaskID, m.AuctionID, m.CorrelationID
		}
	case *messages.TaskBids:
		r.knows(schemas.TaskBids, m.Unknown, string(m.AgentID), d)
	case *messages.TaskClaim:
		r.knows(schemas.TaskClaim, m.Unknown, string(m.AgentID), d)
	case *messages.TaskCancel:
		if refusal = r.knows(schemas.TaskCancel, m.Unknown, "", d); refusal != nil {
			refusal.TaskID, refusal.CorrelationID = m.TaskID, m.CorrelationID
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	return m, nil
}

// onCancel hands a cancel to the engine if its sender may ask for it, else refuses it.
func (r *session) onCancel(m *messages.TaskCancel, d *bus.Delivery) *messages.Refusal {
	why, err := r.mayNotCancel(d.UserID)
	if why == "" && err == nil {
		why, err = r.byAgentsKey(d)
	}
	switch {
	case err != nil:
		return nil // the coordinator stops: the next one gets it
	case why != "":
		return &messages.Refusal{
			MessageType: schemas.TaskCancel, TaskID: m.TaskID, CorrelationID: m.CorrelationID, Keyword: "user_id", Text: why,
		}
	}
	token := r.s.callers.token()
	r.requests.Add(token, m.TaskID, d.Tag)
	r.s.loop.post(r.number, coordinator.CancelRequested{Task: m.TaskID, Reason: m.Reason, Token: token})
	return nil
}

// mayNotCancel says why a cancel of this user does not count (agents.auth); empty
// when it does. An agent has no business cancelling tasks: of its own it sends the
// result, and the others are not its own.
func (r *session) mayNotCancel(user string) (why string, err error) {
	mode := r.s.config.Load().Auth
	if mode == config.AuthOff {
		return "", nil
	}
	if user == "" {
		why = "a cancel must carry the property user_id, which the broker checks against the sender (agents.auth: strict)"
	} else {
		agent, err := r.isAgent(coordinator.AgentID(user))
		if err != nil || !agent {
			return "", err
		}
		why = fmt.Sprintf("user %q is an agent, and agents may not cancel tasks (agents.auth: strict)",
			messages.Clean(user, 64))
	}
	r.s.observe.WrongCanceller(user, mode)
	if mode != config.AuthStrict {
		why = ""
	}
	return why, nil
}

// byAgentsKey says that a cancel has come by the key task.request.<id> of an agent, which is for its bids
// and claims. A user that may publish by that key alone is thereby kept from withdrawing tasks, whatever
// agents.auth says.
func (r *session) byAgentsKey(d *bus.Delivery) (why string, err error) {
	id, agent, err := r.agentsKey(d)
	if err != nil || !agent {
		return "", err
	}
	return fmt.Sprintf("it came by the key of agent %q, and agents may not cancel tasks", messages.Clean(string(id), 64)),
		nil
}

// agentsKey is keyOf for the key of an agent of the fleet; false for any other.
func (r *session) agentsKey(d *bus.Delivery) (id coordinator.AgentID, is bool, err error) {
	id, keyed := intake.KeyOf(d)
	if !keyed {
		return "", false, nil
	}
	is, err = r.isAgent(id)
	return id, is, err
}

// isAgent reports whether this is an agent of the fleet, listed or joined.
func (r *session) isAgent(id coordinator.AgentID) (is bool, err error) {
	p := r.s.config.Load().Policy()
	if slices.ContainsFunc(p.Agents, func(a coordinator.AgentSpec) bool { return a.ID == id }) {
		return true, nil
	}
	if p.Discovery == nil {
		return false, nil
	}
	err = r.s.loop.query(context.Background(), func(_ time.Time, e *engine.Engine) { is = e.HasAgent(id) })
	return is, err
}

// cancelAnswered settles a request by message, or answers the caller that waits.
func (r *session) cancelAnswered(a coordinator.CancelAnswered) {
	done, ours := r.requests.Answered(a)
	if r.ackAll(done); !ours {
		r.s.callers.answer(a)
	}
}
