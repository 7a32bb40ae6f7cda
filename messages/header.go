package messages

import (
	"encoding/hex"
	"slices"
	"strconv"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// The headers by which a dispatch that comes back can be decided again. Their
// names are those of the schemas.
const (
	HeaderTask  = schemas.TaskHeader
	HeaderTried = schemas.TriedHeader
)

// maxTried bounds the agents listed in the tried header. A message's headers
// must fit one AMQP frame (128 KiB), or the broker closes the connection; a test
// does the sum for the largest task.
const maxTried = 64

// EncodeTaskHeader renders everything of a task but its payload and the trace
// context, which have places of their own in the message.
func EncodeTaskHeader(t *coordinator.Task) string {
	var buffer [1024]byte
	dst := append(buffer[:0], '{')
	dst = appendField(dst, "task_id", t.ID)
	dst = appendField(dst, "task_type", t.Type)
	dst = appendInt(dst, "priority", int(t.Priority))
	dst = appendField(dst, "correlation_id", t.TraceID)
	if t.Timeout > 0 {
		dst = appendSeconds(dst, "timeout_seconds", t.Timeout)
	}
	dst = appendList(dst, "required_capabilities", t.Required)
	dst = appendList(dst, "preferred_agents", t.Preferred)
	dst = appendList(dst, "excluded_agents", t.Excluded)
	dst = appendOptional(dst, "group", t.Group)
	if !t.Deadline.IsZero() {
		dst = appendExactTime(dst, "deadline", t.Deadline)
	}
	dst = appendOptional(dst, "strategy", t.Strategy)
	if t.EstimatedUsage != nil {
		dst = appendUsage(dst, t.EstimatedUsage)
	}
	dst = appendLabels(dst, t.Labels)
	dst = appendOptional(dst, "reply_to", t.ReplyTo)
	dst = appendExactTime(dst, "accepted_at", t.AcceptedAt)
	dst = append(appendName(dst, "content_hash"), '"')
	dst = appendHex(dst, t.ContentHash)
	return string(append(dst, `"}`...))
}

func appendUsage(dst []byte, u *coordinator.Usage) []byte {
	dst = append(appendName(dst, "estimated_usage"), '{')
	for _, amount := range [...]struct {
		name  string
		value float64
	}{
		{"requests", u.Requests},
		{"input_tokens", u.InputTokens},
		{"output_tokens", u.OutputTokens},
		{"cost_usd", u.CostUSD},
	} {
		if amount.value != 0 {
			dst = appendFloat(dst, amount.name, amount.value)
		}
	}
	dst = appendOptional(dst, "provider", u.Provider)
	dst = appendOptional(dst, "model", u.Model)
	return append(dst, '}')
}

// appendLabels goes by sorted keys, so that equal tasks give equal headers.
func appendLabels(dst []byte, labels map[string]string) []byte {
	if len(labels) == 0 {
		return dst
	}
	var buffer [maxLabels]string
	keys := buffer[:0]
	for key := range labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	dst = append(appendName(dst, "labels"), '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, key), ':')
		dst = appendString(dst, labels[key])
	}
	return append(dst, '}')
}

// appendHex appends 16 digits. (As a JSON number, half of all hashes would lose
// bits to floating point.)
func appendHex(dst []byte, n uint64) []byte {
	var b [8]byte
	for i := range b {
		b[i] = byte(n >> (56 - 8*i))
	}
	return hex.AppendEncode(dst, b[:])
}

// DecodeTaskHeader reads what EncodeTaskHeader wrote. The header is untrusted:
// an agent's queue may hold anything. The trace context is left empty.
func (d *Decoder) DecodeTaskHeader(header string) (*coordinator.Task, *Refusal) {
	e, refusal := d.decode(schemas.TaskHeader, []byte(header))
	if refusal != nil {
		return nil, refusal
	}
	m, refusal := taskFields(e)
	if refusal != nil {
		return nil, refusal
	}
	accepted, refusal := timestamp(e, "accepted_at")
	if refusal != nil {
		return nil, refusal
	}
	hash, err := strconv.ParseUint(field[string](e, "content_hash"), 16, 64)
	if err != nil {
		return nil, e.refuse("/content_hash", "pattern", "expected 16 hexadecimal digits")
	}
	return m.Task(Arrival{Now: accepted, ContentHash: hash, ReplyTo: field[string](e, "reply_to")}), nil
}

// Tried says which agents have had a task.
type Tried struct {
	// Agent that this dispatch went to, under Attempt (from 1).
	Agent   coordinator.AgentID
	Attempt int
	// Agents so far, Agent among them. Sorted, without duplicates.
	Agents []coordinator.AgentID
}

// EncodeTriedHeader renders which agents have had the task once d is delivered.
// Beyond 64 agents the rest is left out: they may be asked once more.
func EncodeTriedHeader(d *coordinator.Dispatch) string {
	before := d.Tried[:min(len(d.Tried), maxTried-1)]
	var buffer [256]byte
	dst := append(buffer[:0], '{')
	dst = appendField(dst, "agent", d.Agent)
	dst = appendInt(dst, "attempt", d.Attempt)
	dst = append(appendName(dst, "tried"), '[')
	for _, agent := range before {
		dst = append(appendString(dst, agent), ',')
	}
	dst = append(appendString(dst, d.Agent), ']')
	return string(append(dst, '}'))
}

// DecodeTriedHeader reads what EncodeTriedHeader wrote. The header is untrusted.
func (d *Decoder) DecodeTriedHeader(header string) (*Tried, *Refusal) {
	e, refusal := d.decode(schemas.TriedHeader, []byte(header))
	if refusal != nil {
		return nil, refusal
	}
	t := &Tried{
		Agent:   coordinator.AgentID(field[string](e, "agent")),
		Attempt: integer(e, "attempt"),
	}
	t.Agents = coordinator.SortedUnique(append(list[coordinator.AgentID](e, "tried"), t.Agent))
	return t, nil
}
