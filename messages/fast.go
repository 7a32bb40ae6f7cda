package messages

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"taskbus/coordinator"
)

// The readers of the fast path. Each consumes one value and returns false at
// the slightest doubt; the message is then read again by the slow path. What
// they accept must fit the schema, with the value that the slow path gives.

// fieldReader consumes the value of a key, and tells whether its object must have it.
type fieldReader func(s *scanner, key text) (required, ok bool)

// fast reads a message that must have so many required fields, and names those that its schema does not have.
func (d *Decoder) fast(body []byte, l Limits, required int, read fieldReader) (unknown []string, ok bool) {
	if len(body) > l.MaxBytes {
		return nil, false
	}
	s := d.scanner(body, l)
	defer d.release(s)
	ok = s.fields(required, read) && s.complete()
	return s.unknownFields, ok
}

// fields reads an object that must have so many required fields. No key comes twice, so that they can be counted.
func (s *scanner) fields(required int, read fieldReader) bool {
	var o object
	if !s.openObject(&o) {
		return false
	}
	for {
		key, more := s.nextKey(&o)
		if !more {
			return s.fault == faultNone && required == 0
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

// plainText is a string without escapes.
func (s *scanner) plainText() (text, bool) {
	if s.peek() != '"' {
		return text{}, false
	}
	t, ok := s.string()
	return t, ok && !t.escaped
}

// is tells whether the value is just this string.
func (s *scanner) is(want string) bool {
	t, ok := s.plainText()
	return ok && string(t.raw) == want
}

func (s *scanner) id(limit int) ([]byte, bool) {
	t, ok := s.plainText()
	return t.raw, ok && validID(t.raw, limit)
}

func (s *scanner) boolean() (value, ok bool) {
	if s.peek() == 't' {
		return true, s.word("true")
	}
	return false, s.word("false")
}

// printable is a correlation id or a queue's name.
func (s *scanner) printable() ([]byte, bool) {
	t, ok := s.plainText()
	return t.raw, ok && len(t.raw) > 0 && len(t.raw) <= maxTraceID && plain(t.raw)
}

// name returns old when the message has the same.
func (s *scanner) name(old string) (string, bool) {
	t, ok := s.plainText()
	if !ok || !validName(t) {
		return "", false
	}
	return keep(old, t.raw), true
}

// description is a text of any characters.
func (s *scanner) description() (string, bool) { return s.textOf(maxDescription) }

func (s *scanner) textOf(most int) (string, bool) {
	t, ok := s.plainText()
	if !ok || len(t.raw) > most && utf8.RuneCount(t.raw) > most {
		return "", false
	}
	return string(t.raw), true
}

func (s *scanner) time() (time.Time, bool) {
	t, ok := s.plainText()
	if !ok {
		return time.Time{}, false
	}
	return parseTime(t.raw)
}

// whole reads plain digits; 1.0 and 1e0 are integers too, but the slow path's.
func (s *scanner) whole(limit int) (int, bool) {
	s.peek()
	raw, ok := s.number()
	const few = 10 // digits cannot overflow an int
	if !ok || len(raw) > few || digits(raw, 0) != len(raw) {
		return 0, false
	}
	n := 0
	for _, c := range raw {
		n = 10*n + int(c-'0')
	}
	return n, n <= limit
}

// decimal reads any number of at least 0.
func (s *scanner) decimal(limit float64) (float64, bool) {
	s.peek()
	raw, ok := s.number()
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil && f >= 0 && f <= limit
}

// fastList reads an array of strings, each of which must pass valid. The items
// share one copy of the array's text.
func fastList[S ~string](s *scanner, limit int, valid func(text) bool) ([]S, bool) {
	if !s.openArray() {
		return nil, false
	}
	start, n := s.pos, 0
	for ; s.nextItem(n); n++ {
		if t, ok := s.plainText(); !ok || n == limit || !valid(t) {
			return nil, false
		}
	}
	if s.fault != faultNone || n == 0 {
		return nil, s.fault == faultNone
	}
	list, rest, item := make([]S, n), string(s.data[start:s.pos]), ""
	for i := range list {
		item, rest = nextPlain(rest)
		list[i] = S(item)
	}
	return list, true
}

// fastObjects reads an array of at most limit objects, each by read.
func fastObjects[T any](s *scanner, limit int, read func(*T) bool) ([]T, bool) {
	if !s.openArray() {
		return nil, false
	}
	var all []T
	for s.nextItem(len(all)) {
		if len(all) == limit {
			return nil, false
		}
		var one T
		if !read(&one) {
			return nil, false
		}
		all = append(all, one)
	}
	return all, s.fault == faultNone
}

// fastAgentsList reads a message that is a list of one agent's: beside its type and
// agent_id it has one field that is known, which list reads.
func (d *Decoder) fastAgentsList(body []byte, messageType, name string, known []string,
	list func(*scanner) bool) (agent coordinator.AgentID, unknown []string, ok bool) {
	unknown, ok = d.fast(body, d.limits, 2, func(s *scanner, key text) (required, ok bool) {
		switch string(key.raw) {
		case "message_type":
			return true, s.is(messageType)
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

// nextPlain splits the first string off JSON text in which no string has an
// escape, so that every quotation mark begins or ends one.
func nextPlain(json string) (plain, rest string) {
	_, json, _ = strings.Cut(json, `"`)
	plain, rest, _ = strings.Cut(json, `"`)
	return plain, rest
}

func anyID(t text) bool { return validID(t.raw, maxID) }

// labels reads pairs of strings, which share one copy of the object's text.
func (s *scanner) labels() (map[string]string, bool) {
	var o object
	if !s.openObject(&o) {
		return nil, false
	}
	start, n := s.pos, 0
	for ; ; n++ {
		key, more := s.nextKey(&o)
		if !more {
			break
		}
		value, ok := s.plainText()
		if !ok || key.escaped || len(key.raw) == 0 || !key.fits(maxLabelKey) ||
			!value.fits(maxLabelValue) || n == maxLabels {
			return nil, false
		}
	}
	if s.fault != faultNone || n == 0 {
		return nil, s.fault == faultNone
	}
	labels, rest := make(map[string]string, n), string(s.data[start:s.pos])
	for range n {
		var key, value string
		key, rest = nextPlain(rest)
		value, rest = nextPlain(rest)
		labels[key] = value
	}
	return labels, true
}

// usage makes a new value, which shares the names of old (that may be nil) where
// the message has the same. What an estimate alone may say goes into estimate; nil: it is none.
func (s *scanner) usage(old *coordinator.Usage, estimate *EstimatedUsage) (*coordinator.Usage, bool) {
	u := new(coordinator.Usage)
	var provider, model string
	if old != nil {
		provider, model = old.Provider, old.Model
	}
	var input, output bool // given
	if !s.fields(0, func(s *scanner, key text) (required, ok bool) {
		switch string(key.raw) {
		case "alternatives":
			if estimate != nil { // else it is unknown
				estimate.Alternatives, ok = fastObjects(s, coordinator.MaxAlternatives, s.service)
				ok = ok && len(estimate.Alternatives) > 0
			}
		case "requests":
			u.Requests, ok = s.decimal(maxAmount)
		case "input_tokens":
			u.InputTokens, ok = s.decimal(maxAmount)
			input = true
		case "output_tokens":
			u.OutputTokens, ok = s.decimal(maxAmount)
			output = true
		case "cost_usd":
			u.CostUSD, ok = s.decimal(maxAmount)
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
	return s.fields(1, func(s *scanner, key text) (required, ok bool) {
		switch string(key.raw) {
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
	t, ok := s.plainText()
	if !ok || len(t.raw) == 0 || len(t.raw) > maxName {
		return "", false
	}
	for _, c := range t.raw {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._:@/+-", c) >= 0) {
			return "", false
		}
	}
	return string(t.raw), true
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
func (s *scanner) unknown(key text, known []string) bool {
	if key.escaped || key.wide {
		return false
	}
	if len(known) > 0 && string(key.raw) == versionField {
		n, ok := s.whole(Version)
		return ok && n == Version
	}
	for _, field := range known {
		if len(field) == len(key.raw) && bytes.EqualFold([]byte(field), key.raw) {
			return false
		}
	}
	if len(known) > 0 {
		s.noteUnknown(key.raw)
	}
	_, ok := s.value()
	return ok
}

// complete tells whether the message has ended well.
func (s *scanner) complete() bool {
	return s.fault == faultNone && !s.overflow && s.end()
}

// keep returns the old string when it already says the same, to save a copy.
func keep[S ~string](old S, b []byte) S {
	if string(old) == string(b) {
		return old
	}
	return S(b)
}
