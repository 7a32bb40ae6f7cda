package service

import (
	"time"

	"taskbus/coordinator"
)

// Builders for tests of what is remembered.

func taskNamed(id coordinator.TaskID, accepted time.Time) *coordinator.Task {
	return &coordinator.Task{ID: id, Type: "build", TraceID: "trace", AcceptedAt: accepted}
}

func dispatchOf(t *coordinator.Task, agent coordinator.AgentID, attempt int, at time.Time) *coordinator.Dispatch {
	return &coordinator.Dispatch{Task: t, Agent: agent, Attempt: attempt, DispatchID: coordinator.DispatchID(t.ID, attempt), At: at}
}

func timeoutOf(t *coordinator.Task, at time.Time) *coordinator.Fail {
	return &coordinator.Fail{Task: t, Failure: coordinator.Failure{Reason: coordinator.ReasonTaskTimeout, Text: "overdue", FailedAt: at}}
}

// completedBy is a success; of the task t-9 if nothing else is known.
func completedBy(t *coordinator.Task, agent coordinator.AgentID, at time.Time) *coordinator.Completed {
	c := &coordinator.Completed{
		Result: coordinator.Result{Task: "t-9", Agent: agent, Duration: time.Second}, Task: t, Attempt: 1, At: at,
	}
	if t != nil {
		c.Result.Task = t.ID
	}
	return c
}
