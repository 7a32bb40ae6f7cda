package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
)

// throughputRun is one backlog worked off.
type throughputRun struct {
	Subject string `json:"subject"`
	Tasks   int    `json:"tasks"`
	// Seconds from the release to the last arrival in an agent's queue.
	Seconds      float64 `json:"seconds"`
	TasksPerSec  float64 `json:"tasks_per_second"`
	CPUMicros    float64 `json:"cpu_microseconds_per_task"`
	PeakRSSBytes int64   `json:"peak_rss_bytes"`
}

// Times of a throughput run.
const (
	inputPoll    = 20 * time.Millisecond
	arrivalGrace = 30 * time.Second       // without any progress
	afterwork    = 250 * time.Millisecond // for the last acknowledgements and log lines
)

// throughput has the contender work off a backlog of n tasks.
//
// The release is the same for both: the process stands connected, subscribed and
// idle; it is stopped with SIGSTOP while the backlog is published and confirmed,
// and goes on with SIGCONT, which is when the clock starts. So no start-up is
// measured, no publisher competes for the cores, and both meet a full queue. (The
// first task arrives a few milliseconds after the release.)
//
// Nobody consumes the agents' queues meanwhile: that would cost the broker as much
// again. While there is work the depth of one queue is asked for, 50 times a
// second; once the input is empty, at most the prefetch is still under way, and the
// agents' queues are counted until all has arrived. CPU time is read a moment
// later, so that acknowledgements and log lines are in it.
func (b *bench) throughput(ctx context.Context, c contender, n int) (run throughputRun, err error) {
	if err := b.broker.clean(); err != nil {
		return run, err
	}
	s, err := c.start(ctx, b)
	if err != nil {
		return run, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	before, err := b.prepareBacklog(s, c, n)
	if err != nil {
		return run, err
	}
	released := time.Now()
	if err := s.thaw(); err != nil {
		return run, err
	}
	arrived, err := b.awaitArrivals(ctx, s, c, n)
	if err != nil {
		return run, err
	}
	time.Sleep(afterwork)
	cpu, err := s.process.cpuPer(n, before)
	if err != nil {
		return run, err
	}
	_, peak, err := s.process.memory()
	if err != nil {
		return run, err
	}
	if err := s.stop(); err != nil {
		return run, err
	}
	elapsed := arrived.Sub(released)
	return throughputRun{
		Subject: c.name, Tasks: n, Seconds: elapsed.Seconds(), TasksPerSec: float64(n) / elapsed.Seconds(),
		CPUMicros: cpu, PeakRSSBytes: peak,
	}, b.verify(c, n)
}

// prepareBacklog freezes the subject, fills its input, and reads its CPU time.
func (b *bench) prepareBacklog(s *subject, c contender, n int) (procStat, error) {
	if err := s.freeze(); err != nil {
		return procStat{}, err
	}
	of := c.task
	if of == nil {
		of = task
	}
	if err := b.broker.fillWith(c.input, 0, n, of); err != nil {
		return procStat{}, err
	}
	if err := s.say(unlimited(statusRate)); err != nil {
		return procStat{}, err
	}
	return s.process.stat()
}

// awaitTaken returns when nothing is left of the input but what the subject holds.
func (b *bench) awaitTaken(ctx context.Context, s *subject, c contender) error {
	progress := newProgress(arrivalGrace)
	for {
		left, err := b.broker.ready(c.input)
		if err != nil || left == 0 {
			return err
		}
		if err := b.stuck(ctx, s, progress, left); err != nil {
			return err
		}
		time.Sleep(inputPoll)
	}
}

// awaitArrivals returns when n tasks are in the agents' queues.
func (b *bench) awaitArrivals(ctx context.Context, s *subject, c contender, n int) (time.Time, error) {
	if err := b.awaitTaken(ctx, s, c); err != nil {
		return time.Time{}, err
	}
	progress := newProgress(arrivalGrace)
	for {
		arrived, err := b.broker.ready(c.queues...)
		if err != nil {
			return time.Time{}, err
		}
		if arrived >= n {
			return time.Now(), nil
		}
		if err := b.stuck(ctx, s, progress, arrived); err != nil {
			return time.Time{}, fmt.Errorf("%d of %d tasks have arrived: %w", arrived, n, err)
		}
	}
}

// stuck tells why waiting any longer is of no use; nil while it is.
func (b *bench) stuck(ctx context.Context, s *subject, p *progress, value int) error {
	if err := errors.Join(ctx.Err(), s.process.alive()); err != nil {
		return err
	}
	if !p.moved(value, time.Now()) {
		return fmt.Errorf("%s has done nothing for %s; see %s", s.process.name, p.grace, s.process.log)
	}
	return nil
}

// progress notices when a number has stopped changing.
type progress struct {
	grace time.Duration
	last  int
	since time.Time
}

func newProgress(grace time.Duration) *progress { return &progress{grace: grace} }

func (p *progress) moved(value int, now time.Time) bool {
	if p.since.IsZero() || value != p.last {
		p.last, p.since = value, now
	}
	return now.Sub(p.since) < p.grace
}

// verify counts, after the process has ended, every task of the run by its
// number: n in, n out, n different ones, and none left or set aside.
func (b *bench) verify(c contender, n int) error {
	t := newTally(n)
	if err := b.broker.drain(c.queues, t); err != nil {
		return err
	}
	if err := t.complete(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return b.verifyEmpty(c)
}

// verifyEmpty sees that every task was acknowledged and none failed or came back.
func (b *bench) verifyEmpty(c contender) error {
	left, err := b.broker.ready(c.input)
	if err != nil {
		return err
	}
	aside := 0
	if c.input == bus.QueueAssign {
		if aside, err = b.broker.ready(setAside()...); err != nil {
			return err
		}
	}
	if left > 0 || aside > 0 {
		return fmt.Errorf("%s: %d tasks were not acknowledged, %d failed or came back", c.name, left, aside)
	}
	return nil
}
