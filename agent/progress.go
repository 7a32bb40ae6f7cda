package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

const (
	// progressEvery is how often the progress of a task is reported at most: the coordinator passes on no more.
	progressEvery = 200 * time.Millisecond
	// progressBit marks the publications of progress; the rest of the token is the dispatch's number.
	progressBit = 1 << 62
)

// errNotRunning: the task is not, or no longer, in the hands of a handler.
var errNotRunning = errors.New("the task is not running")

// Progress tells how far the work is, in percent and in words for people (512 characters at most are told); the
// latest of each 200 ms goes out. The producer hears of it at the task's reply_to, listeners by an event. It gives the
// task, and the handler's ctx, as much time as if it had just begun, but for a Deadline of the task: Timeout is then
// how long the work may be silent. With a coordinator that knows no progress it does nothing.
//
// It does not wait for the broker. An error says that ctx has ended, or that the handler has returned.
func (t *Task) Progress(ctx context.Context, percent float64, message string) error {
	return t.ProgressData(ctx, percent, message, nil)
}

// ProgressData is Progress with data for the producer: what encoding/json makes an object of at most 4,096 bytes of.
func (t *Task) ProgressData(ctx context.Context, percent float64, message string, data any) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	percent = min(max(percent, 0), 100)
	m := messages.TaskProgress{Message: messages.Clean(message, messages.MaxProgressText), Percent: &percent}
	if percent != percent { // no number
		m.Percent = nil
	}
	if data != nil {
		body, err := json.Marshal(data)
		switch {
		case err != nil:
			return fmt.Errorf("encode the data of progress: %w", err)
		case !messages.IsObject(body), len(body) > messages.MaxProgressData:
			return fmt.Errorf("the data of progress is no JSON object of at most %d bytes", messages.MaxProgressData)
		}
		m.Data = body
	}
	if t.report == nil || !t.report(m) {
		return errNotRunning
	}
	return nil
}

// progressed takes what a handler says of a dispatch, in place of what it has said before. It is false when the
// dispatch has ended.
func (w *worker) progressed(d *dispatch, m messages.TaskProgress) bool {
	m.Timestamp = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.verdict != nil || !d.running {
		return false
	}
	first := d.progress == nil
	d.progress = &m
	if first {
		time.AfterFunc(max(0, time.Until(d.toldAt.Add(progressEvery))), func() { w.tellProgress(d) })
	}
	return true
}

// tellProgress publishes what was said last, if the task runs on. What a session does not bring home is lost.
func (w *worker) tellProgress(d *dispatch) {
	w.mu.Lock()
	l, m := w.link, d.progress
	d.progress, d.toldAt = nil, time.Now()
	names := d.names
	if n := len(d.joined); n > 0 {
		names = d.joined[n-1].names // of that the coordinator knows
	}
	if l == nil || m == nil || d.verdict != nil {
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	m.TaskID, m.AgentID, m.CorrelationID, m.DispatchID = names.TaskID, names.AgentID, names.CorrelationID, names.DispatchID
	body, err := m.MarshalJSON()
	if err != nil {
		return // it was encoded here
	}
	_ = l.session.Publish(bus.Publication{
		Token: progressBit | d.number, Exchange: bus.ExchangeAgents, Key: bus.QueueProgress + "." + w.cfg.ID,
		Properties: bus.Properties{
			ContentType: contentType, Type: bus.QueueProgress, CorrelationID: m.CorrelationID, UserID: l.session.User(),
			Timestamp: m.Timestamp,
		},
		Body: body,
	})
}

// progressSettled gives a handler more time when the broker has its report. Where it has no queue for it, the
// coordinator is older, and will hold the task to its time-out.
func (w *worker) progressSettled(number uint64, outcome bus.Outcome) {
	if outcome != bus.Confirmed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.numbered[number]
	if d == nil || d.ctx == nil {
		return
	}
	until := d.toldAt.Add(d.task.Timeout)
	if at := d.task.Deadline; !at.IsZero() && at.Before(until) {
		until = at
	}
	d.ctx.extend(until)
}
