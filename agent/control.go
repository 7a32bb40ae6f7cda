package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// controlPrefetch is how many messages of the control queue may be on their way.
const controlPrefetch = 100

// rebindWithin is Config.rebindWithin where that is 0.
const rebindWithin = 30 * time.Second

// keepHeard binds the control queue again and again: when its exchange is deleted and
// declared anew, the binding is gone, silently, and nothing else can make it. It ends with the session.
func (w *worker) keepHeard(ctx context.Context, l *link) {
	if l.control == "" {
		return
	}
	half := w.cfg.rebindWithin / 2
	told := "" // the latest fault, unless it is over
	for {
		var tried chan struct{} // to be closed after the first try
		select {
		case <-time.After(half + rand.N(half)): // not all agents at once
		case tried = <-l.unheard:
		case <-ctx.Done():
			return
		}
		err := w.bindControl(ctx, l)
		if tried != nil {
			close(tried)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, bus.ErrClosed):
			return
		case err == nil && told != "":
			w.log.Info("the control queue is bound again")
			told = ""
		case err != nil && err.Error() != told:
			told = err.Error()
			text := "the control queue cannot be bound; another try follows"
			if lacks(err, bus.ExchangeControl) {
				text = "the exchange " + bus.ExchangeControl +
					" does not exist: no offer, grant or withdrawal reaches this agent before a coordinator declares it (or " +
					"taskbus topology apply)"
			}
			w.log.Warn(text, slog.Any("error", err))
		}
	}
}

// bindNowWithin is how long bindNow waits.
const bindNowWithin = time.Second

// bindNow has the control queue bound at once, and waits a moment for that: the answer to
// what is asked next would else be faster.
func (l *link) bindNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, bindNowWithin)
	defer cancel()
	tried := make(chan struct{})
	select {
	case l.unheard <- tried:
	case <-ctx.Done():
		return
	}
	select {
	case <-tried:
	case <-ctx.Done():
	}
}

// bindControl makes the binding of the control queue, and what else was not possible
// when the session began.
func (w *worker) bindControl(ctx context.Context, l *link) error {
	if _, err := l.session.EnsureQueue(ctx, bus.Queue{Name: l.control, Temporary: true}); err != nil {
		return err
	}
	if !l.late {
		return nil
	}
	if err := w.listen(ctx, l); err != nil {
		return err
	}
	l.late = false
	w.log.Info("the agent has its control queue now")
	return nil
}

// listen consumes the control queue.
func (w *worker) listen(ctx context.Context, l *link) error {
	err := l.session.Subscribe(ctx, bus.Subscription{Queue: l.control, Prefetch: controlPrefetch,
		Handle: func(msg bus.Delivery) {
			defer l.session.Ack(msg.Tag)
			m, refusal := w.decoder.DecodeControl(msg.Body)
			if refusal != nil {
				w.log.Warn("a control message cannot be read", slog.String("type", messages.Clean(msg.Type, messages.MaxText)),
					slog.String("reason", refusal.Text))
				return
			}
			w.obey(l, m)
		}})
	if err != nil {
		return fmt.Errorf("consume the control queue %s: %w", l.control, err)
	}
	close(l.heard)
	return nil
}

// obey does what a control message says. It waits for no one.
func (w *worker) obey(l *link, m messages.Control) {
	var to messages.AgentID
	act := func() {}
	switch m := m.(type) {
	case *messages.TaskCancel:
		w.withdraw(m) // it names no agent
		return
	case *messages.TaskAvailable:
		to, act = m.AgentID, func() { w.offer(l, m) }
	case *messages.TaskAwarded:
		to, act = m.AgentID, func() { w.awarded(m) }
	case *messages.BidRejected:
		to, act = m.AgentID, func() { w.bidRejected(m) }
	case *messages.TaskGranted:
		to, act = m.AgentID, func() { w.granted(m) }
	}
	if string(to) != w.cfg.ID {
		w.log.Warn("a control message for another agent came to this one", slog.String("for", string(to)))
		return
	}
	act()
}

// withdraw stops what is named, or remembers it for when it comes. What has ended
// already stays as it is.
func (w *worker) withdraw(m *messages.TaskCancel) {
	w.mu.Lock()
	var waiting []*dispatch
	known := false
	for _, d := range w.open {
		if d.names.TaskID != m.TaskID || m.DispatchID != "" && d.names.DispatchID != m.DispatchID {
			continue
		}
		known = true
		if d.run != nil { // whichever of its dispatches is named, it is the one run
			d = d.run
		}
		switch {
		case d.running:
			d.cancel(withdrawn(m.Reason))
		case d.verdict == nil:
			waiting = append(waiting, d) // perhaps twice: the first verdict counts
		}
	}
	if !known { // it has not come yet, or is over: then it is not asked about
		w.recalled.add(recallKey(m.TaskID, m.DispatchID), withdrawal{m.Reason, time.Now()})
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(d *dispatch) bool { return slices.Contains(waiting, d) })
	w.mu.Unlock()
	w.log.Info("a task was withdrawn", slog.String("task_id", string(m.TaskID)), slog.String("dispatch_id", m.DispatchID),
		slog.String("trace_id", m.CorrelationID), slog.Bool("here", known), slog.String("reason", m.Reason))
	for _, d := range waiting {
		w.conclude(d, verdict{outcome: messages.Cancelled, text: withdrawn(m.Reason).Error()})
	}
}

// recallKey is under what a withdrawal is remembered: the dispatch it names, else
// the task.
func recallKey(task messages.TaskID, dispatch string) string {
	if dispatch != "" {
		return "dispatch " + dispatch
	}
	return "task " + string(task)
}

// wasRecalled reports whether a dispatch was withdrawn before it came, and why. A
// withdrawal that names no dispatch is good for one: the task may be submitted
// again. mu is held.
func (w *worker) wasRecalled(m *messages.TaskResult, now time.Time) (reason string, is bool) {
	for _, key := range [...]string{recallKey(m.TaskID, m.DispatchID), recallKey(m.TaskID, "")} {
		recall, known := w.recalled.get(key)
		if known && !recall.at.IsZero() && now.Sub(recall.at) < recallFor {
			w.recalled.add(key, withdrawal{}) // used up
			return recall.reason, true
		}
	}
	return "", false
}
