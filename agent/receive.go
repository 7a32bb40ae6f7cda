package agent

import (
	"log/slog"
	"math"
	"strconv"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// Headers of a dispatch that concern its agent.
const (
	headerTraceParent    = "traceparent"
	headerTraceState     = "tracestate"
	headerMaybeDuplicate = "x-taskbus-maybe-duplicate"
)

// receive takes a message of the agent's queue. It waits for no handler; for the
// broker to take messages only where a result goes out at once.
func (w *worker) receive(l *link, msg bus.Delivery) {
	m, refusal := w.decoder.DecodeTaskDispatch(msg.Body)
	switch {
	case refusal != nil:
		w.refuse(l, msg, refusal, "this message is no task.dispatch: "+refusal.Text)
	case string(m.AssignedAgent) != w.cfg.ID:
		w.refuse(l, msg, &messages.Refusal{TaskID: m.TaskID, CorrelationID: m.CorrelationID},
			"this dispatch is for the agent "+string(m.AssignedAgent)+"; it came to "+w.cfg.ID)
	default:
		w.accept(l, msg, m)
	}
}

// accept takes a dispatch that is ours.
func (w *worker) accept(l *link, msg bus.Delivery, m *messages.TaskDispatch) {
	here := delivery{l, msg.Tag}
	w.mu.Lock()
	w.bids.arrived(m.TaskID)
	if d := w.open[m.DispatchID]; d != nil {
		spare := d.adopt(here)
		w.mu.Unlock()
		spare.settle(false)
		return
	}
	d := &dispatch{
		key: m.DispatchID, task: newTask(m, msg), message: here,
		marked: msg.Headers[headerMaybeDuplicate] == true,
		names: messages.TaskResult{
			TaskID: m.TaskID, AgentID: m.AssignedAgent, CorrelationID: m.CorrelationID,
			DispatchID: m.DispatchID, Attempt: m.Attempt,
		},
	}
	d.task.report = func(m messages.TaskProgress) bool { return w.progressed(d, m) }
	w.enter(d)
	now := time.Now()
	act := w.recognise(d, now)
	if act == nil {
		act = w.admit(d, now)
	}
	w.mu.Unlock()
	act()
}

// admit begins a dispatch, or has it wait for a slot, or gives its verdict. What is
// left to be done without mu, which is held, is returned.
func (w *worker) admit(d *dispatch, now time.Time) (act func()) {
	if w.draining {
		return func() { w.conclude(d, rejection(ErrStopping.Error())) }
	}
	w.runs[d.names.TaskID] = d
	if w.handleBatch != nil {
		w.collect(d)
		w.waiting = append(w.waiting, d)
		late := w.next(now)
		return func() {
			for _, d := range late {
				w.conclude(d, tooLate)
			}
		}
	}
	if len(w.running) >= w.cfg.Slots { // a handler that does not return has its slot
		w.waiting = append(w.waiting, d)
		return func() {}
	}
	if !w.begin(d, now) {
		return func() { w.conclude(d, tooLate) }
	}
	return func() {}
}

// tooLate is the verdict on a task whose deadline is over before it begins. The
// coordinator is asked once more: its clock counts, and it has a reason code for it.
var tooLate = rejection("the task's deadline has passed, by this agent's clock, before it could begin")

// enter numbers a dispatch and makes it known. mu is held.
func (w *worker) enter(d *dispatch) {
	w.last++
	d.number = w.last
	if d.key == "" {
		d.key = " " + strconv.FormatUint(d.number, 10) // no dispatch id begins with a space
	}
	w.open[d.key], w.numbered[d.number] = d, d
}

// refuse gives back a message that is not for us to work on: with a result, where
// its task can be named.
func (w *worker) refuse(l *link, msg bus.Delivery, about *messages.Refusal, why string) {
	w.log.Warn("gave a message back", slog.String("task_id", string(about.TaskID)), slog.String("reason", why))
	here := delivery{l, msg.Tag}
	if about.TaskID == "" {
		here.settle(true)
		return
	}
	names := messages.TaskResult{
		TaskID: about.TaskID, AgentID: messages.AgentID(w.cfg.ID), CorrelationID: about.CorrelationID,
	}
	if names.CorrelationID == "" { // as for a task that came without one
		names.CorrelationID = string(about.TaskID)
	}
	if messages.ValidID(msg.MessageID) {
		names.DispatchID = msg.MessageID
	}
	d := &dispatch{names: names, message: here}
	w.mu.Lock()
	w.enter(d)
	w.mu.Unlock()
	w.conclude(d, rejection(why))
}

// settle tells the broker what becomes of the message, if there is one. On a session that
// has ended it does nothing: the message is the broker's again.
func (d delivery) settle(giveBack bool) {
	switch {
	case d.link == nil:
	case giveBack:
		d.link.session.Reject(d.tag)
	default:
		d.link.session.Ack(d.tag)
	}
}

// longest is what any longer time-out is taken for.
const longest = 365 * 24 * time.Hour

// newTask is what the handler sees of a dispatch.
func newTask(m *messages.TaskDispatch, msg bus.Delivery) *Task {
	t := &Task{
		ID: string(m.TaskID), Type: m.TaskType, Payload: m.Payload, Priority: int(m.Priority),
		Carried: m.Carried, DispatchID: m.DispatchID, Attempt: m.Attempt,
		AssignedAt: m.AssignmentTime, Deadline: m.Deadline, BatchID: m.BatchID, BatchSize: m.BatchSize,
		Explanation: m.Explanation,
		Provider:    m.Provider, Model: m.Model,
		Timeout:        time.Duration(math.Min(m.TimeoutSeconds, longest.Seconds()) * float64(time.Second)),
		MaybeDuplicate: msg.Redelivered || msg.Headers[headerMaybeDuplicate] == true,
	}
	t.TraceParent, _ = msg.Headers[headerTraceParent].(string)
	t.TraceState, _ = msg.Headers[headerTraceState].(string)
	return t
}
