package service

import (
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// knows counts and writes down the fields of a message that its schema does not have, and refuses the message for the
// first of them where the configuration is strict and its sender gets an answer. A result that is refused
// would be work that is lost, a heartbeat an agent, without any notice. agent is the one that the message
// names; empty for a
// producer's.
func (r *session) knows(schema string, unknown []string, agent string, d *bus.Delivery) *messages.Refusal {
	if len(unknown) == 0 {
		return nil
	}
	r.s.metrics.UnknownFields.WithLabelValues(schema).Inc()
	hears := schema == schemas.TaskAssign || schema == schemas.TaskCancel || schema == schemas.TaskBid
	if hears && r.s.config.Load().StrictMessages {
		refusal := r.s.decoder.RefuseUnknown(schema, unknown[0])
		refusal.AgentID = agent
		return refusal
	}
	for _, field := range unknown {
		r.s.observe.UnknownField(schema, field, agent, d)
	}
	return nil
}

// readTask returns what a task.assign says, unless it is refused.
func (r *session) readTask(d *bus.Delivery) (*messages.TaskAssign, *messages.Refusal) {
	m, refusal := r.s.decoder.DecodeTaskAssign(d.Body)
	if refusal != nil {
		return nil, refusal
	}
	if refusal = r.knows(schemas.TaskAssign, m.Unknown, "", d); refusal != nil {
		refusal.TaskID, refusal.CorrelationID = m.TaskID, m.CorrelationID
		refusal.TaskType, refusal.Priority = m.TaskType, m.Priority
		return nil, refusal
	}
	return m, nil
}
