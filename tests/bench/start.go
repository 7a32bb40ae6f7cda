package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
)

// startResult is how long a coordinator takes to be ready with a long journal.
type startResult struct {
	Tasks        int        `json:"tasks"`
	Records      int        `json:"records"`
	Messages     int        `json:"messages"`
	JournalBytes int        `json:"journal_bytes"`
	Runs         []startRun `json:"runs"`
}

// startRun is one start, from the exec to the first 200 of /readyz.
type startRun struct {
	// Snapshot tells whether there was one to begin with.
	Snapshot     bool    `json:"snapshot"`
	Millis       float64 `json:"ready_ms"`
	CPUMillis    float64 `json:"cpu_ms"`
	PeakRSSBytes int64   `json:"peak_rss_bytes"`
}

const (
	startTasks = 1_000_000
	startRuns  = 3 // with the snapshot
	// startProbe is how many tasks of long ago are sent once more: each must be refused
	// as known, or the start was quick because it remembers nothing.
	startProbe = 20
)

// startFleet remembers every task of the past.
func startFleet() []byte {
	return fmt.Appendf(fleetFile(100_000, skills), "dedupe: {window_seconds: %d, max_ids: %d}\n", 7*24*60*60, startTasks)
}

// start writes the journal of a past with n tasks and starts the service on it; at
// last as if there were no snapshot.
func (b *bench) start(ctx context.Context, n, runs int) (r startResult, err error) {
	if err := b.broker.clean(); err != nil {
		return r, err
	}
	// The queues of the fleet are there when a coordinator starts again.
	s, err := launchTaskbus(ctx, b, append(startFleet(), noJournal...))
	if err != nil {
		return r, err
	}
	if err := s.stop(); err != nil {
		return r, err
	}
	r.Tasks = n
	if err := b.writePast(&r); err != nil {
		return r, err
	}
	debug.FreeOSMemory() // what the past took should not weigh on what is measured
	for i := range runs + 1 {
		snapshot := i < runs
		if !snapshot {
			if err := b.disownSnapshot(r.Records); err != nil {
				return r, err
			}
		}
		run, err := b.startOnce(ctx, n, i)
		if err != nil {
			return r, err
		}
		run.Snapshot = snapshot
		b.say("start %d/%d with %d tasks in the journal, snapshot %-5v ready after %5.0f ms, %5.0f ms CPU, %4.0f MiB at most",
			i+1, runs+1, n, snapshot, run.Millis, run.CPUMillis, mebibytes(run.PeakRSSBytes))
		r.Runs = append(r.Runs, run)
	}
	return r, b.broker.clean() // it is some 300 MiB
}

// journalled is a message of the journal as the service publishes it.
func journalled(body []byte) amqp.Publishing {
	return amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/octet-stream", Type: bus.StreamJournal, AppId: "taskbus", Body: body}
}

// writePast fills the journal.
func (b *bench) writePast(r *startResult) (err error) {
	begun := time.Now()
	p, claim, err := newPast(startFleet(), r.Tasks, begun)
	if err != nil {
		return err
	}
	f, err := b.broker.feed(bus.StreamJournal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	publish := func(body []byte) error {
		r.Messages++
		r.JournalBytes += len(body)
		return f.send(journalled(body))
	}
	if err := publish(claim); err != nil {
		return err
	}
	err = p.write(publish, func(body []byte) (int64, error) {
		return b.broker.offsetOf(func() error { return publish(body) }, journal.KindSnapshot)
	})
	r.Records = p.counted
	b.say("start: a journal of %d records in %d messages, %.0f MiB, written in %.0f s",
		r.Records, r.Messages, mebibytes(int64(r.JournalBytes)), time.Since(begun).Seconds())
	return err
}

// offsetOf publishes something and gives the offset of the first message of that kind
// that the journal has from then on.
func (b *broker) offsetOf(publish func() error, kind journal.Kind) (offset int64, err error) {
	channel, err := b.conn.Channel()
	if err != nil {
		return 0, fmt.Errorf("open a channel: %w", err)
	}
	defer func() { err = errors.Join(err, channel.Close()) }()
	deliveries, err := consumeStream(channel, bus.StreamJournal, "next", readPrefetch)
	if err != nil {
		return 0, err
	}
	if err := publish(); err != nil {
		return 0, err
	}
	timeout := time.After(drainTimeout)
	for {
		select {
		case d, more := <-deliveries:
			if !more {
				return 0, fmt.Errorf("the broker stopped delivering from %s", bus.StreamJournal)
			}
			h, err := journal.DecodeHeader(d.Body)
			if err != nil {
				return 0, fmt.Errorf("read the journal back: %w", err)
			}
			offset, known := d.Headers["x-stream-offset"].(int64)
			if known && h.Kind == kind {
				return offset, nil
			}
		case <-timeout:
			return 0, fmt.Errorf("what was published to %s was not read back", bus.StreamJournal)
		}
	}
}

// disownSnapshot makes the journal end with the claim of one who knows of no snapshot:
// who starts then folds everything, from record 1 on.
func (b *bench) disownSnapshot(records int) error {
	f, err := b.broker.feed(bus.StreamJournal)
	if err != nil {
		return err
	}
	return errors.Join(f.send(journalled(disowning(records, time.Now()))), f.close())
}

func disowning(records int, now time.Time) []byte {
	const epoch = 1000 // above those of the starts before
	return journal.AppendEpoch(nil, journal.Header{
		Epoch: epoch, First: uint64(records) + 1, At: now, ResultOffset: -1, SnapshotOffset: -1,
	}, journal.Epoch{Nonce: "no-snapshot", Instance: "taskbus@past#2", Version: "bench"})
}

// startOnce starts the service, sees that it knows the past, and stops it before it
// would write a snapshot of its own. The tasks it is asked for are others each time.
func (b *bench) startOnce(ctx context.Context, n, turn int) (run startRun, err error) {
	s, err := launchTaskbus(ctx, b, startFleet())
	if err != nil {
		return run, err
	}
	run.Millis = sinceMillis(s.begun, time.Now())
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	stat, err := s.process.stat()
	if err != nil {
		return run, err
	}
	run.CPUMillis = float64(stat.cpu.Milliseconds())
	if _, run.PeakRSSBytes, err = s.process.memory(); err != nil {
		return run, err
	}
	// Not the very oldest: at the bound of the window they go first.
	old := func(i int) amqp.Publishing { return task(i*n/startProbe + n/(2*startProbe) + turn) }
	if err := b.broker.fillWith(bus.QueueAssign, 0, startProbe, old); err != nil {
		return run, err
	}
	err = s.await(ctx, "aware of tasks of the past", func() (bool, error) {
		status, err := s.status(ctx)
		return status.Counters.FailedByReason[coordinator.ReasonDuplicateTask.String()] == startProbe, err
	})
	return run, errors.Join(err, s.stop())
}
