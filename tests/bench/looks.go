package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// looksResult is what it costs the service to have a large fleet and to know at once of each
// agent that is killed: percent of a core, heartbeats included.
type looksResult struct {
	Agents      int     `json:"agents"`
	IdlePercent float64 `json:"idle_percent_of_a_core"`
	BusyPercent float64 `json:"with_one_open_task_each_percent_of_a_core"`
}

// The fleet of these runs: agents with one slot that report at the default interval.
const (
	looksAgents   = 1000
	looksInterval = 30 * time.Second
	looksPatience = 5                // times startTimeout
	looksSettle   = 10 * time.Second // for what follows the start or a dispatch
)

func looksID(i int) string { return fmt.Sprintf("look-%03d", i) }

func looksQueues() []string {
	all := make([]string, looksAgents)
	for i := range all {
		all[i] = "agent." + looksID(i)
	}
	return all
}

func looksFile() []byte {
	var b strings.Builder
	b.WriteString("agents:\n")
	for i := range looksAgents {
		fmt.Fprintf(&b, "  %s: {capabilities: [look], max_concurrent_tasks: 1, accept_timeout_seconds: 3600}\n", looksID(i))
	}
	b.WriteString("task_routing:\n  look: {required_capabilities: [look]}\n")
	return []byte(b.String())
}

// looks measures the CPU time of the service with the fleet idle, and with a task in each agent's hands.
func (b *bench) looks(ctx context.Context, watch time.Duration) (r looksResult, err error) {
	if err := b.broker.clean(); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.broker.remove(looksQueues())) }()
	s, err := launch(ctx, b, "taskbus", looksFile(), nil, func(s *subject) (err error) {
		for range looksPatience { // a thousand queues are declared first
			if err = s.await(ctx, "ready", func() (bool, error) { return s.ready(ctx) }); err == nil {
				break
			}
		}
		return err
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	for _, queue := range looksQueues() {
		err := s.await(ctx, "done declaring "+queue, func() (bool, error) { return b.broker.exists(queue) })
		if err != nil {
			return r, err
		}
	}
	if _, err := s.with(ctx, b, "crowd"); err != nil {
		return r, err
	}
	if err := s.awaitOnline(ctx, looksAgents); err != nil {
		return r, err
	}
	r.Agents = looksAgents
	if r.IdlePercent, err = s.percent(watch); err != nil {
		return r, err
	}
	one := func(n int) amqp.Publishing { return taskOf(n, "look") }
	if err := b.broker.fillWith(bus.QueueAssign, 0, looksAgents, one); err != nil {
		return r, err
	}
	err = s.await(ctx, "rid of all tasks", func() (bool, error) {
		status, err := s.status(ctx)
		return status.Counters.Dispatched == looksAgents && status.Counters.Held == 0, err
	})
	if err != nil {
		return r, err
	}
	r.BusyPercent, err = s.percent(watch)
	return r, err
}

// percent is the CPU time of the coming while, of a core.
func (s *subject) percent(watch time.Duration) (float64, error) {
	time.Sleep(looksSettle)
	before, err := s.process.stat()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	time.Sleep(watch)
	after, err := s.process.stat()
	return 100 * float64(after.cpu-before.cpu) / float64(time.Since(begun)), err
}

// crowd plays that fleet: each agent keeps the task that it gets. It runs until ctx ends.
func crowd(ctx context.Context, url string, out io.Writer) error {
	conn, channel, err := dial(url, "crowd")
	if err != nil {
		return err
	}
	if err := channel.Qos(1, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	holding := make([]<-chan amqp.Delivery, looksAgents)
	for i, queue := range looksQueues() {
		if holding[i], err = channel.Consume(queue, "", false, false, false, false, nil); err != nil {
			return fmt.Errorf("consume %s: %w", queue, err)
		}
	}
	active := make([]int, looksAgents)
	beat := func(i int) error {
		select {
		case <-holding[i]:
			active[i] = 1
		default:
		}
		return channel.PublishWithContext(ctx, "", bus.StreamStatus, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, ContentType: "application/json", Type: "agent.status",
			Body: status(looksID(i), "ready", report{active: active[i], available: 1 - active[i]}, time.Now()),
		})
	}
	for i := range looksAgents {
		if err := beat(i); err != nil {
			return fmt.Errorf("publish to %s: %w", bus.StreamStatus, err)
		}
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("say that the crowd is ready: %w", err)
	}
	ticker := time.NewTicker(looksInterval / looksAgents)
	defer ticker.Stop()
	for i := 0; ; i = (i + 1) % looksAgents {
		select {
		case <-ctx.Done():
			return conn.Close()
		case <-ticker.C:
		}
		if err := beat(i); err != nil {
			return fmt.Errorf("publish to %s: %w", bus.StreamStatus, err)
		}
	}
}
