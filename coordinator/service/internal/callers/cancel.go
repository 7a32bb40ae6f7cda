package callers

import (
	"context"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// AgentWait is how long a caller of a cancel waits for the word of the agent that
// has the task.
const AgentWait = 3 * time.Second

// Cancellation makes the caller's answer of the engine's, and waits for the agent's
// word where an agent has the task. outcome returns how a task has ended, as far as that is known.
func (w *Caller) Cancellation(ctx context.Context, a coordinator.CancelAnswered,
	outcome func(coordinator.TaskID) string) view.Cancellation {
	c := view.Cancellation{TaskID: string(a.Task), Agent: string(a.Agent), State: views.CancelWord(a.State)}
	switch a.State {
	case coordinator.CancelDone:
		c.Outcome = coordinator.OutcomeCancelled.String()
		c.Detail = "the task had not reached an agent and will not be assigned"
	case coordinator.CancelNoted:
		c.Detail = "the task is not known; should it still come, it will not be assigned"
	case coordinator.CancelTooLate:
		c.Outcome = outcome(a.Task)
		c.Detail = "the task has ended already"
	default:
		w.awaitAgent(ctx, &c)
	}
	return c
}

// awaitAgent gives the agent a moment to report what became of the task. That it
// reports it as cancelled does not mean that its work has stopped: the SDK says so
// of a handler that does not return, too.
func (w *Caller) awaitAgent(ctx context.Context, c *view.Cancellation) {
	timeout := time.NewTimer(AgentWait)
	defer timeout.Stop()
	select {
	case o := <-w.completed:
		c.Outcome = o.String()
		if o == coordinator.OutcomeCancelled {
			c.State, c.Detail = view.Cancelled, "its agent reports it as cancelled"
			return
		}
		c.State, c.Detail = view.CancelTooLate, "its agent ended it before it heard of the cancel"
	case <-w.untold:
		c.Detail = "its agent has no control queue and cannot be told: it may still do the task"
	case <-timeout.C:
		c.Detail = "its agent has been told and has not reported yet what became of it"
	case <-ctx.Done():
		c.Detail = "its agent is being told; its answer was not waited for"
	case <-w.of.stopped:
		c.Detail = "its agent may have been told; the coordinator stopped meanwhile"
	}
}
