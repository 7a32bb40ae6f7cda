package messages

import (
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
	dst = appendField(dst, "correlation_id", d.Task.TraceID)
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
