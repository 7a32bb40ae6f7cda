package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// contentType of everything the agent sends.
const contentType = "application/json"

// resultRetry is how long after the broker has refused a result it is sent again.
const resultRetry = time.Second

// publish sends the result of a dispatch in the current session, once. Without a
// session, or a verdict, it does nothing: attach will see to it. It may wait for
// the broker to take messages.
func (w *worker) publish(d *dispatch) {
	w.mu.Lock()
	l := w.link
	if l == nil || d.verdict == nil || d.sentBy == l || w.numbered[d.number] != d {
		w.mu.Unlock()
		return
	}
	d.sentBy = l
	m := d.result()
	w.mu.Unlock()

	body, err := m.MarshalJSON() // json.Marshal would only compact it again
	if err == nil {
		err = l.session.Publish(bus.Publication{
			Token: d.number,
			Key:   bus.StreamResult,
			Properties: bus.Properties{
				ContentType: contentType, Type: bus.StreamResult, MessageID: d.names.DispatchID,
				CorrelationID: m.CorrelationID, UserID: l.session.User(), Timestamp: m.Timestamp,
			},
			Body: body,
		})
	}
	if err == nil || errors.Is(err, bus.ErrClosed) {
		return // it is on its way, or the next session's
	}
	w.log.Error("a result cannot be sent; the task is given back without one", d.about(), slog.Any("error", err))
	w.finish(d, true)
}

// result is the message for a dispatch that has its verdict, which never changes.
func (d *dispatch) result() messages.TaskResult {
	m := d.names
	m.Outcome, m.Attempted, m.Error, m.Usage = d.verdict.outcome, d.verdict.attempted, d.verdict.text, d.verdict.usage
	m.DurationMS = float64(d.verdict.took.Microseconds()) / 1e3
	m.Timestamp = d.endedAt
	return m
}

// tell logs how a dispatch ended.
func (w *worker) tell(d *dispatch) {
	level := slog.LevelInfo
	if d.verdict.outcome == messages.Succeeded {
		level = slog.LevelDebug
	}
	if w.log.Enabled(context.Background(), level) {
		w.log.Log(context.Background(), level, "task "+string(d.verdict.outcome), d.about(),
			slog.Duration("took", d.verdict.took), slog.String("error", d.verdict.text))
	}
}

// settled hears from the broker what became of a publication. It must not block.
func (w *worker) settled(l *link, token uint64, outcome bus.Outcome) {
	if outcome == bus.Unknown {
		return // the session has ended
	}
	w.mu.Lock()
	d := w.numbered[token] // nil for a heartbeat, whose token is 0
	if outcome != bus.Confirmed {
		l.refusals++
		first := l.refusals == 1
		if d != nil {
			d.sentBy = nil
			time.AfterFunc(resultRetry, func() { w.publish(d) })
		}
		w.mu.Unlock()
		if first {
			w.log.Warn("the broker does not take what this agent reports: has a coordinator declared the streams "+
				bus.StreamStatus+" and "+bus.StreamResult+"? Trying again", slog.String("outcome", outcome.String()))
		}
		return
	}
	giveBack := d != nil && d.verdict.outcome == messages.Rejected
	w.mu.Unlock()
	if d != nil {
		w.finish(d, giveBack)
	}
}

// finish ends a dispatch: its result is confirmed. Should its message come again,
// it is known.
func (w *worker) finish(d *dispatch, giveBack bool) {
	w.mu.Lock()
	w.forget(d)
	if d.task != nil {
		w.ended.add(d.key, giveBack)
	}
	deliveries, hung := d.deliveries, d.running
	d.deliveries = nil
	w.mu.Unlock()
	for i, delivery := range deliveries {
		// Of several copies one goes back: the task must not be doubled by it.
		delivery.settle(giveBack && i == len(deliveries)-1)
	}
	if hung {
		signal(w.wake) // the coordinator takes the slot for free now
	}
	signal(w.changed)
}
