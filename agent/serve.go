package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"taskbus/coordinator/bus"
)

// Pauses between two looks for a queue that is not there, or not to be had: the
// first, and what it doubles to.
const (
	queuePauseFirst = 250 * time.Millisecond
	queuePauseMax   = 5 * time.Second
)

// serve works in a session until it has ended, or life has; then it is closed.
func (w *worker) serve(life context.Context, l *link) {
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { w.consume(ctx, l) })
	group.Go(func() { w.keepHeard(ctx, l) })
	select {
	case <-l.session.Done():
	case <-life.Done():
		w.close(l.session) // first: it also ends the wait of publications
	}
	cancel()
	group.Wait()
}

// consume gets the agent's queue, as often as it is lost, until the drain begins or
// the session ends. Heartbeats go out whether it has it or not: a coordinator that
// does not know the agent yet declares the queue when it hears of it.
func (w *worker) consume(ctx context.Context, l *link) {
	var group sync.WaitGroup
	defer group.Wait()
	reporting := sync.OnceFunc(func() { group.Go(func() { w.heartbeats(ctx, l) }) })
	defer reporting()

	pause, told := queuePauseFirst, ""
	for !w.isDraining() {
		ended := make(chan error, 1)
		err := w.subscribe(ctx, l, ended)
		reporting() // the consumer first, lest the coordinator see an agent without
		if err == nil {
			w.log.Info("takes tasks", slog.String("queue", w.cfg.Queue), slog.Int("slots", w.cfg.Slots))
			pause, told = queuePauseFirst, ""
			stop, stopped := w.startPulling(ctx, &group, l)
			select {
			case err = <-ended:
				stop()
				<-stopped // the next begins when this one is over
				w.dropUnbegun()
			case <-w.leaving:
				stop()
				w.unsubscribe(ctx, l)
				return
			case <-ctx.Done():
				stop()
				return
			}
		}
		if text := err.Error(); text != told && ctx.Err() == nil {
			told = text
			w.log.Warn("cannot consume its queue; another try follows", slog.String("queue", w.cfg.Queue),
				slog.Any("error", err))
		}
		select {
		case <-time.After(pause):
		case <-w.leaving:
			return
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, queuePauseMax)
	}
}

func (w *worker) isDraining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.draining
}

// subscribe starts the consumer; ended hears of its end.
func (w *worker) subscribe(ctx context.Context, l *link, ended chan<- error) error {
	sub := bus.Subscription{
		Queue: w.cfg.Queue, Prefetch: w.cfg.Slots,
		Handle:  func(msg bus.Delivery) { w.receive(l, msg) },
		OnEnded: func(err error) { ended <- err },
	}
	err := l.session.Subscribe(ctx, sub)
	if !w.cfg.Declare || !errors.Is(err, bus.ErrNoQueue) {
		return err
	}
	if err := w.declareQueue(ctx); err != nil {
		return fmt.Errorf("declare the missing queue: %w", err)
	}
	return l.session.Subscribe(ctx, sub)
}

// declareQueue makes the agent's queue, in a session for that alone: the one that
// works may only look.
func (w *worker) declareQueue(ctx context.Context) error {
	session, err := w.cfg.Bus.Open(ctx, bus.SessionSpec{
		Name:     "taskbus-agent/" + w.cfg.ID + " declares its queue",
		Topology: bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{bus.AgentQueue(bus.ProfileQuorum, w.cfg.Queue)}},
	})
	if err != nil {
		return err
	}
	w.close(session)
	return nil
}

// unsubscribe stops taking tasks. What the broker has sent by then still comes, and
// is given back.
func (w *worker) unsubscribe(ctx context.Context, l *link) {
	if _, err := l.session.Unsubscribe(ctx, w.cfg.Queue); err != nil && !errors.Is(err, bus.ErrClosed) {
		w.log.Warn("cannot stop consuming; what still comes is given back", slog.Any("error", err))
	}
}

// dropUnbegun gives up what waits: the queue it came from is gone.
func (w *worker) dropUnbegun() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetWaiting()
}
