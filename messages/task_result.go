package messages

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// Outcome is how a task ended at its agent: the word on the bus for a
// [coordinator.Outcome].
type Outcome string

// The outcomes. Failed and Cancelled are as final as Succeeded. Rejected is not:
// the agent gives the task back, by a basic.reject once the result is confirmed,
// and another agent gets it.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	Rejected  Outcome = "rejected"
	Cancelled Outcome = "cancelled"
)

// TaskResult is a task.result message: an agent tells how a task ended.
type TaskResult struct {
	TaskID  coordinator.TaskID  `json:"task_id"`
	AgentID coordinator.AgentID `json:"agent_id"`
	// Outcome is one of the four constants after decoding.
	Outcome Outcome `json:"outcome"`
	// Attempted, with Rejected, says that the agent had begun and could not go on:
	// it counts as a failure of the task on this agent. With any other outcome it
	// means nothing.
	Attempted bool `json:"attempted,omitempty"`
	// RetryAfterMS, with Rejected, is for how many milliseconds the agent asks not to be given the
	// task again, as after a provider's Retry-After; 0 when not given, at most a day.
	RetryAfterMS  float64 `json:"retry_after_ms,omitempty"`
	CorrelationID string  `json:"correlation_id"`
	// Timestamp is the agent's own clock.
	Timestamp time.Time `json:"timestamp"`
	// DispatchID and Attempt are those of the dispatch; empty and 0 when not given.
	DispatchID string `json:"dispatch_id,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	// DurationMS is how long the work took, in milliseconds; 0 when not given, at
	// most 1e12.
	DurationMS float64 `json:"duration_ms,omitempty"`
	// Error is for people; it is cleaned and cut at MaxText when it is sent.
	Error string `json:"error,omitempty"`
	Usage *Usage `json:"usage,omitempty"`
	// Output is what the agent found out: a JSON value, byte for byte, and a part of the body that was decoded; nil
	// when not given.
	Output json.RawMessage `json:"output,omitempty"`
	// OutputRef says where a larger one is; nil when not given.
	OutputRef *OutputRef `json:"output_ref,omitempty"`
	// Unknown as of TaskAssign.
	Unknown []string `json:"-"`
}

// OutputRef is [coordinator.OutputRef], for agents, which know no more of that package than this one shows.
type OutputRef = coordinator.OutputRef

// MarshalJSON adds message_type.
func (m TaskResult) MarshalJSON() ([]byte, error) {
	type fields TaskResult
	m.Timestamp = m.Timestamp.UTC()
	m.Error = Clean(m.Error, MaxText)
	return json.Marshal(struct {
		MessageType string `json:"message_type"`
		fields
	}{schemas.TaskResult, fields(m)})
}

// Result makes the coordinator's value of a decoded message. It shares m's usage,
// and its output, which must not be changed afterwards. (Decoding into m again does not; it makes
// new ones.)
func (m *TaskResult) Result() coordinator.Result {
	outcome, _ := outcomeOf(m.Outcome)
	var retryAfter time.Duration
	if outcome == coordinator.OutcomeRejected {
		retryAfter = time.Duration(math.Round(m.RetryAfterMS * float64(time.Millisecond)))
	}
	var output *coordinator.Output
	if m.Output != nil || m.OutputRef != nil {
		output = &coordinator.Output{Value: m.Output, Ref: m.OutputRef}
	}
	return coordinator.Result{
		Output:     output,
		RetryAfter: retryAfter,
		Task:       m.TaskID,
		Agent:      m.AgentID,
		DispatchID: m.DispatchID,
		Outcome:    outcome,
		Attempted:  m.Attempted && outcome == coordinator.OutcomeRejected,
		TraceID:    m.CorrelationID,
		Timestamp:  m.Timestamp,
		Duration:   time.Duration(math.Round(m.DurationMS * float64(time.Millisecond))),
		Error:      m.Error,
		Usage:      (*coordinator.Usage)(m.Usage),
	}
}

// outcomeOf reads the word for an outcome.
func outcomeOf[S ~string | ~[]byte](word S) (outcome coordinator.Outcome, known bool) {
	switch Outcome(word) {
	case Succeeded:
		return coordinator.OutcomeSucceeded, true
	case Failed:
		return coordinator.OutcomeFailed, true
	case Rejected:
		return coordinator.OutcomeRejected, true
	case Cancelled:
		return coordinator.OutcomeCancelled, true
	}
	return coordinator.OutcomeFailed, false
}

// DecodeTaskResult reads a task.result into *into, which is overwritten. It keeps
// no part of body but the output, and reuses the strings of *into that have not changed. After a
// refusal *into is not to be used.
func (d *Decoder) DecodeTaskResult(body []byte, into *TaskResult) *Refusal {
	if d.fastTaskResult(body, into) {
		return nil
	}
	return d.slowTaskResult(body, into)
}

func (d *Decoder) fastTaskResult(body []byte, m *TaskResult) bool {
	old := *m
	*m = TaskResult{}
	var ok bool
	m.Unknown, ok = d.fast(body, d.limits.withOutput(), 6, func(s *scanner, key jsontext.Text) (required, ok bool) {
		return s.resultField(m, &old, key, d.resultFields)
	})
	return ok && len(m.Output) <= d.limits.MaxOutput
}

// resultField reads one field of a task.result.
func (s *scanner) resultField(m, old *TaskResult, key jsontext.Text, known []string) (required, ok bool) {
	var raw []byte
	switch string(key.Raw) {
	case "message_type":
		return true, s.Is(schemas.TaskResult)
	case "task_id":
		raw, ok = s.id(maxID)
		m.TaskID = keep(old.TaskID, raw)
		return true, ok
	case "agent_id":
		raw, ok = s.id(maxID)
		m.AgentID = keep(old.AgentID, raw)
		return true, ok && !reservedAgentID(string(m.AgentID))
	case "outcome":
		m.Outcome, ok = s.outcome()
		return true, ok
	case "correlation_id":
		raw, ok = s.printable()
		m.CorrelationID = keep(old.CorrelationID, raw)
		return true, ok
	case "timestamp":
		m.Timestamp, ok = s.time()
		return true, ok
	case "attempted":
		m.Attempted, ok = s.Boolean()
	case "retry_after_ms":
		m.RetryAfterMS, ok = s.Decimal(maxRetryAfter)
	case "dispatch_id":
		raw, ok = s.id(maxDispatchID)
		m.DispatchID = keep(old.DispatchID, raw)
	case "attempt":
		m.Attempt, ok = s.Whole(maxCount)
		ok = ok && m.Attempt > 0
	case "duration_ms":
		m.DurationMS, ok = s.Decimal(maxDuration)
	case "error":
		m.Error, ok = s.forPeople()
	case "usage":
		var u *coordinator.Usage
		u, ok = s.usage((*coordinator.Usage)(old.Usage), nil)
		m.Usage = (*Usage)(u)
	case "output":
		m.Output, ok = s.Value()
	case "output_ref":
		m.OutputRef, ok = s.outputRef()
	default:
		ok = s.unknown(key, known)
	}
	return false, ok
}

// FailedByOutput reports whether a task.result was refused for its output, or its size, and names its task and agent.
// If so, *into says that the task has failed by it: work was done and cannot be passed on, and the producer is told.
func FailedByOutput(r *Refusal, into *TaskResult) bool {
	output := r.Path == "/output" || strings.HasPrefix(r.Path, "/output/") || r.Path == "" && r.Keyword == "size"
	if !output || r.TaskID == "" || !ValidID(r.AgentID) || reservedAgentID(r.AgentID) {
		return false
	}
	*into = TaskResult{
		TaskID: r.TaskID, AgentID: coordinator.AgentID(r.AgentID), Outcome: Failed,
		CorrelationID: traceOf(r.CorrelationID, r.TaskID),
		Error:         Clean("the agent's result cannot be passed on: "+r.Text, MaxText),
	}
	return true
}

// outputRef reads one that has its three fields and no other.
func (s *scanner) outputRef() (*OutputRef, bool) {
	var o jsontext.Object
	if s.Peek() != '{' || !s.OpenObject(&o) {
		return nil, false
	}
	r, given := new(OutputRef), 0
	for {
		key, more := s.NextKey(&o)
		if !more {
			return r, s.Fault == jsontext.None && given == 3
		}
		given++
		var text jsontext.Text
		ok := false
		switch string(key.Raw) {
		case "uri":
			text, ok = s.PlainText()
			r.URI = string(text.Raw)
			ok = ok && validURI(text.Raw)
		case "sha256":
			text, ok = s.PlainText()
			r.SHA256 = string(text.Raw)
			ok = ok && validSHA256(text.Raw)
		case "size":
			var size int
			size, ok = s.Whole(math.MaxInt32)
			r.Size = int64(size)
		}
		if !ok {
			return nil, false
		}
	}
}

const (
	maxURI    = 2048
	hexDigits = 2 * sha256.Size
)

func validURI(raw []byte) bool {
	return len(raw) > 0 && len(raw) <= maxURI && !bytes.ContainsFunc(raw, func(r rune) bool { return r < '!' || r > '~' })
}

func validSHA256(raw []byte) bool {
	return len(raw) == hexDigits && len(bytes.Trim(raw, "0123456789abcdef")) == 0
}

// outcome reads the word for an outcome, without a copy of it.
func (s *scanner) outcome() (Outcome, bool) {
	t, ok := s.PlainText()
	if !ok {
		return "", false
	}
	outcome, known := outcomeOf(t.Raw)
	return Outcome(outcome.String()), known
}

// forPeople reads a text of at most MaxText characters.
func (s *scanner) forPeople() (string, bool) {
	text, ok := s.textOf(MaxText)
	return Clean(text, MaxText), ok
}

func (d *Decoder) slowTaskResult(body []byte, m *TaskResult) *Refusal {
	e, refusal := d.decodeWithin(d.limits.withOutput(), schemas.TaskResult, body)
	if refusal != nil {
		return refusal
	}
	*m = TaskResult{}
	if refusal = e.into(m); refusal != nil {
		return refusal
	}
	m.Error = Clean(m.Error, MaxText)
	return nil
}
