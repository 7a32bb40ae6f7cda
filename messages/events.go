package messages

import (
	"math"
	"strconv"
	"time"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// AppendTaskDuplicate appends the task.duplicate event: a second copy of a known
// task was dropped at the given time.
func AppendTaskDuplicate(dst []byte, d *coordinator.Duplicate, at time.Time) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskDuplicate)
	dst = appendField(dst, "task_id", d.Task.ID)
	dst = appendField(dst, "task_type", d.Task.Type)
	dst = appendField(dst, "correlation_id", d.Task.CorrelationID)
	dst = appendTime(dst, "timestamp", at)
	return append(dst, '}')
}

// AgentEvent is the message type of the event that announces c: agent.online, or
// agent.offline with the state that says why.
func AgentEvent(c *coordinator.AgentChanged) string {
	if c.State == coordinator.AgentOnline {
		return schemas.AgentOnline
	}
	return schemas.AgentOffline
}

// AppendQuotaReached appends the quota.reached event: so much of a budget is used or set
// aside.
func AppendQuotaReached(dst []byte, q *coordinator.QuotaReached, at time.Time) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.QuotaReached)
	dst = appendField(dst, "node", q.Node)
	dst = appendField(dst, "dimension", q.Dimension.String())
	dst = appendInt(dst, "percent", q.Percent)
	dst = appendQuotaAmount(dst, "used", q.Dimension, q.Used)
	dst = appendQuotaAmount(dst, "limit", q.Dimension, q.Cap)
	if !q.Ends.IsZero() {
		dst = appendTime(dst, "resets_at", q.Ends)
	}
	dst = appendTime(dst, "timestamp", at)
	return append(dst, '}')
}

// QuotaOverrun says that a budget will not last until its period ends.
type QuotaOverrun struct {
	// Node of the quota trees, and what it stands for: pool, model, group or agent.
	Node, Kind string
	Dimension  string
	// Period by name, such as 2026-11; from when on, and when the next begins.
	Period      string
	From, Until time.Time
	// Used in it so far, of Cap; Expected by its end. Costs are in US dollars.
	Used, Cap, Expected float64
	// Basis says from what that follows. At is when the cap will be met.
	Basis string
	At    time.Time
}

// AppendQuotaOverrun appends the quota.overrun event.
func AppendQuotaOverrun(dst []byte, q *QuotaOverrun, at time.Time) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.QuotaOverrun)
	dst = appendField(dst, "node", q.Node)
	dst = appendField(dst, "kind", q.Kind)
	dst = appendField(dst, "dimension", q.Dimension)
	dst = appendField(dst, "period", q.Period)
	dst = appendTime(dst, "period_start", q.From)
	dst = appendTime(dst, "resets_at", q.Until)
	for _, a := range []struct {
		name   string
		amount float64
	}{{"used", q.Used}, {"limit", q.Cap}, {"expected", q.Expected}} {
		amount := math.Round(a.amount)
		if q.Dimension == coordinator.DimCost.String() {
			amount = math.Round(a.amount*1e6) / 1e6
		}
		dst = strconv.AppendFloat(appendName(dst, a.name), amount, 'f', -1, 64)
	}
	dst = appendField(dst, "basis", q.Basis)
	dst = appendTime(dst, "overrun_at", q.At)
	dst = appendTime(dst, "timestamp", at)
	return append(dst, '}')
}

// appendQuotaAmount appends an amount of a dimension: costs as US dollars, everything else as
// it is counted.
func appendQuotaAmount(dst []byte, name string, d coordinator.Dimension, amount int64) []byte {
	dst = appendName(dst, name)
	if d == coordinator.DimCost {
		return strconv.AppendFloat(dst, float64(amount)/1e6, 'f', -1, 64)
	}
	return strconv.AppendInt(dst, amount, 10)
}

// AppendAgentChanged appends the event that AgentEvent names.
func AppendAgentChanged(dst []byte, c *coordinator.AgentChanged, at time.Time) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", AgentEvent(c))
	dst = appendField(dst, "agent_id", c.Agent)
	dst = appendField(dst, "state", c.State.String())
	if !c.LastHeartbeat.IsZero() {
		dst = appendTime(dst, "last_heartbeat", c.LastHeartbeat)
	}
	dst = appendTime(dst, "timestamp", at)
	return append(dst, '}')
}
