package service

import (
	"errors"
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
func (o *observer) completed(f *coordinator.Completed) {
	r := &f.Result
	o.result(r.Outcome)
	o.s.metrics.ByAgent.Result(r.Agent, r.Outcome, r.Outcome == coordinator.OutcomeFailed)
	switch r.Outcome {
	case coordinator.OutcomeSucceeded:
		o.s.count.recent.add(views.RecentSucceeded)
		o.s.count.ofAgents.add(f.At, r.Agent, endedWell)
	case coordinator.OutcomeFailed:
		o.s.count.recent.add(views.RecentBroken)
		o.s.count.ofAgents.add(f.At, r.Agent, endedBadly)
	}
	if f.Late {
		o.s.count.lateResults.Add(1)
	}
	if f.Task != nil {
		o.s.metrics.TaskDuration[r.Outcome].Observe(f.At.Sub(f.Task.AcceptedAt).Seconds())
	}
	o.s.history.Completed(f)
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
func (o *observer) givenBack(f coordinator.GivenBack) {
	r := &f.Result
	o.result(r.Outcome)
	o.s.metrics.ByAgent.Result(r.Agent, r.Outcome, r.Attempted)
	if r.Attempted {
		o.s.count.recent.add(views.RecentBroken)
		o.s.count.ofAgents.add(o.s.now(), r.Agent, endedBadly)
	}
	o.s.history.GivenBack(&f)
	o.ofTask(zerolog.InfoLevel, r.Attempted).Str("trace_id", r.TraceID).Str("task_id", string(r.Task)).
		Str("agent_id", string(r.Agent)).
		Int("attempt", f.Attempt).Bool("attempted", r.Attempted).Msg("agent gives the task back")
}

// result counts one that counted.
func (o *observer) result(outcome coordinator.Outcome) {
	o.s.count.results[outcome].Add(1)
	o.s.metrics.Results[outcome].Inc()
}

func (o *observer) resultRefused(f coordinator.ResultRefused) {
	o.s.count.resultsRefused[f.Refusal].Add(1)
	o.s.metrics.ResultsRefused[f.Refusal].Inc()
	if f.Refusal == coordinator.ResultLate {
		o.s.history.Late(&f, o.s.now())
	}
	if f.Refusal == coordinator.ResultWrongAgent {
		o.gated(noiseWrongAgent, zerolog.WarnLevel).Str("task_id", string(f.Task)).Str("agent_id", string(f.Agent)).
			Msg("result of an agent that never had the task ignored")
	}
}

func (o *observer) invalidResult(r *messages.Refusal) {
	o.s.count.invalidResults.Add(1)
	o.s.count.brokenResults.add(o.s.now(), r.AgentID)
	o.s.metrics.InvalidResults.Inc()
	o.s.metrics.Invalid.WithLabelValues(schemas.TaskResult, r.Keyword).Inc()
	sender(o.gated(noiseInvalidResult, zerolog.WarnLevel), r, "invalid result ignored")
}

// overdue writes down that a task's end was not reported in time, once that is
// confirmed. It is no failure to assign: the dispatch was counted as done. One that
// was withdrawn has ended as was wished, but its agent wants a look.
func (o *observer) overdue(f *coordinator.Fail, now time.Time) {
	if f.Failure.Reason == coordinator.ReasonTaskTimeout {
		o.s.count.timedOut.Add(1)
		o.s.count.recent.add(views.RecentBroken)
		o.s.metrics.ByAgent.Result(f.Failure.Agent, metrics.TimedOut, true)
		o.s.count.ofAgents.add(now, f.Failure.Agent, endedOverdue)
	}
	o.s.history.Failed(f)
	if f.Failure.Reason == coordinator.ReasonCancelled {
		o.failure(o.ofTask(zerolog.WarnLevel, true), f).Msg("task cancelled; its agent has not said that it stopped")
		return
	}
	o.failure(o.ofTask(zerolog.ErrorLevel, true), f).Msg("task overdue")
}

// cancelAnswered writes down a cancel and what came of it at once.
func (o *observer) cancelAnswered(a coordinator.CancelAnswered) {
	o.s.count.cancels.Add(1)
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
	e.Str("task_id", string(a.Task)).Str("agent_id", string(a.Agent)).Str("state", cancelWord(a.State)).Msg(what)
}

func (o *observer) cannotTell(w *withdrawal, outcome bus.Outcome) {
	o.gated(noiseUntold, zerolog.WarnLevel).Str("trace_id", w.TraceID).Str("task_id", string(w.Task)).
		Str("agent_id", string(w.Agent)).
		Stringer("outcome", outcome).Msg(
		"the agent has no control queue and cannot be told of the cancel; it may still do the task")
}

// takeBack writes down that an agent's queue is consumed for others, or why not.
func (o *observer) takeBack(order takeBackOrder, err error) {
	switch {
	case err == nil:
		o.log.Info().Str("agent_id", string(order.agent)).Str("queue", order.queue).
			Msg("taking back what waits in the agent's queue")
	case !errors.Is(err, bus.ErrClosed):
		o.gated(noiseTakeBack, zerolog.WarnLevel).Err(err).Str("agent_id", string(order.agent)).Str("queue", order.queue).
			Msg("what waits in the agent's queue cannot be taken back now")
	}
}
