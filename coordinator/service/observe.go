package service

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/telemetry"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/schemas"
)

// observer writes down what happens: one log line, the counters, the history.
// It may be called from any goroutine and never blocks for long.
//
// The level says what a line asks of an operator. ERROR: act now. WARN: have a look. INFO: a fact. What one
// sender can provoke at will is WARN at
// most, and passes a gate.
type observer struct {
	s   *Service
	log *telemetry.Log

	noise     [numNoises]*telemetry.Kind
	strangers sync.Map // wrong senders that were logged: stranger → true
	known     atomic.Int64

	misspellings sync.Map // unknown fields that were logged: misspelling → true
	misspelt     atomic.Int64
	firstUnknown struct { // of them, for /status
		sync.Mutex
		list []view.UnknownField
	}
}

// logs reports whether lines about single tasks are written: those about a failure, or the others.
func (o *observer) logs(failure bool) bool {
	switch o.s.config.Load().LogTasks {
	case config.LogTasksNone:
		return false
	case config.LogTasksFailures:
		return failure
	}
	return true
}

// ofTask begins a line about a single task; what is done to it goes nowhere where log.tasks leaves
// such lines out.
func (o *observer) ofTask(level zerolog.Level, failure bool) *zerolog.Event {
	if !o.logs(failure) {
		return nil // zerolog: a nil event is one that is not written
	}
	return o.log.WithLevel(level)
}

// dispatchSettled writes down what became of a dispatch.
func (o *observer) dispatchSettled(d *coordinator.Dispatch, outcome coordinator.PublishOutcome, now time.Time) {
	took := now.Sub(d.Task.AcceptedAt)
	if outcome != coordinator.PublishConfirmed {
		level := zerolog.WarnLevel
		if outcome == coordinator.PublishUnknown {
			level = zerolog.InfoLevel // the session has ended, which has a line of its own
		}
		o.ofTask(level, true).Str("trace_id", d.Task.TraceID).Str("task_id", string(d.Task.ID)).
			Str("agent_id", string(d.Agent)).Str("queue", d.Queue).Int("attempt", d.Attempt).
			Stringer("outcome", outcome).Msg("the dispatch was not delivered to its agent's queue")
		o.s.history.Undelivered(d, outcome)
		return
	}
	o.s.count.assignNanos.Add(int64(took))
	o.s.count.recent.add(views.RecentAssigned)
	o.s.metrics.Assigned(d, now)
	o.s.history.Dispatched(d, now)
	e := o.ofTask(zerolog.InfoLevel, false).Str("trace_id", d.Task.TraceID).Str("task_id", string(d.Task.ID)).
		Str("agent_id", string(d.Agent)).Str("strategy", d.Decision.Strategy).
		Int("attempt", d.Attempt).Dur("duration_ms", took)
	if d.MaybeDuplicate {
		e = e.Bool("maybe_duplicate", true)
	}
	e.Msg("task assigned")
}

// failed writes down a task that could not be assigned, once that is confirmed.
func (o *observer) failed(t *ticket, now time.Time) {
	if t.refusal != nil {
		o.s.count.invalid.Add(1)
		o.s.metrics.Invalid.WithLabelValues(schemaOf(t.held.Message.Queue), t.refusal.Keyword).Inc()
	}
	if t.fail == nil {
		o.parked(&t.held.Message, t.refusal)
		return
	}
	f := t.fail
	strategy := ""
	if f.Decision != nil {
		strategy = f.Decision.Strategy
	}
	took := now.Sub(t.held.Arrived)
	o.s.count.failed.add(f.Failure.Reason)
	if f.Failure.Reason.RetryPossible() || f.Failure.Reason == coordinator.ReasonNoEligibleAgents {
		o.s.count.recent.add(views.RecentRefused)
	}
	o.s.metrics.Failed(f.Failure.Reason, strategy, took)
	o.s.history.Failed(f)
	switch f.Failure.Reason {
	case coordinator.ReasonCancelled:
		o.failure(o.ofTask(zerolog.InfoLevel, false), f).Msg("task cancelled")
	case coordinator.ReasonInvalidMessage, coordinator.ReasonUnknownTaskType, coordinator.ReasonDuplicateTask,
		coordinator.ReasonExceedsQuota, coordinator.ReasonQuotaExhausted:
		if o.logs(true) {
			e := o.failure(o.gated(noiseRefusedTask, zerolog.WarnLevel), f)
			if t.refusal != nil { // its producer must be found
				e = ofProducer(e, &t.held.Message)
			}
			e.Msg("task refused")
		}
	default:
		o.failure(o.ofTask(zerolog.ErrorLevel, true), f).Msg("task failed")
	}
}

// parked logs a message that was refused and put into task.dead, which nothing else reports.
func (o *observer) parked(d *bus.Delivery, r *messages.Refusal) {
	e := o.gated(noiseParked, zerolog.WarnLevel)
	if e == nil {
		return
	}
	if e = identify(e.Str("queue", d.Queue), d, r); r.AgentID != "" {
		e = e.Str("agent_id", r.AgentID)
	}
	e.Str("reason", r.Text).Msg("message parked in task.dead; no assignment.failed tells of it (see `taskbus dead ls`)")
}

// maxLogged bounds what a sender can put into a field of a line, in bytes.
const maxLogged = 128

// identify adds to a line all that identifies a refused message and its sender, but for the agent that it
// names; none of it is of the payload.
func identify(e *zerolog.Event, d *bus.Delivery, r *messages.Refusal) *zerolog.Event {
	for _, f := range [...]struct{ name, value string }{
		{"routing_key", d.RoutingKey},
		{"user_id", d.UserID},
		{"app_id", d.AppID},
		{"message_id", d.MessageID},
		{"message_type", cmp.Or(r.MessageType, d.Type)},
		{"task_id", string(r.TaskID)},
		{"trace_id", cmp.Or(r.CorrelationID, d.CorrelationID)},
		{"came_back_from", messages.TextHeader(d.Headers, messages.HeaderDeathQueue)},
	} {
		if f.value != "" {
			e = e.Str(f.name, messages.Clean(f.value, maxLogged))
		}
	}
	return e
}

// failure adds to a line what is known of a failure.
func (o *observer) failure(e *zerolog.Event, f *coordinator.Fail) *zerolog.Event {
	e = e.Str("trace_id", f.Task.TraceID).Str("task_id", string(f.Task.ID))
	if f.Failure.Agent != "" {
		e = e.Str("agent_id", string(f.Failure.Agent))
	}
	return e.Stringer("reason_code", f.Failure.Reason).Str("reason", f.Failure.Text).
		Bool("retry_possible", f.Failure.Reason.RetryPossible()).Int("attempts", f.Failure.Attempts)
}

// ofProducer adds to a line what identifies the producer of a message.
func ofProducer(e *zerolog.Event, d *bus.Delivery) *zerolog.Event {
	for _, f := range [...]struct{ name, value string }{
		{"user_id", d.UserID}, {"app_id", d.AppID}, {"message_id", d.MessageID}, {"reply_to", d.ReplyTo},
	} {
		if f.value != "" {
			e = e.Str(f.name, messages.Clean(f.value, maxLogged))
		}
	}
	return e
}

// schemaOf names the schema that a message in a queue should have followed.
func schemaOf(queue string) string {
	switch queue {
	case bus.QueueAssign, bus.QueueAssignHigh:
		return schemas.TaskAssign
	case bus.QueueRequest:
		return schemas.TaskCancel // bids and claims are not kept
	default: // came back, or was taken back
		return schemas.TaskDispatch
	}
}

func (o *observer) cannotEncode(d *coordinator.Dispatch, err *bus.EncodingError) {
	o.gated(noiseUnencodable, zerolog.WarnLevel).Err(err).Str("trace_id", d.Task.TraceID).
		Str("task_id", string(d.Task.ID)).
		Msg("the dispatch cannot be sent; the task fails")
}

func (o *observer) cannotPark(t *ticket, err *bus.EncodingError) {
	o.gated(noiseUnencodable, zerolog.WarnLevel).Err(err).Str("queue", t.held.Message.Queue).
		Msg(
			"the message cannot be published to task.dead as it is: the queue's dead-letter rule moves it or, where there " +
				"is none, a note of its size and hash stands for it")
}

// notTaken logs that the broker did not take a notice, a few times a second.
func (o *observer) notTaken(queue string, outcome bus.Outcome) {
	o.gated(noiseNotTaken, zerolog.ErrorLevel).Str("queue", queue).Stringer("outcome", outcome).
		Msg("the broker does not take what must be published here; trying again, the tasks concerned stay unacknowledged")
}

// replyToRefused logs that a producer asked for its copy where none may go.
func (o *observer) replyToRefused(t *coordinator.Task) {
	o.gated(noiseReplyTo, zerolog.WarnLevel).Str("trace_id", t.TraceID).Str("task_id", string(t.ID)).
		Str("reply_to", t.ReplyTo).
		Msg("reply_to names a queue of Taskbus or of an agent; no copy is sent")
}

func (o *observer) duplicate(t *coordinator.Task) {
	o.s.count.duplicates.Add(1)
	o.s.metrics.Duplicates.Inc()
	if o.logs(false) {
		o.gated(noiseDuplicate, zerolog.InfoLevel).Str("trace_id", t.TraceID).Str("task_id", string(t.ID)).
			Msg("second copy of a known task dropped")
	}
}

func (o *observer) agentChanged(c coordinator.AgentChanged) {
	if c.State == coordinator.AgentOnline {
		o.s.metrics.ByAgent.Came(c.Agent)
	}
	e := o.log.Warn()
	if c.State == coordinator.AgentOnline || c.State == coordinator.AgentOffline { // it says so itself
		e = o.log.Info()
	}
	e.Str("agent_id", string(c.Agent)).Stringer("state", c.State).
		Time("last_heartbeat", c.LastHeartbeat).Msg("agent is " + c.State.String())
}

func (o *observer) agentTrusted(f coordinator.AgentTrusted) {
	capability := f.Capability
	if capability == "" {
		capability = "(tasks that require none)"
	}
	if f.Trusted {
		o.log.Info().Str("agent_id", string(f.Agent)).Str("capability", capability).
			Msg("agent gets work for this capability again")
		return
	}
	o.s.metrics.ByAgent.Ejected(f.Agent)
	o.log.Warn().Str("agent_id", string(f.Agent)).Str("capability", capability).Time("until", f.Until).
		Int("times", f.Times).
		Msg(
			"agent gets no work for this capability: it failed or refused too often; it is tried again then (see " +
				"circuit_breaker)")
}

func (o *observer) statusRefused(f coordinator.StatusRefused) {
	o.s.count.statusRefused[f.Refusal].Add(1)
	o.s.metrics.StatusRefused.WithLabelValues(f.Refusal.String()).Inc()
	if f.Refusal == coordinator.StatusUnknownAgent {
		o.s.count.unlisted.add(o.s.now(), string(f.Agent))
	}
	if f.First {
		o.log.Warn().Str("agent_id", string(f.Agent)).Stringer("refusal", f.Refusal).
			Msg("a heartbeat changes nothing (said once for each agent and cause)")
	}
}

func (o *observer) otherQueue(f coordinator.OtherQueue) {
	o.gated(noiseQueue, zerolog.WarnLevel).Str("agent_id", string(f.Agent)).Str("queue", f.Listed).
		Str("announced", messages.Clean(f.Announced, 255)).
		Msg(
			"the agent says that it consumes another queue than agents.yaml names for it; what it is given lies where it " +
				"does not look")
}

func (o *observer) agentShared(f coordinator.AgentShared) {
	o.log.Warn().Str("agent_id", string(f.Agent)).Int("instances", f.Instances).
		Msg(
			"several processes report under one agent_id: the slots and tasks of one count for all; give each its own " +
				"agent_id (see docs/howto/write-an-agent.md, replicas)")
}

func (o *observer) invalidStatus(r *messages.Refusal) {
	o.s.count.invalidStatus.Add(1)
	o.s.metrics.Invalid.WithLabelValues(schemas.AgentStatus, r.Keyword).Inc()
	sender(o.gated(noiseInvalidStatus, zerolog.WarnLevel), r, "invalid heartbeat ignored")
}

func (o *observer) queueChecked(q coordinator.EnsureQueue, exists bool, err error) {
	switch {
	case err != nil:
		o.gated(noiseQueue, zerolog.WarnLevel).Err(err).Str("agent_id", string(q.Agent)).Str("queue", q.Queue).
			Msg("the agent's queue cannot be checked")
	case exists:
		o.gated(noiseQueueThere, zerolog.InfoLevel).Str("agent_id", string(q.Agent)).Str("queue", q.Queue).
			Msg("the agent's queue is there (again)")
	default:
		o.gated(noiseQueue, zerolog.WarnLevel).Str("agent_id", string(q.Agent)).Str("queue", q.Queue).
			Msg("the agent's queue does not exist; it gets no work until it does")
	}
}

func (o *observer) sessionOpened(findings []bus.Finding) {
	o.s.metrics.Sessions.WithLabelValues("opened").Inc()
	o.s.metrics.Connected.Set(1)
	o.s.state.opened(o.s.now())
	o.log.Info().Str("broker", o.s.options.BrokerURL).Int("findings", len(findings)).Msg("connected to the broker")
}

// leads logs that this coordinator leads from now on.
func (o *observer) leads(r *session) {
	o.s.metrics.Leading.Set(1)
	p := o.s.config.Load().Policy()
	e := o.log.Info().Int("agents", len(p.Agents)).Str("strategy", p.Strategy)
	if r.ledger != nil {
		at := r.ledger.Position()
		e = e.Uint64("epoch", at.Epoch).Uint64("journalled", at.Next-1)
	}
	e.Msg("leading: taking tasks")
}

// configWarnings writes down what is allowed in the files that came in force and probably not meant,
// one line each.
func (o *observer) configWarnings(all []config.Warning) {
	for i, w := range all {
		if i == warningsLogged {
			o.log.Warn().Int("more", len(all)-i).Msg("configuration: more warnings; taskbus check " + o.s.options.ConfigPath)
			return
		}
		o.log.Warn().Msg("configuration: " + w.Text)
	}
}

// journalSkipped logs a message of the journal that is passed over.
func (o *observer) journalSkipped(offset int64, err error) {
	o.log.Error().Err(err).Int64("offset", offset).
		Msg("a damaged message of the journal is passed over; what it said is lost")
}

// journalLost logs that the journal was found empty, although there had been one; with each take-over until that is
// acknowledged.
func (o *observer) journalLost(lost *view.JournalLost) {
	o.log.Error().Time("at", lost.At).Strs("because", lost.Evidence).Strs("begins_anew", lost.BeginsAnew).
		Msg("the journal is lost: it was found empty, and there had been one; what only the journal knew begins anew. " +
			"If it was deleted on purpose, or journal.enabled was false until now: `taskbus journal acknowledge`. Else docs/howto/backup.md#when-the-journal-is-lost says what to do")
}

func (o *observer) sessionEnded(err error, ready bool, pause time.Duration) {
	o.s.metrics.Connected.Set(0)
	o.s.metrics.Leading.Set(0)
	o.s.metrics.Blocked.Set(0)
	why, level := sessionEnd(err), zerolog.WarnLevel
	if why == "access" || why == "topology" {
		level = zerolog.ErrorLevel // it will not pass by itself
	}
	o.s.metrics.Sessions.WithLabelValues(why).Inc()
	o.log.WithLevel(level).Err(err).Bool("was_ready", ready).Dur("retry_in_ms", pause).
		Msg("no broker session; tasks stay in the broker; trying again")
}
