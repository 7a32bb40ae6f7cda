package observer

import (
	"github.com/rs/zerolog"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/messages"
	"taskbus/schemas"
)

// Messages of senders that may not say what they say.

// stranger is an agent in the name of which another sender sends messages of a type, or a sender of what is
// not an agent's to send; or an agent that cannot be sent something.
type stranger struct {
	messageType string
	agent       coordinator.AgentID
}

// maxKnownStrangers bounds the memory of wrong senders.
const maxKnownStrangers = 1000

// sender logs a message that was refused, and the agent that it names, so that an operator can find the
// sender.
func sender(e *zerolog.Event, r *messages.Refusal, message string) {
	e = e.Str("path", r.Path).Str("reason", r.Text)
	if r.TaskID != "" {
		e = e.Str("task_id", string(r.TaskID))
	}
	if r.AgentID == "" {
		e.Msg(message + "; its agent_id cannot be read")
		return
	}
	e.Str("agent_id", r.AgentID).Msg(message)
}

// WrongSender notes a heartbeat, result, bid or claim with a broker-validated user that is not its
// agent, with one line for each agent and kind.
func (o *Observer) WrongSender(messageType string, agent coordinator.AgentID, user string, mode config.Auth) {
	if messageType == schemas.AgentStatus {
		o.count.authRejections.Add(1)
	}
	o.metrics.AuthRejections.WithLabelValues(string(mode)).Inc()
	if !o.first(stranger{messageType, agent}) {
		return
	}
	e := o.log.Warn().Str("message_type", messageType).Str("agent_id", string(agent)).
		Str("user_id", messages.Clean(user, 64))
	if mode == config.AuthStrict {
		e.Msg(
			"message refused: the agent must publish it as its own user, with the property user_id (said once for each " +
				"agent and message type)")
		return
	}
	e.Msg("message of another user accepted (agents.auth: warn; said once for each agent and message type)")
}

// WrongKey notes a heartbeat, result, bid or claim that came by the key of another id than its
// agent's, with one line for each agent and kind. It is refused in every mode.
func (o *Observer) WrongKey(messageType string, agent, key coordinator.AgentID) {
	if messageType == schemas.AgentStatus {
		o.count.authRejections.Add(1)
	}
	o.metrics.AuthRejections.WithLabelValues(refusedByKey).Inc()
	if !o.first(stranger{messageType + ", key", agent}) {
		return
	}
	o.log.Warn().Str("message_type", messageType).Str("agent_id", string(agent)).
		Str("key", messages.Clean(string(key), 64)).
		Msg(
			"message refused: it came by a routing key that ends in another id than its agent's (said once for each agent " +
				"and message type)")
}

// refusedByKey is the label mode of auth_rejections_total where agents.auth does not matter.
const refusedByKey = "key"

// WrongRelay notes a status that claims to be relayed by a coordinator and is of
// another user than ours, with one line for each agent.
func (o *Observer) WrongRelay(agent coordinator.AgentID, user string, mode config.Auth) {
	o.count.authRejections.Add(1)
	o.metrics.AuthRejections.WithLabelValues(string(mode)).Inc()
	if !o.first(stranger{schemas.AgentStatus + ", relayed", agent}) {
		return
	}
	e := o.log.Warn().Str("message_type", schemas.AgentStatus).Str("agent_id", string(agent)).
		Str("user_id", messages.Clean(user, 64))
	if mode == config.AuthStrict {
		e.Msg(
			"relayed status refused: only a coordinator may relay, and as the user that this one has (said once for each agent)")
		return
	}
	e.Msg("relayed status of another user than the coordinator's accepted (agents.auth: warn; said once for each agent)")
}

// WrongCanceller notes a cancel by message of a user that is an agent, or may be one, with one line for
// each.
func (o *Observer) WrongCanceller(user string, mode config.Auth) {
	o.metrics.AuthRejections.WithLabelValues(string(mode)).Inc()
	user = messages.Clean(user, 64)
	if !o.first(stranger{schemas.TaskCancel, coordinator.AgentID(user)}) {
		return
	}
	e := o.log.Warn().Str("message_type", schemas.TaskCancel).Str("user_id", user)
	if mode == config.AuthStrict {
		e.Msg("cancel refused: its property user_id must name a user that is not an agent (said once for each user)")
		return
	}
	e.Msg("cancel by an agent, or without a named user, accepted (agents.auth: warn; said once for each user)")
}

// first reports whether nothing has been said of this sender yet.
func (o *Observer) first(who stranger) bool {
	if _, seen := o.strangers.Load(who); seen || o.known.Load() >= maxKnownStrangers {
		return false
	}
	o.strangers.Store(who, true)
	o.known.Add(1)
	return true
}
