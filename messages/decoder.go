package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// Limits bound what is accepted before anything is decoded.
type Limits struct {
	// MaxBytes of a body. Larger ones are refused unread.
	MaxBytes int
	// MaxDepth of nested objects and arrays; the message itself is the first.
	MaxDepth int
	// MaxTokens is how many keys and values a message may have; an object or an
	// array counts as one value beside what it holds.
	MaxTokens int
	// MaxOutput of a task.result, in bytes. What is around it may have MaxBytes as well.
	MaxOutput int
}

// DefaultLimits are 1 MiB, 64 levels, 100,000 tokens, and 256 KiB of output.
func DefaultLimits() Limits {
	return Limits{MaxBytes: 1 << 20, MaxDepth: 64, MaxTokens: 100_000, MaxOutput: 256 << 10}
}

// What a dispatch may have beyond the task.assign that it was made of: the ids,
// the queue and the times that Taskbus adds around the payload.
const (
	envelopeBytes  = 64 << 10
	envelopeTokens = 64
)

// dispatched are the limits for what Taskbus makes of a task within l. Without
// them the largest tasks could be sent out, but neither be read by their agents
// nor come back.
func (l Limits) dispatched() Limits {
	l.MaxBytes += envelopeBytes
	l.MaxTokens += envelopeTokens
	return l
}

// withOutput are the limits for what has an output, in which a token has two bytes at least.
func (l Limits) withOutput() Limits {
	l.MaxBytes += l.MaxOutput
	l.MaxTokens += l.MaxOutput / 2
	return l
}

// Decoder turns bodies into typed values. It is safe for concurrent use.
type Decoder struct {
	set      *schemas.Set
	limits   Limits
	scanners sync.Pool // of *scanner
	// The fields of the types that have a fast path.
	taskFields, statusFields, resultFields, dispatchFields, bidFields, availableFields, bidsFields,
	progressFields []string
}

// NewDecoder makes a decoder. A limit that is not positive takes its default.
func NewDecoder(set *schemas.Set, limits Limits) *Decoder {
	standard := DefaultLimits()
	for _, l := range []struct{ value, standard *int }{
		{&limits.MaxBytes, &standard.MaxBytes},
		{&limits.MaxDepth, &standard.MaxDepth},
		{&limits.MaxTokens, &standard.MaxTokens},
		{&limits.MaxOutput, &standard.MaxOutput},
	} {
		if *l.value <= 0 {
			*l.value = *l.standard
		}
	}
	return &Decoder{
		set:            set,
		limits:         limits,
		scanners:       sync.Pool{New: func() any { return new(scanner) }},
		taskFields:     set.Fields(schemas.TaskAssign),
		statusFields:   set.Fields(schemas.AgentStatus),
		resultFields:   set.Fields(schemas.TaskResult),
		dispatchFields: set.Fields(schemas.TaskDispatch),
		bidFields:      set.Fields(schemas.TaskBid),

		availableFields: set.Fields(schemas.TaskAvailable),
		bidsFields:      set.Fields(schemas.TaskBids),
		progressFields:  set.Fields(schemas.TaskProgress),
	}
}

// scanner borrows a scanner for body; release gives it back.
func (d *Decoder) scanner(body []byte, l Limits) *scanner {
	s := d.scanners.Get().(*scanner)
	s.reset(body, l)
	return s
}

func (d *Decoder) release(s *scanner) {
	s.reset(nil, d.limits)
	d.scanners.Put(s)
}

// envelope is a message that fits its schema.
type envelope struct {
	fields map[string]any
	// payload is the part of the body that is the value of "payload".
	payload []byte
	// output and data likewise.
	output, data []byte
	// unknown are the names of fields that the schema does not have (see TaskAssign.Unknown).
	unknown []string
}

// decode is the slow path up to the typed value, and the truth. A typed value
// that cannot be made of an envelope after all is refused with refuse.
func (d *Decoder) decode(name string, body []byte) (*envelope, *Refusal) {
	return d.decodeWithin(d.limits, name, body)
}

func (d *Decoder) decodeWithin(l Limits, name string, body []byte) (*envelope, *Refusal) {
	if refusal := unread(l, body); refusal != nil {
		return nil, d.identify(refusal, d.set.Fields(name), body)
	}
	s := d.scanner(body, l)
	defer d.release(s)
	m := s.members(d.set.Fields(name))
	if s.Fault != jsontext.None {
		return nil, m.refuse(scanRefusal(s.Fault, s.Pos, m.path, l))
	}
	e := &envelope{payload: m.payload, output: m.output, data: m.data, unknown: m.unknown}
	if len(m.output) > l.MaxOutput {
		return nil, m.refuse(&Refusal{Path: "/output", Keyword: "size",
			Text: fmt.Sprintf("/output: %d bytes, more than the %d allowed (max_output_bytes)", len(m.output), l.MaxOutput)})
	}
	if m.output != nil { // it is passed on as it came
		at := cap(body) - cap(m.output) // where it begins: it is a part of body, and both go on to the end of its array
		body = slices.Concat(body[:at], []byte("null"), body[at+len(m.output):])
	}
	// Plain values on purpose: the validator crashes on some json.Numbers.
	if err := json.Unmarshal(body, &e.fields); err != nil {
		return nil, m.refuse(undecodable(err))
	}
	if err := d.set.Validate(name, e.fields); err != nil {
		return nil, m.refuse(d.misspelt(name, m.unknown, schemaRefusal(err)))
	}
	maps.DeleteFunc(e.fields, func(field string, _ any) bool { return !slices.Contains(d.set.Fields(name), field) })
	return e, nil
}

// misspelt adds to a refusal for a field that is missing the first field of the message that may have been meant
// for one.
func (d *Decoder) misspelt(name string, unknown []string, r *Refusal) *Refusal {
	if r.Keyword != "required" {
		return r
	}
	for _, field := range unknown {
		if near := d.Nearest(name, field); near != "" {
			r.Text = Clean(r.Text+"; it has "+field+": "+near, MaxText)
			return r
		}
	}
	return r
}

const byteOrderMark = "\xef\xbb\xbf"

// unread refuses what is not even looked into.
func unread(l Limits, body []byte) *Refusal {
	if len(body) > l.MaxBytes {
		return &Refusal{Keyword: "size", Text: fmt.Sprintf("%d bytes, more than the %d allowed", len(body), l.MaxBytes)}
	}
	if bytes.HasPrefix(body, []byte(byteOrderMark)) {
		return &Refusal{Keyword: "syntax", Text: "not valid JSON: begins with a byte order mark"}
	}
	return nil
}

// identify adds to a refusal what can be read of a body that is not looked into otherwise, because it is too large or
// begins with a byte order mark: its producer is to hear of it.
func (d *Decoder) identify(r *Refusal, known []string, body []byte) *Refusal {
	body = bytes.TrimPrefix(body, []byte(byteOrderMark))
	s := d.scanner(body[:min(len(body), sketchFactor*d.limits.MaxBytes)], d.limits.dispatched())
	defer d.release(s)
	m := s.members(known)
	return m.refuse(r)
}

// undecodable is for what the scanner lets pass and encoding/json does not:
// numbers beyond float64. The error's own text may quote the payload.
func undecodable(err error) *Refusal {
	var tooLarge *json.UnmarshalTypeError
	if errors.As(err, &tooLarge) {
		return &Refusal{Keyword: "number", Text: "a number is too large for 64-bit floating point"}
	}
	return &Refusal{Keyword: "syntax", Text: faults[jsontext.Syntax].text}
}

// members are the parts of a body that matter before it is decoded, each with
// its quotes or brackets; nil when absent or not a field of the schema.
type members struct {
	messageType, taskID, taskType, priority, auctionID, agentID, traceID, replyTo, payload, output, data []byte
	// path of the member that was being read.
	path string
	// unknown are the names that are no field of the schema, the first maxUnknown.
	unknown []string
}

// members scans the whole body. It may be incomplete when the scanner has found
// a fault.
func (s *scanner) members(known []string) (m members) {
	if c := s.Peek(); c != '{' && s.Pos < len(s.Data) {
		s.Fail(jsontext.NoObject)
		return m
	}
	var o jsontext.Object
	if !s.OpenObject(&o) {
		return m
	}
	for {
		key, more := s.NextKey(&o)
		if !more && s.Fault == jsontext.None {
			break
		}
		name := key.String()
		m.path = ""
		if name != "" {
			m.path = "/" + Clean(name, maxLabelKey)
		}
		if !more {
			m.ambiguous(name)
			return m
		}
		isField := false
		for _, field := range known {
			if name == field {
				isField = true
			} else if strings.EqualFold(name, field) {
				s.Fail(jsontext.LetterCase)
				return m
			}
		}
		raw, ok := s.Value()
		if !ok {
			return m
		}
		if !isField {
			if name != versionField {
				s.noteUnknown([]byte(name))
			}
			continue
		}
		if part := m.part(name); part != nil {
			*part = raw
		}
	}
	m.path = ""
	s.End()
	m.unknown = s.unknownFields
	return m
}

// ambiguous forgets a member that occurs twice: it is not known which is meant.
func (m *members) ambiguous(name string) {
	if part := m.part(name); part != nil {
		*part = nil
	}
}

// part is where the member of a name is kept; nil: nowhere.
func (m *members) part(name string) *[]byte {
	switch name {
	case "message_type":
		return &m.messageType
	case "task_id":
		return &m.taskID
	case "task_type":
		return &m.taskType
	case "priority":
		return &m.priority
	case "auction_id":
		return &m.auctionID
	case "agent_id":
		return &m.agentID
	case "correlation_id":
		return &m.traceID
	case "reply_to":
		return &m.replyTo
	case "payload":
		return &m.payload
	case "output":
		return &m.output
	case "data":
		return &m.data
	}
	return nil
}

// refuse completes a refusal with what can be read of the envelope.
func (m *members) refuse(r *Refusal) *Refusal {
	if s := unquote(m.messageType); ValidID(s) {
		r.MessageType = s
	}
	if s := unquote(m.taskID); ValidID(s) {
		r.TaskID = coordinator.TaskID(s)
	}
	if s := unquote(m.auctionID); r.MessageType == schemas.TaskBid && validID(s, maxDispatchID) {
		r.AuctionID = s
	}
	r.AgentID = Clean(unquote(m.agentID), maxID)
	r.TaskType = Clean(unquote(m.taskType), maxID)
	switch r.Priority = coordinator.PriorityNormal; {
	case m.priority == nil:
	case len(m.priority) == 1 && m.priority[0]-'0' <= maxPriority:
		r.Priority = coordinator.Priority(m.priority[0] - '0')
	default:
		r.Priority = PriorityUnread
	}
	if s := unquote(m.traceID); ValidTraceID(s) {
		r.CorrelationID = s
	}
	if s := unquote(m.replyTo); s != "" {
		r.ReplyTo = printableOrNone(s, maxReplyTo)
	}
	return r
}

// refuse turns an envelope down for what no schema can say.
func (e *envelope) refuse(path, keyword, text string) *Refusal {
	r := &Refusal{Path: path, Keyword: keyword, Text: path + ": " + text}
	r.MessageType = field[string](e, "message_type")
	r.TaskID = coordinator.TaskID(field[string](e, "task_id"))
	r.AgentID = field[string](e, "agent_id")
	r.TaskType, r.Priority = field[string](e, "task_type"), coordinator.PriorityNormal
	if p, given := e.fields["priority"].(float64); given {
		r.Priority = coordinator.Priority(p)
	}
	r.CorrelationID = field[string](e, "correlation_id")
	return r
}

// unquote decodes a JSON string that the scanner has passed; anything else
// gives "".
func unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return ""
	}
	return s
}
