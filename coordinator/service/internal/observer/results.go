package observer

import (
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/metrics"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/coordinator/service/internal/views"
	"taskbus/messages"
	"taskbus/schemas"
)

// completed writes down how a task ended by its agent's word. What the agent says
// of an error is not logged: it may quote the payload.
func (o *Observer) completed(f *coordinator.Completed) {
	r := &f.Result
	o.result(r.Outcome)
	o.metrics.ByAgent.Result(r.Agent, r.Outcome, r.Outcome == coordinator.OutcomeFailed)
	switch r.Outcome {
	case coordinator.OutcomeSucceeded:
		o.count.recent.add(o.now(), views.RecentSucceeded)
		o.count.ofAgents.add(f.At, r.Agent, endedWell)
	case coordinator.OutcomeFailed:
		o.count.recent.add(o.now(), views.RecentBroken)
		o.count.ofAgents.add(f.At, r.Agent, endedBadly)
	}
	if f.Late {
		o.count.lateResults.Add(1)
	}
	if f.Task != nil {
		o.metrics.TaskDuration[r.Outcome].Observe(f.At.Sub(f.Task.AcceptedAt).Seconds())
	}
	e := o.ofTask(zerolog.InfoLevel, false)
	if r.Outcome == coordinator.OutcomeFailed {
		e = o.ofTask(zerolog.WarnLevel, true)
	}
	e = e.Str("trace_id", outbox.TraceOf(f)).Str("task_id", string(r.Task)).Str("agent_id", string(r.Agent)).
		Stringer("outcome", r.Outcome).Int("attempt", f.Attempt).Dur("work_ms", r.Duration)
	if f.Late {
		e = e.Bool("late", true)
	}
	e.Msg("task ended")
}

// givenBack writes down that an agent refuses a task.
func (o *Observer) givenBack(f coordinator.GivenBack) {
	r := &f.Result
	o.result(r.Outcome)
	o.metrics.ByAgent.Result(r.Agent, r.Outcome, r.Attempted)
	if r.Attempted {
		o.count.recent.add(o.now(), views.RecentBroken)
		o.count.ofAgents.add(o.now(), r.Agent, endedBadly)
	}
	o.ofTask(zerolog.InfoLevel, r.Attempted).Str("trace_id", r.TraceID).Str("task_id", string(r.Task)).
		Str("agent_id", string(r.Agent)).
		Int("attempt", f.Attempt).Bool("attempted", r.Attempted).Msg("agent gives the task back")
}

// result counts one that counted.
func (o *Observer) result(outcome coordinator.Outcome) {
	o.count.results[outcome].Add(1)
	o.metrics.Results[outcome].Inc()
}

func (o *Observer) resultRefused(f coordinator.ResultRefused) {
	o.count.resultsRefused[f.Refusal].Add(1)
	o.metrics.ResultsRefused[f.Refusal].Inc()
	if f.Refusal == coordinator.ResultWrongAgent {
		o.gated(noiseWrongAgent, zerolog.WarnLevel).Str("task_id", string(f.Task)).Str("agent_id", string(f.Agent)).
			Msg("result of an agent that never had the task ignored")
	}
}

// InvalidResult writes down a result that is ignored.
func (o *Observer) InvalidResult(r *messages.Refusal) {
	o.count.invalidResults.Add(1)
	o.count.brokenResults.add(o.now(), r.AgentID)
	o.metrics.InvalidResults.Inc()
	o.metrics.Invalid.WithLabelValues(schemas.TaskResult, r.Keyword).Inc()
	sender(o.gated(noiseInvalidResult, zerolog.WarnLevel), r, "invalid result ignored")
}

// InvalidProgress writes down a report of progress that is ignored.
func (o *Observer) InvalidProgress(r *messages.Refusal) {
	o.metrics.Progress[metrics.Invalid].Inc()
	o.metrics.Invalid.WithLabelValues(schemas.TaskProgress, r.Keyword).Inc()
	sender(o.gated(noiseInvalidProgress, zerolog.WarnLevel), r, "invalid progress ignored")
}

// ForgedProgress counts a report of progress that its agent did not send.
func (o *Observer) ForgedProgress() { o.metrics.Progress[metrics.WrongSender].Inc() }

// ProgressDropped counts a report of progress of which there are too many.
func (o *Observer) ProgressDropped() { o.metrics.Progress[metrics.Dropped].Inc() }

// Overdue writes down that a task's end was not reported in time, once that is
// confirmed. It is no failure to assign: the dispatch was counted as done. One that
// was withdrawn has ended as was wished, but its agent wants a look.
func (o *Observer) Overdue(f *coordinator.Fail, now time.Time) {
	if f.Failure.Reason == coordinator.ReasonTaskTimeout {
		o.count.timedOut.Add(1)
		o.count.recent.add(o.now(), views.RecentBroken)
		o.metrics.ByAgent.Result(f.Failure.Agent, metrics.TimedOut, true)
		o.count.ofAgents.add(now, f.Failure.Agent, endedOverdue)
	}
	if f.Failure.Reason == coordinator.ReasonCancelled {
		o.failure(o.ofTask(zerolog.WarnLevel, true), f).Msg("task cancelled; its agent has not said that it stopped")
		return
	}
	o.failure(o.ofTask(zerolog.ErrorLevel, true), f).Msg("task overdue")
}

// cancelAnswered writes down a cancel and what came of it at once.
func (o *Observer) cancelAnswered(a coordinator.CancelAnswered) {
	o.count.cancels.Add(1)
	if !o.logs(false) {
		return
	}
	var e *zerolog.Event
	var what string
	switch a.State {
	case coordinator.CancelDone:
		e, what = o.log.Info(), "task withdrawn"
	case coordinator.CancelAsked:
		e, what = o.log.Info(), "cancel on its way to the agent that has the task"
	case coordinator.CancelNoted:
		e, what = o.gated(noiseIdleCancel, zerolog.InfoLevel),
			"cancel noted: the task is not known; should it still come, it will not be assigned"
	default:
		e, what = o.gated(noiseIdleCancel, zerolog.InfoLevel), "cancel too late: the task has ended"
	}
	e.Str("task_id", string(a.Task)).Str("agent_id", string(a.Agent)).Str("state", views.CancelWord(a.State)).Msg(what)
}

// CannotTell writes down that an agent cannot be told to stop.
func (o *Observer) CannotTell(w *coordinator.Withdraw, outcome bus.Outcome) {
	o.gated(noiseUntold, zerolog.WarnLevel).Str("trace_id", w.TraceID).Str("task_id", string(w.Task)).
		Str("agent_id", string(w.Agent)).
		Stringer("outcome", outcome).Msg(
		"the agent has no control queue and cannot be told of the cancel; it may still do the task")
}

// ForgedResult counts a result that its agent did not send.
func (o *Observer) ForgedResult() {
	o.count.forgedResults.Add(1)
	o.metrics.ForgedResults.Inc()
}
