package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
)

// Run works as the agent until ctx has ended, then drains: it reports offline,
// takes nothing more, lets handlers finish within Config.DrainTimeout, sees their
// results confirmed, and returns nil. A broker that is away, or refuses access, is
// tried again for ever; the Logger tells.
//
// The only error is that of a Config that cannot be used, before anything is
// dialled. Handlers that ignore the end of their ctx may outlive Run.
func Run(ctx context.Context, cfg Config, handle Handler) error {
	if err := start(ctx, cfg, handle, nil); err != nil {
		return fmt.Errorf("agent.Run: %w", err)
	}
	return nil
}

// RunBatches is Run with a function that gets the tasks of a batch at once: those that
// were given to the agent together are collected for one call. For a task that was
// given alone nothing is waited for.
func RunBatches(ctx context.Context, cfg Config, handle BatchHandler) error {
	if err := start(ctx, cfg, nil, handle); err != nil {
		return fmt.Errorf("agent.RunBatches: %w", err)
	}
	return nil
}

func start(ctx context.Context, cfg Config, handle Handler, handleBatch BatchHandler) error {
	if err := cfg.check(); err != nil {
		return fmt.Errorf("the configuration cannot be used: %w", err)
	}
	if handle == nil && handleBatch == nil {
		return errors.New("the configuration cannot be used: there is no Handler: give the function that does the work")
	}
	w, err := newWorker(ctx, cfg.withDefaults(), handle, handleBatch)
	if err != nil {
		return err
	}
	defer w.metrics.unregister()
	w.run(ctx)
	return nil
}

// Back-off between sessions: full jitter under a bound that doubles. Only a session
// that lasted resets it: the end of each costs every message it held a delivery.
const (
	backoffFirst = 250 * time.Millisecond
	backoffMax   = 15 * time.Second
	backoffReset = 30 * time.Second
)

// run opens one session after another until the agent has drained.
func (w *worker) run(ctx context.Context) {
	// life outlasts ctx by the time it takes to drain.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go func() {
		<-ctx.Done()
		w.drain()
		end()
	}()
	if w.cfg.Bidder != nil {
		go w.answerOffers(life)
	}
	// First: a broker that refuses a password takes seconds to do so.
	if where := amqpbus.Address(w.cfg.URL); where != "" {
		w.log.Info("connecting to the broker", slog.String("broker", where))
	} else {
		w.log.Info("connecting to the broker")
	}
	bound := backoffFirst
	for life.Err() == nil {
		begun := time.Now()
		err := w.runSession(life)
		if life.Err() != nil {
			break
		}
		if time.Since(begun) >= backoffReset {
			bound = backoffFirst
		}
		pause := time.Duration(rand.Int64N(int64(bound)) + 1)
		w.tellFault(err, pause)
		select {
		case <-time.After(pause):
		case <-life.Done():
		}
		bound = min(2*bound, backoffMax)
	}
	w.log.Info("the agent has stopped")
}

func (w *worker) tellFault(err error, pause time.Duration) {
	text := "no session with the broker; another try follows"
	switch {
	case errors.Is(err, bus.ErrInUse):
		text =
			"another process works as this agent, or the broker has not noticed yet that an earlier one is gone; waiting " +
				"for its place"
	case lacks(err, bus.ExchangeAgents):
		text = "the exchange " + bus.ExchangeAgents +
			", by which agents report, does not exist yet; waiting for a coordinator to declare it (or for taskbus topology " +
			"apply)"
	}
	w.log.Warn(text, slog.Any("error", err), slog.Duration("pause", pause))
}

// lacks reports whether a session was not opened for want of this exchange.
func lacks(err error, exchange string) bool {
	var missing *bus.TopologyError
	return errors.As(err, &missing) && missing.Object == exchange
}

// link is a session with the broker and what belongs to it.
type link struct {
	session bus.Session
	// control is the queue by which the coordinator speaks to the agent; empty when the broker
	// does not let us have it.
	control string
	// late: when the session began there was no exchange to bind it to.
	late    bool
	heard   chan struct{}      // closed once the control queue is consumed
	unheard chan chan struct{} // see bindNow
	// refusals is how many publications the broker did not take; worker.mu.
	refusals int
	// requestRefusals is the same for bids and claims; worker.mu.
	requestRefusals int
}

// runSession connects and serves until the session's first fault, which it
// returns, or until life has ended.
func (w *worker) runSession(life context.Context) error {
	l, err := w.connect(life)
	if err != nil {
		return err
	}
	defer w.detach(l)
	if l.control != "" && !l.late {
		if err := w.listen(life, l); err != nil {
			w.close(l.session)
			return err
		}
	}
	for _, f := range l.session.Findings() {
		w.log.Warn(f.Text, slog.String("object", f.Object))
	}
	w.log.Info("connected to the broker")
	w.attach(l)
	w.serve(life, l)
	if err := l.session.Err(); err != nil {
		return fmt.Errorf("the session has ended: %w", err)
	}
	return nil
}

// closeTimeout bounds the goodbye: the last confirms and acknowledgements.
const closeTimeout = 5 * time.Second

func (w *worker) close(s bus.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		w.log.Warn("the session did not end cleanly", slog.Any("error", err))
	}
}

// connect dials. Where the control queue cannot be had it does without. Without the
// exchange that everything is reported to there is no session: the first heartbeat
// would end it, and each end costs every message in hand one of its deliveries.
func (w *worker) connect(ctx context.Context) (*link, error) {
	l := &link{control: "agent." + w.cfg.ID + ".control", heard: make(chan struct{}), unheard: make(chan chan struct{})}
	spec := bus.SessionSpec{
		Name: "taskbus-agent/" + w.cfg.ID,
		// Verify: to look takes no permission. What is temporary is declared all the same.
		Topology: bus.Topology{
			Mode:      bus.Verify,
			Exchanges: []bus.Exchange{{Name: bus.ExchangeAgents, Kind: bus.Topic}},
			Queues:    []bus.Queue{{Name: l.control, Temporary: true}},
			Bindings:  []bus.Binding{{Exchange: bus.ExchangeControl, Queue: l.control, Key: w.cfg.ID}},
		},
		OnSettled: func(token uint64, outcome bus.Outcome) { w.settled(l, token, outcome) },
		OnBlocked: w.tellBlocked,
	}
	var err error
	l.session, err = w.cfg.Bus.Open(ctx, spec)
	withoutControl := lacks(err, bus.ExchangeControl)
	if !withoutControl && !errors.Is(err, bus.ErrAccess) || errors.Is(err, bus.ErrLogin) {
		return l, err // nil, or nothing that doing without would mend
	}
	why := err
	spec.Topology.Queues = nil // the binding stays, for bindControl
	if l.session, err = w.cfg.Bus.Open(ctx, spec); err != nil {
		return nil, err
	}
	if withoutControl && !w.cfg.Declare {
		if _, err := l.session.Depth(ctx, w.cfg.Queue); errors.Is(err, bus.ErrNoQueue) {
			w.close(l.session)
			return nil, fmt.Errorf("wait for a coordinator to declare %s and %s: %w", bus.ExchangeControl, w.cfg.Queue, why)
		}
	}
	if withoutControl {
		l.late = true
		w.log.Warn("no control queue until the exchange "+bus.ExchangeControl+
			" exists: till then nothing is offered or granted, tasks that are withdrawn will be worked on all the same, and "+
			"nothing keeps a second process from working as this agent",
			slog.Any("error", why))
		return l, nil
	}
	l.control = ""
	w.log.Warn(
		"no control queue: tasks that are withdrawn will be worked on all the same, and nothing keeps a second process "+
			"from working as this agent",
		slog.Any("error", why))
	return l, nil
}

func (w *worker) tellBlocked(blocked bool, reason string) {
	if blocked {
		w.log.Warn("the broker takes no messages for now; results and heartbeats wait", slog.String("reason", reason))
		return
	}
	w.log.Info("the broker takes messages again")
}
