package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// latencyRun is a steady trickle of tasks, timed from publish to delivery.
type latencyRun struct {
	Subject   string  `json:"subject"`
	Tasks     int     `json:"tasks"`
	PerSecond int     `json:"tasks_per_second"`
	P50Millis float64 `json:"p50_ms"`
	P99Millis float64 `json:"p99_ms"`
	MaxMillis float64 `json:"max_ms"`
}

// arrival is a task as an agent gets it.
type arrival struct {
	messageID string
	at        time.Time
}

const lastArrival = 10 * time.Second // how long the last tasks may take

// latency publishes tasks at an even pace whatever becomes of them (an open loop)
// and times each from the moment at which it was due, so that a producer that is
// held up counts as delay. One process publishes and consumes: there is one clock.
func (b *bench) latency(ctx context.Context, c contender, length time.Duration) (run latencyRun, err error) {
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
	if err := s.say(unlimited(statusRate)); err != nil {
		return run, err
	}
	conn, channel, err := dial(b.url, "agents")
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	arrivals, err := consumeAll(channel, c.queues)
	if err != nil {
		return run, err
	}

	n := int(length.Seconds() * float64(latencyRate))
	begin := time.Now().Add(100 * time.Millisecond)
	due := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / latencyRate) }
	published := make(chan error, 1)
	go func() { published <- b.trickle(ctx, c.input, 0, n, due) }()

	t := newTally(n)
	samples := make([]time.Duration, 0, n)
	late := time.NewTimer(length + lastArrival)
	defer late.Stop()
	for t.arrived < n {
		select {
		case a := <-arrivals:
			if i, first := t.count(a.messageID); first {
				samples = append(samples, a.at.Sub(due(i)))
			}
			continue
		case err = <-published:
			published = nil
		case <-late.C:
			err = fmt.Errorf("%s: %w", c.name, t.complete())
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return run, err
		}
	}
	if published != nil {
		if err := <-published; err != nil {
			return run, err
		}
	}
	time.Sleep(afterwork) // the last confirms and acknowledgements
	if err := s.stop(); err != nil {
		return run, err
	}
	// What comes twice comes late: nothing may be left, nothing still be coming.
	if err := b.verifyTrickle(c, arrivals, t); err != nil {
		return run, err
	}
	return summarise(c.name, samples), nil
}

// trickle publishes n tasks from number first on, each when it is due, and returns
// when all are confirmed: what is not confirmed may be lost with its connection, and would
// be counted as lost by the one under test.
func (b *bench) trickle(ctx context.Context, queue string, first, n int, due func(int) time.Time) error {
	return b.trickleWith(ctx, queue, first, n, due, task)
}

// trickleWith is trickle with tasks of another making.
func (b *bench) trickleWith(ctx context.Context, queue string, first, n int, due func(int) time.Time, task func(int) amqp.Publishing) error {
	conn, channel, err := dial(b.url, "producer")
	if err != nil {
		return err
	}
	err = trickleOver(ctx, channel, queue, first, n, due, task)
	return errors.Join(err, conn.Close())
}

func trickleOver(ctx context.Context, channel *amqp.Channel, queue string, first, n int, due func(int) time.Time, task func(int) amqp.Publishing) error {
	if err := channel.Confirm(false); err != nil {
		return fmt.Errorf("switch on confirms: %w", err)
	}
	confirms := make([]*amqp.DeferredConfirmation, n)
	for i := range confirms {
		time.Sleep(time.Until(due(first + i)))
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := channel.PublishWithDeferredConfirm("", queue, true, false, task(first+i))
		if err != nil {
			return fmt.Errorf("publish a task to %s: %w", queue, err)
		}
		confirms[i] = c
	}
	for _, c := range confirms {
		if !c.Wait() {
			return fmt.Errorf("the broker did not confirm a task for %s", queue)
		}
	}
	return nil
}

// consumeAll is every agent at once: each takes what it gets.
func consumeAll(channel *amqp.Channel, queues []string) (<-chan arrival, error) {
	arrivals := make(chan arrival, 1000)
	for _, queue := range queues {
		deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
		if err != nil {
			return nil, fmt.Errorf("consume %s: %w", queue, err)
		}
		go func() {
			for d := range deliveries {
				arrivals <- arrival{d.MessageId, time.Now()}
			}
		}()
	}
	return arrivals, nil
}

// verifyTrickle looks for second copies and for what was left or set aside.
func (b *bench) verifyTrickle(c contender, arrivals <-chan arrival, t *tally) error {
	quiet := time.After(afterwork)
	for waiting := true; waiting; {
		select {
		case a := <-arrivals:
			t.count(a.messageID)
		case <-quiet:
			waiting = false
		}
	}
	if err := t.complete(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return b.verifyEmpty(c)
}

// summarise makes the percentiles. samples is sorted in place.
func summarise(subject string, samples []time.Duration) latencyRun {
	slices.Sort(samples)
	millis := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return latencyRun{
		Subject: subject, Tasks: len(samples), PerSecond: latencyRate,
		P50Millis: millis(percentile(samples, 50)), P99Millis: millis(percentile(samples, 99)),
		MaxMillis: millis(percentile(samples, 100)),
	}
}
