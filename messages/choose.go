package messages

import (
	"slices"
	"strings"

	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// Request is what the queue task.request may hold: a *TaskCancel, a *TaskBid, a
// *TaskBids or a *TaskClaim.
type Request interface{ request() }

func (*TaskCancel) request() {}
func (*TaskBid) request()    {}
func (*TaskBids) request()   {}
func (*TaskClaim) request()  {}

// Control is what an agent's control queue may hold: a *TaskCancel, a *TaskAvailable,
// a *TaskAwarded, a *BidRejected or a *TaskGranted.
type Control interface{ control() }

func (*TaskCancel) control()    {}
func (*TaskAvailable) control() {}
func (*TaskAwarded) control()   {}
func (*BidRejected) control()   {}
func (*TaskGranted) control()   {}

// DecodeRequest reads what came on task.request, whichever its message_type says that
// it is; one that does not belong there is refused. The refusal's MessageType says
// what it is as far as that can be read.
func (d *Decoder) DecodeRequest(body []byte) (Request, *Refusal) {
	name, refusal := d.messageType(body, schemas.TaskCancel, schemas.TaskBid, schemas.TaskBids, schemas.TaskClaim)
	if refusal != nil {
		return nil, refusal
	}
	switch name {
	case schemas.TaskBid:
		return asRequest(d.DecodeTaskBid(body))
	case schemas.TaskBids:
		return asRequest(d.DecodeTaskBids(body))
	case schemas.TaskClaim:
		return asRequest(d.DecodeTaskClaim(body))
	default:
		return asRequest(d.DecodeTaskCancel(body))
	}
}

// DecodeControl reads what came to an agent's control queue, whichever its
// message_type says that it is; one that does not belong there is refused.
func (d *Decoder) DecodeControl(body []byte) (Control, *Refusal) {
	name, refusal := d.messageType(body, schemas.TaskCancel, schemas.TaskAvailable, schemas.TaskAwarded,
		schemas.BidRejected, schemas.TaskGranted)
	if refusal != nil {
		return nil, refusal
	}
	switch name {
	case schemas.TaskAvailable:
		return asControl(d.DecodeTaskAvailable(body))
	case schemas.TaskAwarded:
		return asControl(d.DecodeTaskAwarded(body))
	case schemas.BidRejected:
		return asControl(d.DecodeBidRejected(body))
	case schemas.TaskGranted:
		return asControl(d.DecodeTaskGranted(body))
	default:
		return asControl(d.DecodeTaskCancel(body))
	}
}

// asRequest gives no message beside a refusal: an interface that holds a nil pointer
// would not be nil.
func asRequest[M Request](m M, refusal *Refusal) (Request, *Refusal) {
	if refusal != nil {
		return nil, refusal
	}
	return m, nil
}

// asControl is asRequest for what comes to an agent.
func asControl[M Control](m M, refusal *Refusal) (Control, *Refusal) {
	if refusal != nil {
		return nil, refusal
	}
	return m, nil
}

// messageType tells which of the types a message says that it is, or refuses it. It
// need not have read the message to its end: the decoder of that type does, and
// refuses one that gives two types.
func (d *Decoder) messageType(body []byte, types ...string) (string, *Refusal) {
	if name, ok := d.statedType(body, types); ok {
		return name, nil
	}
	// Something is unusual. The whole message is held to the limits first, so that what
	// is no JSON is called that.
	if refusal := unread(d.limits, body); refusal != nil {
		return "", d.identify(refusal, envelopeFields, body)
	}
	s := d.scanner(body, d.limits)
	defer d.release(s)
	m := s.members(envelopeFields)
	if s.Fault != jsontext.None {
		return "", m.refuse(scanRefusal(s.Fault, s.Pos, m.path, d.limits))
	}
	expected := strings.Join(types[:len(types)-1], ", ") + " or " + types[len(types)-1]
	name := unquote(m.messageType)
	switch {
	case m.messageType == nil:
		return "", m.refuse(&Refusal{Keyword: "required", Text: "the message: message_type is missing; expected " + expected})
	case !slices.Contains(types, name):
		return "", m.refuse(&Refusal{Path: "/message_type", Keyword: "enum", Text: "/message_type: expected " + expected})
	}
	return name, nil
}

// envelopeFields are those that a refusal can repeat of a message of any type.
var envelopeFields = []string{"agent_id", "correlation_id", "message_type", "task_id"}

// statedType looks no further than to a message_type that is one of these, which most
// messages begin with.
func (d *Decoder) statedType(body []byte, types []string) (string, bool) {
	if len(body) > d.limits.MaxBytes {
		return "", false
	}
	s := d.scanner(body, d.limits)
	defer d.release(s)
	var o jsontext.Object
	if !s.OpenObject(&o) {
		return "", false
	}
	for {
		key, more := s.NextKey(&o)
		if !more {
			return "", false
		}
		if string(key.Raw) != "message_type" {
			if _, ok := s.Value(); !ok {
				return "", false
			}
			continue
		}
		t, ok := s.PlainText()
		if !ok {
			return "", false
		}
		for _, name := range types {
			if string(t.Raw) == name {
				return name, true
			}
		}
		return "", false
	}
}
