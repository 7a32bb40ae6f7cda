package messages

import (
	"encoding/json"
	"time"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
	"taskbus/schemas"
)

// AgentStatus is an agent.status message: an agent reports its own state.
type AgentStatus struct {
	AgentID coordinator.AgentID `json:"agent_id"`
	// Status is never StatusUnknown after decoding.
	Status coordinator.AgentStatus `json:"-"`
	// CurrentLoad is 0 to 1.
	CurrentLoad float64 `json:"current_load"`
	// ActiveTasks and AvailableCapacity are 0 to 1,000,000.
	ActiveTasks       int `json:"active_tasks"`
	AvailableCapacity int `json:"available_capacity"`
	// Timestamp is the agent's own clock.
	Timestamp    time.Time `json:"timestamp"`
	Capabilities []string  `json:"capabilities,omitempty"`
	Queue        string    `json:"queue,omitempty"`
	// MaxConcurrentTasks is 0 when not given.
	MaxConcurrentTasks int `json:"max_concurrent_tasks,omitempty"`
	// ActiveTaskIDs are the tasks that the agent runs, all of them. nil when it
	// does not say; an empty list says that it runs nothing.
	ActiveTaskIDs []coordinator.TaskID `json:"active_task_ids,omitzero"`
	// CapacityItemsPerSecond is how much work the agent says it does, MinRate to
	// MaxRate, or 0: it does not know. Meant only when HasCapacity.
	CapacityItemsPerSecond float64 `json:"-"`
	HasCapacity            bool    `json:"-"`
	// PendingItems, 0 to MaxPending, are not finished; meant only when HasPending.
	PendingItems int               `json:"-"`
	HasPending   bool              `json:"-"`
	Labels       map[string]string `json:"labels,omitempty"`
	// InstanceID names the process that reports; empty when not given.
	InstanceID string `json:"instance_id,omitempty"`
	// Relayed: a coordinator publishes it for the agent. No agent may set it.
	Relayed bool `json:"relayed,omitempty"`
	// Unknown as of TaskAssign.
	Unknown []string `json:"-"`
}

// MarshalJSON adds message_type, the word for the status, and capacity and pending
// items where they are given.
func (m AgentStatus) MarshalJSON() ([]byte, error) {
	type fields AgentStatus
	m.Timestamp = m.Timestamp.UTC()
	var capacity *float64
	if m.HasCapacity {
		capacity = &m.CapacityItemsPerSecond
	}
	var pending *int
	if m.HasPending {
		pending = &m.PendingItems
	}
	return json.Marshal(struct {
		MessageType string `json:"message_type"`
		Status      string `json:"status"`
		fields
		Capacity *float64 `json:"capacity_items_per_second,omitempty"`
		Pending  *int     `json:"pending_items,omitempty"`
	}{schemas.AgentStatus, m.Status.String(), fields(m), capacity, pending})
}

// Report makes the coordinator's value, which shares m's lists: they must not be
// changed afterwards. (Decoding into m again does not; it makes new ones.) userID
// is the delivery's broker-validated user, empty when there is none.
func (m *AgentStatus) Report(userID string) coordinator.AgentReport {
	return coordinator.AgentReport{
		Agent:         m.AgentID,
		Status:        m.Status,
		Load:          m.CurrentLoad,
		Active:        m.ActiveTasks,
		Available:     m.AvailableCapacity,
		MaxConcurrent: m.MaxConcurrentTasks,
		ActiveTasks:   m.ActiveTaskIDs,
		Capabilities:  m.Capabilities,
		Queue:         m.Queue,
		Labels:        m.Labels,
		Capacity:      m.CapacityItemsPerSecond,
		HasCapacity:   m.HasCapacity,
		Pending:       m.PendingItems,
		HasPending:    m.HasPending,
		Instance:      m.InstanceID,
		Relayed:       m.Relayed,
		Timestamp:     m.Timestamp,
		UserID:        userID,
	}
}

// DecodeAgentStatus reads an agent.status into *into, which is overwritten. It
// keeps no part of body, and reuses the strings of *into that have not changed.
// After a refusal *into is not to be used.
func (d *Decoder) DecodeAgentStatus(body []byte, into *AgentStatus) *Refusal {
	if d.fastAgentStatus(body, into) {
		return nil
	}
	return d.slowAgentStatus(body, into)
}

func (d *Decoder) fastAgentStatus(body []byte, m *AgentStatus) bool {
	old := AgentStatus{AgentID: m.AgentID, Queue: m.Queue, InstanceID: m.InstanceID}
	*m = AgentStatus{}
	var ok bool
	m.Unknown, ok = d.fast(body, d.limits, 7, func(s *scanner, key jsontext.Text) (required, ok bool) {
		return s.statusField(m, &old, key, d.statusFields)
	})
	return ok
}

// statusField reads one field of an agent.status.
func (s *scanner) statusField(m, old *AgentStatus, key jsontext.Text, known []string) (required, ok bool) {
	var raw []byte
	switch string(key.Raw) {
	case "message_type":
		return true, s.Is(schemas.AgentStatus)
	case "agent_id":
		raw, ok = s.id(maxID)
		m.AgentID = keep(old.AgentID, raw)
		return true, ok && !reservedAgentID(string(m.AgentID))
	case "status":
		var t jsontext.Text
		t, ok = s.PlainText()
		m.Status = statusOf(t.Raw)
		return true, ok && m.Status != coordinator.StatusUnknown
	case "current_load":
		m.CurrentLoad, ok = s.Decimal(1)
		return true, ok
	case "active_tasks":
		m.ActiveTasks, ok = s.Whole(maxCount)
		return true, ok
	case "available_capacity":
		m.AvailableCapacity, ok = s.Whole(maxCount)
		return true, ok
	case "timestamp":
		m.Timestamp, ok = s.time()
		return true, ok
	case "capabilities":
		m.Capabilities, ok = jsontext.List[string](&s.Scanner, maxCapabilities, validName)
	case "queue":
		raw, ok = s.printable()
		m.Queue = keep(old.Queue, raw)
	case "max_concurrent_tasks":
		m.MaxConcurrentTasks, ok = s.Whole(maxCount)
	case "active_task_ids":
		m.ActiveTaskIDs, ok = jsontext.List[coordinator.TaskID](&s.Scanner, maxActiveIDs, anyID)
		if m.ActiveTaskIDs == nil {
			m.ActiveTaskIDs = []coordinator.TaskID{}
		}
	case "capacity_items_per_second":
		m.CapacityItemsPerSecond, ok = s.Decimal(MaxRate)
		ok = ok && ValidRate(m.CapacityItemsPerSecond)
		m.HasCapacity = true
	case "pending_items":
		m.PendingItems, ok = s.Whole(MaxPending)
		m.HasPending = true
	case "instance_id":
		raw, ok = s.id(maxID)
		m.InstanceID = keep(old.InstanceID, raw)
	case "relayed":
		m.Relayed, ok = s.Boolean()
	case "labels":
		m.Labels, ok = s.Pairs(maxLabels, validLabel)
	default:
		ok = s.unknown(key, known)
	}
	return false, ok
}

func (d *Decoder) slowAgentStatus(body []byte, m *AgentStatus) *Refusal {
	e, refusal := d.decode(schemas.AgentStatus, body)
	if refusal != nil {
		return refusal
	}
	*m = AgentStatus{Status: statusOf(field[string](e, "status")),
		CapacityItemsPerSecond: number(e, "capacity_items_per_second"),
		PendingItems:           integer(e, "pending_items")}
	_, m.HasCapacity = e.fields["capacity_items_per_second"]
	_, m.HasPending = e.fields["pending_items"]
	if _, given := e.fields["active_task_ids"]; given {
		m.ActiveTaskIDs = []coordinator.TaskID{}
	}
	return e.into(m)
}

// statusOf reads the word for a status; any other gives StatusUnknown.
func statusOf[S ~string | ~[]byte](word S) coordinator.AgentStatus {
	switch string(word) {
	case "ready":
		return coordinator.StatusReady
	case "busy":
		return coordinator.StatusBusy
	case "offline":
		return coordinator.StatusOffline
	}
	return coordinator.StatusUnknown
}
