package messages

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
)

// The readers of the fast path. Each consumes one value and returns false at
// the slightest doubt; the message is then read again by the slow path. What
// they accept must fit the schema, with the value that the slow path gives.

// scanner reads one message.
type scanner struct {
	jsontext.Scanner
	// unknownFields are the names of fields of the message that its schema does not have, the first maxUnknown.
	unknownFields []string
}

// reset makes the scanner ready for data; it keeps no reference to earlier data.
func (s *scanner) reset(data []byte, l Limits) {
	s.Reset(data, l.MaxDepth, l.MaxTokens)
	s.unknownFields = nil
}

// fieldReader consumes the value of a key, and tells whether its object must have it.
type fieldReader func(s *scanner, key jsontext.Text) (required, ok bool)

// fast reads a message that must have so many required fields, and names those that its schema does not have.
func (d *Decoder) fast(body []byte, l Limits, required int, read fieldReader) (unknown []string, ok bool) {
	if len(body) > l.MaxBytes {
		return nil, false
	}
	s := d.scanner(body, l)
	defer d.release(s)
	ok = s.fields(required, read) && s.Complete()
	return s.unknownFields, ok
}

// fields reads an object that must have so many required fields. No key comes twice, so that they can be counted.
func (s *scanner) fields(required int, read fieldReader) bool {
	var o jsontext.Object
	if !s.OpenObject(&o) {
		return false
	}
	for {
		key, more := s.NextKey(&o)
		if !more {
			return s.Fault == jsontext.None && required == 0
		}
		counts, ok := read(s, key)
		if !ok {
			return false
		}
		if counts {
			required--
		}
	}
}

func (s *scanner) id(limit int) ([]byte, bool) {
	t, ok := s.PlainText()
	return t.Raw, ok && validID(t.Raw, limit)
}

// printable is a correlation id or a queue's name.
func (s *scanner) printable() ([]byte, bool) {
	t, ok := s.PlainText()
	return t.Raw, ok && len(t.Raw) > 0 && len(t.Raw) <= maxTraceID && plain(t.Raw)
}

// name returns old when the message has the same.
func (s *scanner) name(old string) (string, bool) {
	t, ok := s.PlainText()
	if !ok || !validName(t) {
		return "", false
	}
	return keep(old, t.Raw), true
}

// description is a text of any characters.
func (s *scanner) description() (string, bool) { return s.textOf(maxDescription) }

func (s *scanner) textOf(most int) (string, bool) {
	t, ok := s.PlainText()
	if !ok || len(t.Raw) > most && utf8.RuneCount(t.Raw) > most {
		return "", false
	}
	return string(t.Raw), true
}

func (s *scanner) time() (time.Time, bool) {
	t, ok := s.PlainText()
	if !ok {
		return time.Time{}, false
	}
	return jsontext.ParseTime(t.Raw)
}

// fastAgentsList reads a message that is a list of one agent's: beside its type and
// agent_id it has one field that is known, which list reads.
func (d *Decoder) fastAgentsList(body []byte, messageType, name string, known []string,
	list func(*scanner) bool) (agent coordinator.AgentID, unknown []string, ok bool) {
	unknown, ok = d.fast(body, d.limits, 2, func(s *scanner, key jsontext.Text) (required, ok bool) {
		switch string(key.Raw) {
		case "message_type":
			return true, s.Is(messageType)
		case "agent_id":
			var raw []byte
			raw, ok = s.id(maxID)
			agent = coordinator.AgentID(raw)
			return true, ok && !reservedAgentID(string(agent))
		case name:
			return false, list(s)
		default:
			return false, s.unknown(key, known)
		}
	})
	return agent, unknown, ok
}

func validLabel(key, value jsontext.Text) bool {
	return len(key.Raw) > 0 && key.Fits(maxLabelKey) && value.Fits(maxLabelValue)
}

func anyID(t jsontext.Text) bool { return validID(t.Raw, maxID) }

// usage makes a new value, which shares the names of old (that may be nil) where
// the message has the same. What an estimate alone may say goes into estimate; nil: it is none.
func (s *scanner) usage(old *coordinator.Usage, estimate *EstimatedUsage) (*coordinator.Usage, bool) {
	u := new(coordinator.Usage)
	var provider, model string
	if old != nil {
		provider, model = old.Provider, old.Model
	}
	var input, output bool // given
	if !s.fields(0, func(s *scanner, key jsontext.Text) (required, ok bool) {
		switch string(key.Raw) {
		case "alternatives":
			if estimate != nil { // else it is unknown
				estimate.Alternatives, ok = jsontext.Objects(&s.Scanner, coordinator.MaxAlternatives, s.service)
				ok = ok && len(estimate.Alternatives) > 0
			}
		case "requests":
			u.Requests, ok = s.Decimal(maxAmount)
		case "input_tokens":
			u.InputTokens, ok = s.Decimal(maxAmount)
			input = true
		case "output_tokens":
			u.OutputTokens, ok = s.Decimal(maxAmount)
			output = true
		case "cost_usd":
			u.CostUSD, ok = s.Decimal(maxAmount)
		case "provider":
			u.Provider, ok = s.name(provider)
		case "model":
			u.Model, ok = s.name(model)
		default:
			// Unknown, or known and escaped: the slow path can tell.
		}
		return false, ok
	}) {
		return nil, false
	}
	if estimate == nil {
		return u, true
	}
	estimate.NoTokens = input && output && u.InputTokens == 0 && u.OutputTokens == 0
	return u, len(estimate.Alternatives) == 0 || u.Provider == "" && u.Model == ""
}

// service reads one of the models that a task may go to.
func (s *scanner) service(to *coordinator.Service) bool {
	return s.fields(1, func(s *scanner, key jsontext.Text) (required, ok bool) {
		switch string(key.Raw) {
		case "provider":
			to.Provider, ok = s.serviceName()
			return true, ok
		case "model":
			to.Model, ok = s.serviceName()
		}
		return false, ok
	})
}

// serviceName reads the name of a provider or model, as quotas.yaml may list it.
func (s *scanner) serviceName() (string, bool) {
	t, ok := s.PlainText()
	if !ok || len(t.Raw) == 0 || len(t.Raw) > maxName {
		return "", false
	}
	for _, c := range t.Raw {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._:@/+-", c) >= 0) {
			return "", false
		}
	}
	return string(t.Raw), true
}

// Version of the messages that this package reads and writes, and versionField where a message
// may say it. It is left out, which means 1, when messages are written.
const (
	Version      = 1
	versionField = "message_version"
)

// unknown consumes the value of a field that is in no schema, unless its key may
// be a known field in disguise. The version of a message is known in all of them, and of no
// use but to be compared.
func (s *scanner) unknown(key jsontext.Text, known []string) bool {
	if key.Escaped || key.Wide {
		return false
	}
	if len(known) > 0 && string(key.Raw) == versionField {
		n, ok := s.Whole(Version)
		return ok && n == Version
	}
	for _, field := range known {
		if len(field) == len(key.Raw) && bytes.EqualFold([]byte(field), key.Raw) {
			return false
		}
	}
	if len(known) > 0 {
		s.noteUnknown(key.Raw)
	}
	_, ok := s.Value()
	return ok
}

// keep returns the old string when it already says the same, to save a copy.
func keep[S ~string](old S, b []byte) S {
	if string(old) == string(b) {
		return old
	}
	return S(b)
}
