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

// maxHeaders is the frame size of AMQP that brokers use, in bytes. A message's
// headers must fit one frame, or the broker closes the connection; a test does
// the sum for the largest task.
const maxHeaders = 128 << 10

// maxTried bounds the agents listed in the tried header, maxSuspected those of them that went
// down with others in hand: more would not fit the frame beside the largest task.
const (
	maxTried     = 64
	maxSuspected = 32
)

// EncodeTaskHeader renders what the body of a task's dispatch does not say and a
// decision needs that is made when it comes back. It has as few bytes as can be:
// the broker pays for each of them with every dispatch. The trace context has
// headers of its own. What can be long and the agent is to have, the description, is
// in the body: in the header it would be said twice, and beside the longest lists and
// labels it would not fit the frame.
func EncodeTaskHeader(t *coordinator.Task) string {
	var buffer [1024]byte
	dst := append(buffer[:0], '{')
	dst = strconv.AppendInt(appendName(dst, "accepted_at"), t.AcceptedAt.UnixMicro(), 10)
	dst = append(appendName(dst, "content_hash"), '"')
	dst = append(appendHex(dst, t.ContentHash), '"')
	dst = appendTaskOptions(dst, t)
	dst = appendOptional(dst, "reply_to", t.ReplyTo)
	return string(append(dst, '}'))
}

// appendTaskOptions appends the fields that a task.assign and the header of its dispatch have in common.
func appendTaskOptions(dst []byte, t *coordinator.Task) []byte {
	if t.Timeout > 0 {
		dst = appendSeconds(dst, "timeout_seconds", t.Timeout)
	}
	dst = appendList(dst, "required_capabilities", t.Required)
	dst = appendList(dst, "preferred_agents", t.Preferred)
	if t.WidenAfter > 0 {
		dst = appendSeconds(dst, "widen_after_seconds", t.WidenAfter)
	}
	dst = appendList(dst, "excluded_agents", t.Excluded)
	dst = appendOptional(dst, "group", t.Group)
	dst = appendOptional(dst, "strategy", t.Strategy)
	if u := t.EstimatedUsage; u != nil {
		dst = appendUsage(dst, "estimated_usage", u, t.Alternatives, t.NoTokens)
	} else if len(t.Alternatives) > 0 {
		dst = appendUsage(dst, "estimated_usage", new(coordinator.Usage), t.Alternatives, false)
	}
	if t.NoBorrowing {
		dst = append(appendName(dst, "allow_borrowing"), "false"...)
	}
	return appendLabels(dst, t.Labels)
}

// leastAmount is the smallest amount that is rendered. What is less is nothing,
// and its exponent would be longer than decoding admits.
const leastAmount = 1e-300

func appendUsage(dst []byte, name string, u *coordinator.Usage, alternatives []coordinator.Service,
	noTokens bool) []byte {
	dst = append(appendName(dst, name), '{')
	if noTokens { // else they would be estimated
		dst = append(appendName(dst, "input_tokens"), '0')
		dst = append(appendName(dst, "output_tokens"), '0')
	}
	for _, amount := range [...]struct {
		name  string
		value float64
	}{
		{"requests", u.Requests},
		{"input_tokens", u.InputTokens},
		{"output_tokens", u.OutputTokens},
		{"cost_usd", u.CostUSD},
	} {
		if amount.value >= leastAmount {
			dst = appendFloat(dst, amount.name, amount.value)
		}
	}
	dst = appendOptional(dst, "provider", u.Provider)
	dst = appendOptional(dst, "model", u.Model)
	for i, s := range alternatives {
		if i == 0 {
			dst = append(appendName(dst, "alternatives"), '[')
		} else {
			dst = append(dst, ',')
		}
		dst = appendField(append(dst, '{'), "provider", s.Provider)
		dst = append(appendOptional(dst, "model", s.Model), '}')
	}
	if len(alternatives) > 0 {
		dst = append(dst, ']')
	}
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

// EncodeTriedHeader renders which agents have had the task once d is delivered,
// on which of them it failed, which of them went down with it and others in
// hand, and how many tries came before where one had it again. It is empty, and no header is needed, when there is
// nothing of that: the
// body names the agent of this dispatch. Beyond 64 agents the rest is left out:
// they may be asked once more.
func EncodeTriedHeader(d *coordinator.Dispatch) string {
	var buffer [512]byte
	dst := append(buffer[:0], '{')
	dst = appendField(dst, "agent", d.Agent)
	dst = appendInt(dst, "attempt", d.Attempt)
	dst = append(appendName(dst, "tried"), '[')
	others := 0
	for _, agent := range d.Tried {
		if agent != d.Agent && others < maxTried-1 {
			dst = append(appendString(dst, agent), ',')
			others++
		}
	}
	if others == 0 && len(d.Failed) == 0 && len(d.Suspected) == 0 && d.Tries == 0 {
		return ""
	}
	dst = append(appendString(dst, d.Agent), ']')
	dst = appendList(dst, "failed", d.Failed[:min(len(d.Failed), maxTried)])
	dst = appendList(dst, "suspected", d.Suspected[:min(len(d.Suspected), maxSuspected)])
	if d.Tries > others {
		dst = appendInt(dst, "tries", d.Tries)
	}
	return string(append(dst, '}'))
}
