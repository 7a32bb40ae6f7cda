package service

import (
	"cmp"
	"slices"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
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
		r.s.observe.unknownField(schema, field, agent, d)
	}
	return nil
}

// misspelling is a field that a producer sends and no schema has. Of what distinguishes producers the first that is
// given counts: an agent's id, a user and program, a queue for answers.
type misspelling struct{ schema, field, producer string }

// maxMisspellings bounds how many are remembered.
const maxMisspellings = 1000

// unknownField reports such a field once for each producer.
func (o *observer) unknownField(schema, field, agent string, d *bus.Delivery) {
	producer := cmp.Or(agent, d.UserID+"\x00"+d.AppID)
	if producer == "\x00" {
		producer = d.ReplyTo
	}
	of := misspelling{schema, field, messages.Clean(producer, 2*maxLogged)}
	if _, seen := o.misspellings.Load(of); seen || o.misspelt.Load() >= maxMisspellings {
		return
	}
	if _, seen := o.misspellings.LoadOrStore(of, true); seen {
		return
	}
	o.misspelt.Add(1)
	o.listUnknown(schema, field, agent, d)
	e := o.log.Warn().Str("message_type", schema).Str("field", field)
	if near := o.s.decoder.Nearest(schema, field); near != "" {
		e = e.Str("did_you_mean", near)
	}
	if agent != "" {
		e = e.Str("agent_id", agent)
	}
	ofProducer(e, d).Msg("a field of the message is not known and has no effect (said once for each producer and field)")
}

// maxUnknownListed bounds those that /status lists.
const maxUnknownListed = 20

func (o *observer) listUnknown(schema, field, agent string, d *bus.Delivery) {
	of := &o.firstUnknown
	of.Lock()
	defer of.Unlock()
	if len(of.list) < maxUnknownListed {
		of.list = append(of.list, view.UnknownField{
			MessageType: schema, Field: field, DidYouMean: o.s.decoder.Nearest(schema, field),
			Producer: messages.Clean(cmp.Or(agent, d.AppID, d.UserID, d.ReplyTo), maxLogged),
		})
	}
}

// unknownFields returns a copy of the list for /status.
func (o *observer) unknownFields() []view.UnknownField {
	o.firstUnknown.Lock()
	defer o.firstUnknown.Unlock()
	return slices.Clone(o.firstUnknown.list)
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
