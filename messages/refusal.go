package messages

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// MaxText bounds every text for people that Taskbus sends, in bytes.
const MaxText = 2048

// maxPath bounds a refusal's path, in bytes: labels may have any key.
const maxPath = 256

// Refusal is why a message was not accepted. It never quotes a payload.
type Refusal struct {
	// MessageType, TaskID and CorrelationID as far as the envelope could be
	// read; each is empty or valid.
	MessageType   string
	TaskID        coordinator.TaskID
	CorrelationID string
	// AuctionID likewise, of a task.bid; empty for every other message.
	AuctionID string
	// AgentID is the text that stands in agent_id, as far as that could be read, for
	// people: at most 128 bytes, without control characters, and perhaps no id at all.
	AgentID string
	// TaskType is likewise what stands in task_type.
	TaskType string
	// Priority of the task: normal where the message gives none, PriorityUnread where it gives none that there is.
	Priority coordinator.Priority
	// ReplyTo is the producer's queue, as the header of a dispatch that came back
	// names it; empty when it names none, and for every other message.
	ReplyTo string
	// Path is where the fault is, as a JSON pointer; empty for the whole message.
	Path string
	// Keyword is the rule that was broken, a closed set fit for a metric's label:
	// a keyword of JSON Schema, or size, syntax, depth, tokens, number, utf8,
	// surrogate, duplicateKey, letterCase, calendar, header.
	Keyword string
	// Text says what is wrong, for people; at most MaxText bytes, without control
	// characters.
	Text string
}

// PriorityUnread stands for a priority that could not be read, in a task that was refused. No task that is decided
// has it.
const PriorityUnread coordinator.Priority = 255

// Fail renders the refusal as a failure with the reason invalid_message, for
// AppendAssignmentFailed. traceID is used when the message gave none. It must
// not be asked for when TaskID is empty: no sender could be answered.
func (r *Refusal) Fail(traceID string, now time.Time) *coordinator.Fail {
	if r.CorrelationID != "" {
		traceID = r.CorrelationID
	}
	return &coordinator.Fail{
		Task: &coordinator.Task{ID: r.TaskID, Type: r.TaskType, Priority: r.Priority,
			Carried: Carried{CorrelationID: traceID}, ReplyTo: r.ReplyTo},
		Failure: coordinator.Failure{Reason: coordinator.ReasonInvalidMessage, Text: r.Text, FailedAt: now},
	}
}

var faults = [jsontext.NumFaults]struct{ keyword, text string }{
	jsontext.None:       {"", ""},
	jsontext.Syntax:     {"syntax", "not valid JSON"},
	jsontext.NoObject:   {"type", "expected a JSON object"},
	jsontext.Trailing:   {"syntax", "something follows the end of the JSON object"},
	jsontext.Depth:      {"depth", "nested more deeply than %d levels"},
	jsontext.Tokens:     {"tokens", "more than %d keys and values"},
	jsontext.Number:     {"number", "a number is longer than 64 characters or its exponent beyond ±308"},
	jsontext.UTF8:       {"utf8", "not valid UTF-8"},
	jsontext.Surrogate:  {"surrogate", "half of a surrogate pair stands alone"},
	jsontext.Duplicate:  {"duplicateKey", "a key occurs twice in one object"},
	jsontext.LetterCase: {"letterCase", "a key differs from a known field by letter case only"},
}

// scanRefusal renders the scanner's fault.
func scanRefusal(f jsontext.Fault, at int, path string, l Limits) *Refusal {
	text := faults[f].text
	switch f {
	case jsontext.Depth:
		text = fmt.Sprintf(text, l.MaxDepth)
	case jsontext.Tokens:
		text = fmt.Sprintf(text, l.MaxTokens)
	}
	text += ", at byte " + strconv.Itoa(at)
	if path != "" {
		text = path + ": " + text
	}
	return &Refusal{Path: path, Keyword: faults[f].keyword, Text: Clean(text, MaxText)}
}

// schemaRefusal renders a violation of the schema.
func schemaRefusal(err error) *Refusal {
	var v *schemas.Violation
	if !errors.As(err, &v) {
		return &Refusal{Keyword: "schema", Text: Clean(err.Error(), MaxText)}
	}
	short := *v
	short.Path = Clean(v.Path, maxPath)
	return &Refusal{Path: short.Path, Keyword: v.Keyword, Text: Clean(short.Error(), MaxText)}
}

// Clean makes a text fit for logs and messages: control characters become
// spaces, invalid UTF-8 becomes U+FFFD, and what goes beyond limit bytes is cut
// at a character and marked with an ellipsis. limit must be at least 3.
func Clean(s string, limit int) string {
	if len(s) <= limit && plain(s) {
		return s
	}
	// Cut first: what is cleaned may be a megabyte.
	cut := len(s) > limit
	if cut {
		s = s[:boundary(s, limit)]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
	if !cut && len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	if end := limit - len(ellipsis); len(s) > end {
		s = s[:boundary(s, end)]
	}
	return s + ellipsis
}

// boundary is the last place at or before i where a character of s begins; i
// must be less than the length of s.
func boundary(s string, i int) int {
	for n := 0; n < utf8.UTFMax && i > 0 && !utf8.RuneStart(s[i]); n++ {
		i--
	}
	return i
}

// plain tells whether s is printable ASCII throughout.
func plain[S ~string | ~[]byte](s S) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
