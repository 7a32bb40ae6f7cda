package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// resultsRun is one backlog worked off by agents that publish results.
type resultsRun struct {
	// Reader of the results: "taskbus", or "reader" for one that does nothing.
	Reader string `json:"reader"`
	Tasks  int    `json:"tasks"`
	// Seconds from the release to the moment the last result could be read in its
	// stream, and to the moment the reader had read it.
	Seconds     float64 `json:"seconds"`
	ReadSeconds float64 `json:"read_seconds"`
	TasksPerSec float64 `json:"tasks_per_second"`
	// CPU time of the service and of the agents' process.
	CPUMicros       float64 `json:"cpu_microseconds_per_task"`
	AgentsCPUMicros float64 `json:"agents_cpu_microseconds_per_task"`
	PeakRSSBytes    int64   `json:"peak_rss_bytes"`
}

// streamBare takes the results that nobody but the bare reader reads.
const streamBare = "bench.result"

// countPoll is the time between two questions to the service how many results it
// has counted. Each costs it the time of several tasks.
const countPoll = 50 * time.Millisecond

// audience is who reads the results of the light agents.
type audience struct {
	name, stream string
	// start sets up the reader, with n results to come.
	start func(ctx context.Context, b *bench, s *subject, n int) (*process, error)
	// read returns when the reader has read all n.
	read func(ctx context.Context, s *subject, reader *process, n int) error
	// counted is how many results the service must have counted in the end.
	counted func(n int) uint64
}

// audiences are the two ways. The service, its work and the agents are the same in
// both: only the name of the stream differs.
func audiences() [2]audience {
	return [...]audience{
		{"reader", streamBare,
			func(ctx context.Context, b *bench, s *subject, n int) (*process, error) {
				if err := b.broker.declareStream(streamBare); err != nil {
					return nil, err
				}
				return s.with(ctx, b, "reader", streamBare, strconv.Itoa(n))
			},
			func(_ context.Context, _ *subject, reader *process, _ int) error {
				return reader.expect("done", arrivalGrace)
			},
			func(int) uint64 { return 0 }},
		{"taskbus", bus.StreamResult,
			func(context.Context, *bench, *subject, int) (*process, error) { return nil, nil },
			func(ctx context.Context, s *subject, _ *process, n int) error { return s.awaitCounted(ctx, n) },
			func(n int) uint64 { return uint64(n) }},
	}
}

// results has the service work off a backlog, and light agents tell the end of
// every task. The release is that of throughput; the clock stops when the last
// result can be read in its stream, whoever reads it.
func (b *bench) results(ctx context.Context, a audience, n int) (run resultsRun, err error) {
	if err := b.broker.clean(); err != nil {
		return run, err
	}
	_, c := contenders()
	s, err := c.start(ctx, b)
	if err != nil {
		return run, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	reader, err := a.start(ctx, b, s, n)
	if err != nil {
		return run, err
	}
	agents, err := s.with(ctx, b, "light", a.stream, strconv.Itoa(n))
	if err != nil {
		return run, err
	}
	before, err := b.prepareBacklog(s, c, n)
	if err != nil {
		return run, err
	}
	agentsBefore, err := agents.stat()
	if err != nil {
		return run, err
	}
	released := time.Now()
	if err := s.thaw(); err != nil {
		return run, err
	}
	if err := b.awaitTaken(ctx, s, c); err != nil {
		return run, err
	}
	if err := agents.expect("done", arrivalGrace); err != nil {
		return run, err
	}
	elapsed := time.Since(released)
	if err := a.read(ctx, s, reader, n); err != nil {
		return run, err
	}
	read := time.Since(released)
	time.Sleep(afterwork)
	run = resultsRun{
		Reader: a.name, Tasks: n, Seconds: elapsed.Seconds(), ReadSeconds: read.Seconds(),
		TasksPerSec: float64(n) / elapsed.Seconds(),
	}
	if run.CPUMicros, err = s.process.cpuPer(n, before); err != nil {
		return run, err
	}
	if run.AgentsCPUMicros, err = agents.cpuPer(n, agentsBefore); err != nil {
		return run, err
	}
	if _, run.PeakRSSBytes, err = s.process.memory(); err != nil {
		return run, err
	}
	if err := s.verifyCounted(ctx, a.counted(n)); err != nil {
		return run, err
	}
	if err := s.stop(); err != nil {
		return run, err
	}
	return run, b.verifyResults(c, a.stream, newTally(n))
}

// awaitCounted returns when the service has counted n tasks as done.
func (s *subject) awaitCounted(ctx context.Context, n int) error {
	return s.awaitEvery(ctx, countPoll, fmt.Sprintf("done with %d results", n), func() (bool, error) {
		status, err := s.status(ctx)
		return status.Counters.Results[coordinator.OutcomeSucceeded.String()] >= uint64(n), err
	})
}

// verifyCounted sees that the service has counted n results, all of tasks that
// were done, and refused none.
func (s *subject) verifyCounted(ctx context.Context, n uint64) error {
	status, err := s.status(ctx)
	if err != nil {
		return err
	}
	for outcome, count := range status.Counters.Results {
		want := uint64(0)
		if outcome == coordinator.OutcomeSucceeded.String() {
			want = n
		}
		if count != want {
			return fmt.Errorf("%s has counted %d results as %s, expected %d", s.process.name, count, outcome, want)
		}
	}
	for why, count := range status.Counters.ResultsRefused {
		if count != 0 {
			return fmt.Errorf("%s has refused %d results as %s", s.process.name, count, why)
		}
	}
	return nil
}

// verifyResults counts, after all processes have ended, the results by the numbers
// of their tasks: one for each, and nothing left anywhere.
func (b *bench) verifyResults(c contender, stream string, t *tally) error {
	if err := b.broker.readResults(stream, t); err != nil {
		return err
	}
	if err := t.complete(); err != nil {
		return fmt.Errorf("results in %s: %w", stream, err)
	}
	left, err := b.broker.ready(c.queues...)
	if err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d tasks with a result were not acknowledged by their agents", left)
	}
	return b.verifyEmpty(c)
}

// declareStream declares a stream as the service does; the bare one like task.result.
func (b *broker) declareStream(name string) error {
	like := name
	if name == streamBare {
		like = bus.StreamResult
	}
	if _, err := b.channel.QueueDeclare(name, true, false, false, false, streamLike(like)); err != nil {
		return fmt.Errorf("declare the stream %s: %w", name, err)
	}
	return nil
}

// streamLike are the arguments of one of the service's streams. A test holds them
// against what the service declares.
func streamLike(name string) amqp.Table {
	q, _ := bus.OwnQueue(bus.ProfileQuorum, name)
	return amqp.Table{
		"x-queue-type": "stream", "x-max-age": fmt.Sprintf("%.0fs", q.MaxAge.Seconds()),
		"x-max-length-bytes": q.MaxBytes, "x-stream-max-segment-size-bytes": q.SegmentBytes,
	}
}

// readResults counts the results in a stream: until all have been seen, and a while
// longer for what should not be there. (How much a stream holds the broker tells
// only now and then.)
func (b *broker) readResults(stream string, t *tally) error {
	channel, err := b.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	deliveries, err := consumeStream(channel, stream, "first", readPrefetch)
	if err != nil {
		return err
	}
	quiet := time.NewTimer(drainTimeout)
	defer quiet.Stop()
	for {
		select {
		case d, more := <-deliveries:
			if !more {
				return fmt.Errorf("the broker stopped delivering from %s", stream)
			}
			if d.Type == bus.StreamResult { // not a fence of the service
				t.count(d.MessageId)
			}
			if err := acknowledgeSome(d); err != nil {
				return err
			}
			if t.arrived == len(t.seen) {
				quiet.Reset(afterwork)
			} else {
				quiet.Reset(drainTimeout)
			}
		case <-quiet.C:
			if err := channel.Close(); err != nil {
				return fmt.Errorf("stop reading %s: %w", stream, err)
			}
			return nil
		}
	}
}
