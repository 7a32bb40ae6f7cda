package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/httpapi"
)

// drainMargin is how long past the configured grace the service may take before
// it counts as stuck.
const drainMargin = 5 * time.Second

var errSecondSignal = errors.New("stopped at once by a second signal; RabbitMQ delivers again what was in flight")

// run returns nil after a drain that a signal, or the end of ctx, has asked for.
// The HTTP server outlives the service, so that /readyz says "draining" to the end.
func (i *instance) run(ctx context.Context, signals <-chan os.Signal) error {
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	answering, stopAnswering := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAnswering()

	served, answered := make(chan error, 1), make(chan error, 1)
	go func() { served <- i.service.Run(serving) }()
	go func() { answered <- i.answer(answering) }()
	// These are ended last, so that they see how this drain ends. What the history has not written
	// by then it reads from the journal the next time.
	var history, alerts sync.WaitGroup
	if i.history != nil {
		history.Go(func() { i.history.Run(answering) })
	}
	if i.alerts != nil {
		alerts.Go(func() { i.alerts.Run(answering) })
	}
	atOnce := false // what is still to be sent is not awaited
	defer func() {
		stopAnswering()
		history.Wait()
		if !atOnce {
			alerts.Wait()
		}
	}()
	go i.watch(serving, i.files.Agents)
	go i.watch(serving, i.files.Quotas)

	var limit time.Duration
	var late <-chan time.Time // set once draining
	drain := func() {
		if late == nil {
			stopServing()
			limit = i.reload.grace() + drainMargin
			late = time.After(limit)
		}
	}
	var failure error
	stop := ctx.Done()
	for {
		select {
		case err := <-served:
			stopAnswering()
			if answered != nil {
				failure = <-answered
			}
			return errors.Join(failure, err)
		case failure = <-answered:
			// Without HTTP its state could not be seen: end in order, and say so.
			answered = nil
			drain()
		case <-stop:
			stop = nil
			drain()
		case <-late:
			return errors.Join(failure,
				fmt.Errorf("the drain did not end within %v; RabbitMQ delivers again what was in flight", limit))
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				i.logger.Info().Msg("SIGHUP: reading the configuration again")
				// On its own: it may wait for the broker, and SIGTERM must not.
				go i.reload.now(true)
			case late != nil:
				atOnce = true
				return errSecondSignal
			default:
				i.logger.Info().Str("signal", s.String()).Dur("grace_ms", i.reload.grace()).
					Msg("draining; a second signal ends at once")
				drain()
			}
		}
	}
}

// answer serves HTTP, and gateways over gRPC, until ctx ends or one of the two cannot go on.
func (i *instance) answer(ctx context.Context) error {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- i.gateways.serve(both, i.service, i.cfg.LegacyRateLimitHeaders, i.logger)
	}()
	err := httpapi.Serve(both, i.gateways.wrap(i.listener), i.handler)
	cancel()
	return errors.Join(err, <-ended)
}

// watch follows one of the configuration files until ctx ends. Whichever changes, both are
// read: a policy is made of the two.
func (i *instance) watch(ctx context.Context, path string) {
	if err := config.Watch(ctx, path, func() { i.reload.now(false) }); err != nil {
		i.logger.Warn().Err(err).Str("file", path).
			Msg("changes of the configuration file are not noticed; send SIGHUP after a change")
	}
}

// reloader hands every change of the configuration files to the service, in order.
// It is safe for concurrent use.
type reloader struct {
	apply func(*config.Config, error)

	// current is what was applied last. It is read without mu: applying may take
	// seconds, and a drain must not wait for it.
	current atomic.Pointer[config.Config]

	mu    sync.Mutex
	files cli.ConfigFiles
	// broken is what has been wrong with the files since; empty while they are in order.
	broken string
}

func newReloader(files cli.ConfigFiles, first *config.Config, apply func(*config.Config, error)) *reloader {
	r := &reloader{files: files, apply: apply}
	r.current.Store(first)
	return r
}

// now reads the files. Unless asked by a person, files that say what they said before are
// passed over.
func (r *reloader) now(asked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg, err := r.files.Load()
	if err != nil {
		if broken := err.Error(); asked || broken != r.broken {
			r.broken = broken
			r.apply(nil, err)
		}
		return
	}
	if asked || r.broken != "" || cfg.FileVersion() != r.current.Load().FileVersion() {
		r.current.Store(cfg)
		r.broken = ""
		r.apply(cfg, nil)
	}
}

// grace is how long a drain may take by the configuration in force.
func (r *reloader) grace() time.Duration { return r.current.Load().ShutdownGrace }
