package observer

import (
	"cmp"
	"slices"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// misspelling is a field that a producer sends and no schema has. Of what distinguishes producers the first that is
// given counts: an agent's id, a user and program, a queue for answers.
type misspelling struct{ schema, field, producer string }

// maxMisspellings bounds how many are remembered.
const maxMisspellings = 1000

// UnknownField reports such a field once for each producer.
func (o *Observer) UnknownField(schema, field, agent string, d *bus.Delivery) {
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
	if near := o.schemas.Nearest(schema, field); near != "" {
		e = e.Str("did_you_mean", near)
	}
	if agent != "" {
		e = e.Str("agent_id", agent)
	}
	ofProducer(e, d).Msg("a field of the message is not known and has no effect (said once for each producer and field)")
}

// maxUnknownListed bounds those that /status lists.
const maxUnknownListed = 20

func (o *Observer) listUnknown(schema, field, agent string, d *bus.Delivery) {
	of := &o.firstUnknown
	of.Lock()
	defer of.Unlock()
	if len(of.list) < maxUnknownListed {
		of.list = append(of.list, view.UnknownField{
			MessageType: schema, Field: field, DidYouMean: o.schemas.Nearest(schema, field),
			Producer: messages.Clean(cmp.Or(agent, d.AppID, d.UserID, d.ReplyTo), maxLogged),
		})
	}
}

// UnknownFields returns a copy of the list for /status.
func (o *Observer) UnknownFields() []view.UnknownField {
	o.firstUnknown.Lock()
	defer o.firstUnknown.Unlock()
	return slices.Clone(o.firstUnknown.list)
}
