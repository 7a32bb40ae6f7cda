package messages

import (
	"encoding/json"
	"math"
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
	// Unknown as of TaskAssign.
	Unknown []string `json:"-"`
}

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
// which must not be changed afterwards. (Decoding into m again does not; it makes
// a new one.)
func (m *TaskResult) Result() coordinator.Result {
	outcome, _ := outcomeOf(m.Outcome)
	var retryAfter time.Duration
	if outcome == coordinator.OutcomeRejected {
		retryAfter = time.Duration(math.Round(m.RetryAfterMS * float64(time.Millisecond)))
	}
	return coordinator.Result{
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
// no part of body, and reuses the strings of *into that have not changed. After a
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
	m.Unknown, ok = d.fast(body, d.limits, 6, func(s *scanner, key jsontext.Text) (required, ok bool) {
		return s.resultField(m, &old, key, d.resultFields)
	})
	return ok
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
	default:
		ok = s.unknown(key, known)
	}
	return false, ok
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
	e, refusal := d.decode(schemas.TaskResult, body)
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
