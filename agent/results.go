package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// contentType of everything the agent sends.
const contentType = "application/json"

// retryRefused is how long after the broker has refused a result it is sent again,
// and a heartbeat that reached no queue is followed by another.
const retryRefused = time.Second

// announce tells of a verdict: in the log once, on the bus for every dispatch that
// shared the run, the newest first, because that is the one the coordinator waits for.
func (w *worker) announce(d *dispatch) {
	w.mu.Lock()
	all := append([]*dispatch{d}, d.joined...)
	w.mu.Unlock()
	w.tell(d)
	for _, each := range slices.Backward(all) {
		w.publish(each)
	}
}

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
	if d.superseded && !d.liesWith(l) {
		w.over(d) // the newest dispatch brings the result; should this one come again, it is known
		w.mu.Unlock()
		signal(w.changed)
		return
	}
	d.sentBy = l
	m := d.result()
	w.mu.Unlock()

	err := w.send(l, d.number, m)
	if err == nil {
		return
	}
	w.log.Error("a result cannot be sent; the task fails", d.about(), slog.Any("error", err))
	w.mu.Lock()
	d.verdict = &verdict{outcome: messages.Failed, took: d.verdict.took,
		text: messages.Clean(fmt.Sprintf("its result (%s) cannot be sent: %v", m.Outcome, err), messages.MaxText)}
	m = d.result()
	w.mu.Unlock()
	if err = w.send(l, d.number, m); err != nil {
		w.log.Error("nor can it be said that the task has failed; it is given back without a result", d.about(),
			slog.Any("error", err))
		w.finish(d, true)
	}
}

// send publishes a result. The error is that of a message that can never be sent:
// what a session does not bring home because it ends is the next one's.
func (w *worker) send(l *link, token uint64, m messages.TaskResult) error {
	body, err := m.MarshalJSON() // json.Marshal would only compact it again
	if err != nil {
		return err
	}
	err = l.session.Publish(bus.Publication{
		Token:    token,
		Exchange: bus.ExchangeAgents, Key: bus.StreamResult + "." + w.cfg.ID,
		Properties: bus.Properties{
			ContentType: contentType, Type: bus.StreamResult, MessageID: m.DispatchID,
			CorrelationID: m.CorrelationID, UserID: l.session.User(), Timestamp: m.Timestamp,
		},
		Body: body,
	})
	if errors.Is(err, bus.ErrClosed) {
		return nil
	}
	return err
}

// result is the message for a dispatch that has its verdict. worker.mu is held.
func (d *dispatch) result() messages.TaskResult {
	m := d.names
	m.Outcome, m.Attempted, m.Error, m.Usage = d.verdict.outcome, d.verdict.attempted, d.verdict.text, d.verdict.usage
	m.Output, m.OutputRef = d.verdict.output, d.verdict.ref
	m.RetryAfterMS = float64(d.verdict.after.Milliseconds())
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
		text := d.verdict.text
		if d.verdict.panicked {
			text = "the handler panicked; its words are in the result"
		}
		w.log.Log(context.Background(), level, "task "+string(d.verdict.outcome), d.about(),
			slog.Duration("took", d.verdict.took), slog.String("error", text))
	}
}

// settled hears from the broker what became of a publication. It must not block.
func (w *worker) settled(l *link, token uint64, outcome bus.Outcome) {
	if outcome == bus.Unknown {
		return // the session has ended
	}
	if token == requestToken {
		w.requestSettled(l, outcome)
		return
	}
	if token&progressBit != 0 {
		w.progressSettled(token&^progressBit, outcome)
		return
	}
	w.mu.Lock()
	d := w.numbered[token] // nil for a heartbeat, whose token is 0
	if outcome != bus.Confirmed {
		l.refusals++
		first := l.refusals == 1
		if d != nil {
			d.sentBy = nil
			time.AfterFunc(retryRefused, func() { w.publish(d) })
		} else if outcome == bus.Unroutable { // a coordinator may be about to bind the stream
			time.AfterFunc(retryRefused, func() { signal(w.wake) })
		}
		w.mu.Unlock()
		if first {
			w.log.Warn("the broker does not take what this agent reports: are the streams "+bus.StreamStatus+" and "+
				bus.StreamResult+
				" bound to the exchange "+bus.ExchangeAgents+
				"? A coordinator sees to that, or taskbus topology apply. Trying again",
				slog.String("outcome", outcome.String()))
		}
		return
	}
	giveBack := d != nil && d.verdict.outcome == messages.Rejected
	w.mu.Unlock()
	if d != nil {
		w.finish(d, giveBack)
	}
}

// finish ends a dispatch: its result is confirmed, or there will be none.
func (w *worker) finish(d *dispatch, giveBack bool) {
	w.mu.Lock()
	w.over(d)
	message, hung := d.message, d.running
	d.message = delivery{}
	w.mu.Unlock()
	message.settle(giveBack)
	if hung {
		signal(w.wake) // the coordinator takes the slot for free now
	}
	signal(w.changed)
}

// over takes a dispatch that has ended out of the open ones. Should its message come
// again, it is known. mu is held.
func (w *worker) over(d *dispatch) {
	w.forget(d)
	if d.task != nil && d.names.DispatchID != "" {
		w.ended.add(d.names.DispatchID, newEnding(d))
	}
}
