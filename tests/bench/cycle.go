package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/agent"
	"taskbus/coordinator/bus"
)

// cycleRun is the whole way of tasks, from task.assign to task.result, with agents
// made by the SDK.
type cycleRun struct {
	Tasks int `json:"tasks"`
	Slots int `json:"slots_of_each_agent"`
	// Seconds from the release of a backlog to the moment the service had counted
	// the last result.
	Seconds     float64 `json:"seconds"`
	TasksPerSec float64 `json:"tasks_per_second"`
	// CPU time of the service and of the process that all agents share.
	CPUMicros       float64 `json:"cpu_microseconds_per_task"`
	AgentsCPUMicros float64 `json:"agents_cpu_microseconds_per_task"`
	// Latency of a steady trickle, from the moment a task is due to that at which
	// its result is read in task.result.
	Latency latencyRun `json:"latency"`
}

// cycleSlots is how many tasks each agent of the cycle may have at once.
const cycleSlots = 10

// sdkFleet runs agents of the SDK whose handlers do nothing for so long (empty: not at all). It says
// "ready" at once: each is online when the service says so.
func sdkFleet(ctx context.Context, url, takes string, out io.Writer) error {
	var work time.Duration
	if takes != "" {
		var err error
		if work, err = time.ParseDuration(takes); err != nil {
			return fmt.Errorf("read how long a task takes: %w", err)
		}
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("say that the agents are starting: %w", err)
	}
	done := func(context.Context, *agent.Task) (agent.Result, error) {
		time.Sleep(work)
		return agent.Result{}, nil
	}
	var group sync.WaitGroup
	faults := make([]error, fleetSize)
	for i := range faults {
		group.Go(func() {
			faults[i] = agent.Run(ctx, agent.Config{ID: agentID(i), URL: url, Slots: cycleSlots}, done)
		})
	}
	group.Wait()
	return errors.Join(faults...)
}

// startCycle runs the service with this agents.yaml, and the fleet. env adds to the environment of the service.
func (b *bench) startCycle(ctx context.Context, fleet []byte, env ...string) (s *subject, agents *process, err error) {
	if err := b.broker.clean(); err != nil {
		return nil, nil, err
	}
	if s, err = launchTaskbus(ctx, b, fleet, env...); err != nil {
		return nil, nil, err
	}
	if agents, err = s.with(ctx, b, "fleet"); err == nil {
		err = s.awaitOnline(ctx, fleetSize)
	}
	if err != nil {
		s.abandon()
		return nil, nil, err
	}
	return s, agents, nil
}

// cycle measures the whole way: a backlog of n tasks, and then, with the same
// processes, a trickle of the given length.
func (b *bench) cycle(ctx context.Context, n int, length time.Duration) (run cycleRun, err error) {
	s, agents, err := b.startCycle(ctx, fleetFile(cycleSlots, skills))
	if err != nil {
		return run, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	run = cycleRun{Tasks: n, Slots: cycleSlots}
	_, c := contenders()
	if err := b.cycleBacklog(ctx, s, agents, c, &run); err != nil {
		return run, err
	}
	extra := int(length.Seconds() * float64(latencyRate))
	all := newTally(n + extra)
	samples, err := b.cycleTrickle(ctx, n, extra)
	if err != nil {
		return run, err
	}
	run.Latency = summarise("cycle", samples)
	if err := s.awaitCounted(ctx, n+extra); err != nil {
		return run, err
	}
	if err := s.verifyCounted(ctx, uint64(n+extra)); err != nil {
		return run, err
	}
	if err := s.stop(); err != nil {
		return run, err
	}
	return run, b.verifyResults(c, bus.StreamResult, all)
}

// cycleBacklog has the fleet work off run.Tasks tasks of the contender.
func (b *bench) cycleBacklog(ctx context.Context, s *subject, agents *process, c contender, run *cycleRun) error {
	before, err := b.prepareBacklog(s, c, run.Tasks)
	if err != nil {
		return err
	}
	agentsBefore, err := agents.stat()
	if err != nil {
		return err
	}
	released := time.Now()
	if err := s.thaw(); err != nil {
		return err
	}
	if err := b.awaitTaken(ctx, s, c); err != nil {
		return err
	}
	if err := s.awaitCounted(ctx, run.Tasks); err != nil {
		return err
	}
	elapsed := time.Since(released)
	time.Sleep(afterwork)
	run.Seconds, run.TasksPerSec = elapsed.Seconds(), float64(run.Tasks)/elapsed.Seconds()
	if run.CPUMicros, err = s.process.cpuPer(run.Tasks, before); err != nil {
		return err
	}
	run.AgentsCPUMicros, err = agents.cpuPer(run.Tasks, agentsBefore)
	return err
}

// cycleTrickle publishes n tasks from number first on, at an even pace, and times
// their results.
func (b *bench) cycleTrickle(ctx context.Context, first, n int) (samples []time.Duration, err error) {
	conn, channel, err := dial(b.url, "results")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	deliveries, err := consumeStream(channel, bus.StreamResult, "next", readPrefetch)
	if err != nil {
		return nil, err
	}
	begin := time.Now().Add(100 * time.Millisecond)
	due := func(i int) time.Time { return begin.Add(time.Duration(i-first) * time.Second / latencyRate) }
	published := make(chan error, 1)
	go func() { published <- b.trickle(ctx, bus.QueueAssign, first, n, due) }()

	late := time.NewTimer(time.Until(due(first+n)) + lastArrival)
	defer late.Stop()
	for len(samples) < n {
		select {
		case d, more := <-deliveries:
			at := time.Now()
			if !more {
				return nil, fmt.Errorf("the broker stopped delivering from %s", bus.StreamResult)
			}
			// Whether each comes once is counted afterwards.
			if i, ours := taskNumber(d.MessageId); ours && d.Type == bus.StreamResult {
				samples = append(samples, at.Sub(due(i)))
			}
			err = acknowledgeSome(d)
		case err = <-published:
			published = nil
		case <-late.C:
			err = fmt.Errorf("%d of %d tasks have a result", len(samples), n)
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
	if published != nil {
		err = <-published
	}
	return samples, err
}

// acknowledgeSome asks a stream for more, now and then.
func acknowledgeSome(d amqp.Delivery) error {
	if d.DeliveryTag%readAckBatch != 0 {
		return nil
	}
	if err := d.Ack(true); err != nil {
		return fmt.Errorf("acknowledge results: %w", err)
	}
	return nil
}
