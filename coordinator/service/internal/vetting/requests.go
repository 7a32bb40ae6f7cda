package vetting

import (
	"cmp"
	"fmt"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// Request reads a request: a task.cancel, task.bid, task.bids or task.claim.
func (j *Judge) Request(d *bus.Delivery) (messages.Request, *messages.Refusal) {
	if refusal := checkProperties(d); refusal != nil {
		return nil, refusal
	}
	m, refusal := j.Decoder.DecodeRequest(d.Body)
	switch m := m.(type) {
	case *messages.TaskBid:
		if refusal = j.knows(schemas.TaskBid, m.Unknown, string(m.AgentID), d); refusal != nil {
			refusal.TaskID, refusal.AuctionID, refusal.CorrelationID = m.TaskID, m.AuctionID, m.CorrelationID
		}
	case *messages.TaskBids:
		j.knows(schemas.TaskBids, m.Unknown, string(m.AgentID), d)
	case *messages.TaskClaim:
		j.knows(schemas.TaskClaim, m.Unknown, string(m.AgentID), d)
	case *messages.TaskCancel:
		if refusal = j.knows(schemas.TaskCancel, m.Unknown, "", d); refusal != nil {
			refusal.TaskID, refusal.CorrelationID = m.TaskID, m.CorrelationID
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	return m, nil
}

// Cancel refuses a cancel that its sender may not ask for.
func (j *Judge) Cancel(m *messages.TaskCancel, d *bus.Delivery) (*messages.Refusal, error) {
	why, err := j.mayNotCancel(d.UserID)
	if why == "" && err == nil {
		why, err = j.byAgentsKey(d)
	}
	if err != nil || why == "" {
		return nil, err
	}
	return &messages.Refusal{
		MessageType: schemas.TaskCancel, TaskID: m.TaskID, CorrelationID: m.CorrelationID, Keyword: "user_id", Text: why,
	}, nil
}

// mayNotCancel says why a cancel of this user does not count (agents.auth); empty
// when it does. An agent has no business cancelling tasks: of its own it sends the
// result, and the others are not its own.
func (j *Judge) mayNotCancel(user string) (why string, err error) {
	mode := j.Config().Auth
	if mode == config.AuthOff {
		return "", nil
	}
	if user == "" {
		why = "a cancel must carry the property user_id, which the broker checks against the sender (agents.auth: strict)"
	} else {
		agent, err := j.isAgent(coordinator.AgentID(user))
		if err != nil || !agent {
			return "", err
		}
		why = fmt.Sprintf("user %q is an agent, and agents may not cancel tasks (agents.auth: strict)",
			messages.Clean(user, 64))
	}
	j.Log.WrongCanceller(user, mode)
	if mode != config.AuthStrict {
		why = ""
	}
	return why, nil
}

// byAgentsKey says that a cancel has come by the key task.request.<id> of an agent, which is for its bids
// and claims. A user that may publish by that key alone is thereby kept from withdrawing tasks, whatever
// agents.auth says.
func (j *Judge) byAgentsKey(d *bus.Delivery) (why string, err error) {
	id, agent, err := j.agentsKey(d)
	if err != nil || !agent {
		return "", err
	}
	return fmt.Sprintf("it came by the key of agent %q, and agents may not cancel tasks", messages.Clean(string(id), 64)),
		nil
}

// Perishable names the schema that a refused request should have followed, if it is a bid
// or a claim: worth nothing a moment later, and not to be kept. It is what it says that it
// is; where it says nothing, what its property type or an agent's key says. What comes by
// such a key and is no cancel counts as a bid, as most of it is.
func (j *Judge) Perishable(d *bus.Delivery, refusal *messages.Refusal) (schema string, err error) {
	switch t := cmp.Or(refusal.MessageType, d.Type); t {
	case schemas.TaskBid, schemas.TaskBids, schemas.TaskClaim:
		return t, nil
	case schemas.TaskCancel:
		return "", nil
	}
	_, agent, err := j.agentsKey(d)
	if err != nil || !agent {
		return "", err
	}
	return schemas.TaskBid, nil
}

// Answerable reports whether a bid that is not valid can be answered: it can be read which one it is, and its agent is
// the sender beyond doubt. No agent can have another's bids called invalid.
func (j *Judge) Answerable(d *bus.Delivery, refusal *messages.Refusal) bool {
	return refusal.TaskID != "" && refusal.AuctionID != "" && messages.ValidAgentID(refusal.AgentID) &&
		j.proven(d, coordinator.AgentID(refusal.AgentID))
}
