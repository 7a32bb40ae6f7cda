package messages

import (
	"encoding/json"
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// TaskAssign is a task.assign message: a producer asks for a task to be done.
type TaskAssign struct {
	TaskID   coordinator.TaskID `json:"task_id"`
	TaskType string             `json:"task_type"`
	// Payload is a JSON object. After decoding it is a part of the message's
	// body, byte for byte, and lives as long as that.
	Payload json.RawMessage `json:"payload"`
	// Priority is 1 (normal) when the message gives none; in Go the zero value is
	// 0 (low).
	Priority coordinator.Priority `json:"priority"`
	// Carried: its CorrelationID is empty when the message gives none.
	Carried
	// TimeoutSeconds is more than 0 and at most 604,800; 0 when not given.
	TimeoutSeconds       float64               `json:"timeout_seconds,omitempty"`
	RequiredCapabilities []string              `json:"required_capabilities,omitempty"`
	PreferredAgents      []coordinator.AgentID `json:"preferred_agents,omitempty"`
	// WidenAfterSeconds is more than 0 and at most 604,800; 0 when not given.
	WidenAfterSeconds float64               `json:"widen_after_seconds,omitempty"`
	ExcludedAgents    []coordinator.AgentID `json:"excluded_agents,omitempty"`
	Group             string                `json:"group,omitempty"`
	// Deadline is zero when not given.
	Deadline time.Time `json:"deadline,omitzero"`
	// MaxWaitSeconds is more than 0 and at most 604,800; 0 when not given.
	MaxWaitSeconds float64         `json:"max_wait_seconds,omitempty"`
	Strategy       string          `json:"strategy,omitempty"`
	EstimatedUsage *EstimatedUsage `json:"estimated_usage,omitempty"`
	// AllowBorrowing: whether its group may use what others leave of their quotas for it;
	// nil is true.
	AllowBorrowing *bool             `json:"allow_borrowing,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	// Description is what bidders are told of the task: at most 2,048 characters, of
	// any kind. It is kept as it is, and belongs in no log.
	Description string `json:"description,omitempty"`
	// Unknown are names of fields that the message has and its schema does not: the first 8, at most 64 bytes each.
	// They have no effect. Not among them is what payload and labels hold.
	Unknown []string `json:"-"`
}

// MarshalJSON adds message_type. A payload that is missing becomes {}.
func (m TaskAssign) MarshalJSON() ([]byte, error) {
	type fields TaskAssign
	if m.Payload == nil {
		m.Payload = json.RawMessage("{}")
	}
	m.Deadline = m.Deadline.UTC()
	if m.CorrelationID == "" { // which a task has, and its producer need not give
		return json.Marshal(struct {
			MessageType string `json:"message_type"`
			fields
			None *string `json:"correlation_id,omitempty"`
		}{schemas.TaskAssign, fields(m), nil})
	}
	return json.Marshal(struct {
		MessageType string `json:"message_type"`
		fields
	}{schemas.TaskAssign, fields(m)})
}

// DecodeTaskAssign reads a task.assign. The result holds a part of body, which
// must not be changed afterwards.
func (d *Decoder) DecodeTaskAssign(body []byte) (*TaskAssign, *Refusal) {
	if m, ok := d.fastTaskAssign(body); ok {
		return m, nil
	}
	return d.slowTaskAssign(body)
}

func (d *Decoder) fastTaskAssign(body []byte) (*TaskAssign, bool) {
	m := &TaskAssign{Priority: coordinator.PriorityNormal}
	var ok bool
	m.Unknown, ok = d.fast(body, d.limits, 4, func(s *scanner, key jsontext.Text) (required, ok bool) {
		return s.taskField(m, key, d.taskFields)
	})
	return m, ok
}

// payload consumes an object and returns its bytes.
func (s *scanner) payload() ([]byte, bool) {
	if s.Peek() != '{' {
		return nil, false
	}
	return s.Value()
}

// taskField reads one field of a task.assign.
func (s *scanner) taskField(m *TaskAssign, key jsontext.Text, known []string) (required, ok bool) {
	var raw []byte
	switch string(key.Raw) {
	case "message_type":
		return true, s.Is(schemas.TaskAssign)
	case "task_id":
		raw, ok = s.id(maxID)
		m.TaskID = coordinator.TaskID(raw)
		return true, ok
	case "task_type":
		m.TaskType, ok = s.name("")
		return true, ok
	case "payload":
		m.Payload, ok = s.payload()
		return true, ok
	case "priority":
		var p int
		p, ok = s.Whole(maxPriority)
		m.Priority = coordinator.Priority(p)
	case "timeout_seconds":
		m.TimeoutSeconds, ok = s.Decimal(maxTimeout)
		ok = ok && m.TimeoutSeconds > 0
	case "max_wait_seconds":
		m.MaxWaitSeconds, ok = s.Decimal(maxTimeout)
		ok = ok && m.MaxWaitSeconds > 0
	case "required_capabilities":
		m.RequiredCapabilities, ok = jsontext.List[string](&s.Scanner, maxRequired, validName)
	case "preferred_agents":
		m.PreferredAgents, ok = jsontext.List[coordinator.AgentID](&s.Scanner, maxAgentIDs, anyID)
	case "widen_after_seconds":
		m.WidenAfterSeconds, ok = s.Decimal(maxTimeout)
		ok = ok && m.WidenAfterSeconds > 0
	case "excluded_agents":
		m.ExcludedAgents, ok = jsontext.List[coordinator.AgentID](&s.Scanner, maxAgentIDs, anyID)
	case "group":
		m.Group, ok = s.name("")
	case "deadline":
		m.Deadline, ok = s.time()
	case "strategy":
		var t jsontext.Text
		t, ok = s.PlainText()
		ok = ok && validStrategy(t.Raw)
		m.Strategy = string(t.Raw)
	case "estimated_usage":
		var u *coordinator.Usage
		var estimate EstimatedUsage
		if u, ok = s.usage(nil, &estimate); ok {
			estimate.Usage = Usage(*u)
			m.EstimatedUsage = &estimate
		}
	case "labels":
		m.Labels, ok = s.Pairs(maxLabels, validLabel)
	case "allow_borrowing":
		m.AllowBorrowing = new(bool)
		*m.AllowBorrowing, ok = s.Boolean()
	case "description":
		m.Description, ok = s.description()
	default:
		_, ok = s.carried(&m.Carried, key, known)
	}
	return false, ok
}

func (d *Decoder) slowTaskAssign(body []byte) (*TaskAssign, *Refusal) {
	e, refusal := d.decode(schemas.TaskAssign, body)
	if refusal != nil {
		return nil, refusal
	}
	m := &TaskAssign{Payload: e.payload, Priority: coordinator.PriorityNormal}
	if refusal := e.into(m); refusal != nil {
		return nil, refusal
	}
	if u := m.EstimatedUsage; u != nil && len(u.Alternatives) > 0 && (u.Provider != "" || u.Model != "") {
		return nil, e.refuse("/estimated_usage/alternatives", "not",
			"alternatives stand for provider and model; give them, or these")
	}
	return m, nil
}

// Arrival is what a task's delivery adds to its message.
type Arrival struct {
	// Now is when the task is accepted.
	Now time.Time
	// ContentHash over the body, as [coordinator.Task] has it.
	ContentHash uint64
	// CorrelationID is the AMQP property, used when the body gives none. One that
	// is not valid (see ValidTraceID) is passed over.
	CorrelationID string
	// NewTraceID is called when neither gives a trace id. If it is nil, the task
	// id is the trace id.
	NewTraceID func() string
	// ReplyTo, TraceParent and TraceState as in [coordinator.Task]. What is not
	// printable ASCII or too long for W3C trace context is left out.
	ReplyTo, TraceParent, TraceState string
}

// The longest trace context headers passed on, in bytes: a traceparent has 55 in
// its first version, and a tracestate must be passed on up to 512.
const (
	maxReplyTo     = 255
	maxTraceParent = 255
	maxTraceState  = 512
)

// Task makes the coordinator's value. It takes m's lists and labels over and
// sorts them in place; m must not be used afterwards but for its Payload.
func (m *TaskAssign) Task(a Arrival) *coordinator.Task {
	carried := m.Carried
	if carried.CorrelationID == "" && ValidTraceID(a.CorrelationID) {
		carried.CorrelationID = a.CorrelationID
	}
	if carried.CorrelationID == "" && a.NewTraceID != nil {
		carried.CorrelationID = a.NewTraceID()
	}
	carried.CorrelationID = traceOf(carried.CorrelationID, m.TaskID)
	var estimated *coordinator.Usage
	var alternatives []coordinator.Service
	noTokens := false
	if u := m.EstimatedUsage; u != nil {
		estimated, alternatives, noTokens = (*coordinator.Usage)(&u.Usage), u.Alternatives, u.NoTokens
	}
	return &coordinator.Task{
		ID:             m.TaskID,
		Type:           m.TaskType,
		Priority:       m.Priority,
		Carried:        carried,
		Timeout:        timeout(m.TimeoutSeconds),
		Deadline:       m.Deadline,
		MaxWait:        timeout(m.MaxWaitSeconds),
		Required:       sortedUnique(m.RequiredCapabilities),
		Preferred:      m.PreferredAgents,
		WidenAfter:     timeout(m.WidenAfterSeconds),
		Excluded:       sortedUnique(m.ExcludedAgents),
		Strategy:       m.Strategy,
		Group:          m.Group,
		Labels:         m.Labels,
		Description:    m.Description,
		EstimatedUsage: estimated,
		Alternatives:   alternatives,
		NoTokens:       noTokens,
		NoBorrowing:    m.AllowBorrowing != nil && !*m.AllowBorrowing,
		ReplyTo:        printableOrNone(a.ReplyTo, maxReplyTo),
		TraceParent:    printableOrNone(a.TraceParent, maxTraceParent),
		TraceState:     printableOrNone(a.TraceState, maxTraceState),
		AcceptedAt:     a.Now,
		ContentHash:    a.ContentHash,
	}
}

// timeout is zero only when the task does not say: what is shorter than a
// millisecond counts as one, the shortest time that AMQP knows.
func timeout(seconds float64) time.Duration {
	if seconds == 0 {
		return 0
	}
	return max(time.Millisecond, time.Duration(math.Round(seconds*float64(time.Second))))
}

// sortedUnique spares the common short lists the sorting.
func sortedUnique[S ~string](list []S) []S {
	if len(list) < 2 {
		return list
	}
	return coordinator.SortedUnique(list)
}

func printableOrNone(s string, limit int) string {
	if len(s) > limit || !plain(s) {
		return ""
	}
	return s
}
