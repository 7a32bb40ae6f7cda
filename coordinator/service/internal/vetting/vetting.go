package vetting

import (
	"fmt"
	"strings"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// Log hears of senders that may not say what they say, and of fields that no schema has.
type Log interface {
	WrongSender(messageType string, agent coordinator.AgentID, user string, mode config.Auth)
	WrongKey(messageType string, agent, key coordinator.AgentID)
	WrongRelay(agent coordinator.AgentID, user string, mode config.Auth)
	WrongCanceller(user string, mode config.Auth)
	UnknownField(schema, field, agent string, d *bus.Delivery)
}

// Options are what messages are judged by.
type Options struct {
	Decoder *messages.Decoder
	// Config returns the one in force.
	Config func() *config.Config
	// User is the name by which the broker knows this coordinator; empty: it is not known.
	User string
	// Joined asks the engine whether this is an agent of the fleet. An error means that it is not to be known any more.
	Joined func(agent coordinator.AgentID) (bool, error)
	// Unknown counts a message of this schema with fields that are not known.
	Unknown func(schema string)
	Log     Log
}

// Judge reads the messages of one session. It is safe for concurrent use.
type Judge struct{ Options }

// New returns a judge.
func New(o Options) *Judge { return &Judge{o} }

// Task returns what a task.assign says, or refuses what is not plain JSON before looking at the bytes.
func (j *Judge) Task(d *bus.Delivery) (*messages.TaskAssign, *messages.Refusal) {
	if refusal := checkProperties(d); refusal != nil {
		return nil, refusal
	}
	m, refusal := j.Decoder.DecodeTaskAssign(d.Body)
	if refusal != nil {
		return nil, refusal
	}
	if refusal = j.knows(schemas.TaskAssign, m.Unknown, "", d); refusal != nil {
		refusal.TaskID, refusal.CorrelationID = m.TaskID, m.CorrelationID
		refusal.TaskType, refusal.Priority = m.TaskType, m.Priority
		return nil, refusal
	}
	return m, nil
}

// Returned returns what a dispatch that came back says.
func (j *Judge) Returned(d *bus.Delivery) (*messages.Returned, *messages.Refusal) {
	return j.Decoder.DecodeReturned(d.Body, messages.TextHeader(d.Headers, messages.HeaderTask),
		messages.TextHeader(d.Headers, messages.HeaderTried))
}

// Status reads an agent.status. counts is false for one that its sender may not send. One that a coordinator relays
// must come from a coordinator: by no agent's key, and from this one's own user (agents.auth).
func (j *Judge) Status(d *bus.Delivery, into *messages.AgentStatus) (counts bool, refusal *messages.Refusal) {
	if refusal = checkProperties(d); refusal == nil {
		refusal = j.Decoder.DecodeAgentStatus(d.Body, into)
	}
	if refusal != nil {
		return false, refusal
	}
	j.knows(schemas.AgentStatus, into.Unknown, string(into.AgentID), d)
	if key, keyed := keyOf(d); !into.Relayed || keyed && key != into.AgentID {
		return j.Authentic(schemas.AgentStatus, into.AgentID, d), nil
	}
	mode := j.Config().Auth
	if mode == config.AuthOff || d.UserID != "" && d.UserID == j.User {
		return true, nil
	}
	j.Log.WrongRelay(into.AgentID, d.UserID, mode)
	return mode != config.AuthStrict, nil
}

// Result reads a task.result. counts is false for one that its sender may not send, and for one that is refused, unless
// what is refused is its output, or its size: then *into says that the task has failed, and why.
func (j *Judge) Result(d *bus.Delivery, into *messages.TaskResult) (counts bool, refusal *messages.Refusal) {
	if refusal = checkProperties(d); refusal != nil {
		return false, refusal
	}
	if refusal = j.Decoder.DecodeTaskResult(d.Body, into); refusal != nil {
		return messages.FailedByOutput(refusal, into) && j.Authentic(schemas.TaskResult, into.AgentID, d), refusal
	}
	j.knows(schemas.TaskResult, into.Unknown, string(into.AgentID), d)
	return j.Authentic(schemas.TaskResult, into.AgentID, d), nil
}

// Progress reads a task.progress. counts is false for one that its sender may not send.
func (j *Judge) Progress(d *bus.Delivery) (m *messages.TaskProgress, counts bool, refusal *messages.Refusal) {
	if refusal = checkProperties(d); refusal == nil {
		m, refusal = j.Decoder.DecodeTaskProgress(d.Body)
	}
	if refusal != nil {
		return nil, false, refusal
	}
	j.knows(schemas.TaskProgress, m.Unknown, string(m.AgentID), d)
	return m, j.Authentic(schemas.TaskProgress, m.AgentID, d), nil
}

// knows counts and writes down the fields of a message that its schema does not have, and refuses the message for the
// first of them where the configuration is strict and its sender gets an answer. A result that is refused
// would be work that is lost, a heartbeat an agent, without any notice. agent is the one that the message
// names; empty for a producer's.
func (j *Judge) knows(schema string, unknown []string, agent string, d *bus.Delivery) *messages.Refusal {
	if len(unknown) == 0 {
		return nil
	}
	j.Unknown(schema)
	hears := schema == schemas.TaskAssign || schema == schemas.TaskCancel || schema == schemas.TaskBid
	if hears && j.Config().StrictMessages {
		refusal := j.Decoder.RefuseUnknown(schema, unknown[0])
		refusal.AgentID = agent
		return refusal
	}
	for _, field := range unknown {
		j.Log.UnknownField(schema, field, agent, d)
	}
	return nil
}

// checkProperties refuses a message for what is around its body: an encoding, or a key that is not of its
// queue. The broker compares the key alone with the rights of its user, and not what CC and BCC add to it.
// Producers that set no content type at all are as welcome as those that do.
func checkProperties(d *bus.Delivery) *messages.Refusal {
	if e := d.ContentEncoding; e != "" && !strings.EqualFold(e, "identity") && !strings.EqualFold(e, "utf-8") {
		return &messages.Refusal{Keyword: "contentEncoding", Priority: messages.PriorityUnread, Text: fmt.Sprintf(
			"content_encoding %q is not supported: send plain JSON", messages.Clean(e, 64))}
	}
	if bus.Inwards(d.Exchange) && d.RoutingKey != d.Queue && !strings.HasPrefix(d.RoutingKey, d.Queue+".") {
		return &messages.Refusal{Keyword: "routing_key", Priority: messages.PriorityUnread, Text: fmt.Sprintf(
			"it came to %s by the key %q: publish by the key of the queue, without CC and BCC", d.Queue,
			messages.Clean(d.RoutingKey, 64))}
	}
	return nil
}
