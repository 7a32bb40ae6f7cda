package main

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// marker is a queue that says: this broker belongs to the benchmark.
const marker = "taskbus.bench"

// broker is our own connection, for everything but the work that is measured.
// It belongs to one goroutine.
type broker struct {
	conn    *amqp.Connection
	channel *amqp.Channel
	version string
}

// dial connects under a name that operators see. The error never holds the URL.
func dial(url, name string) (*amqp.Connection, *amqp.Channel, error) {
	uri, err := amqp.ParseURI(url)
	if err != nil {
		return nil, nil, errors.New("RABBITMQ_URL (not shown) is not a broker URL; write amqp://user:password@host:5672/vhost")
	}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName("taskbus-bench-" + name)
	conn, err := amqp.DialConfig(url, amqp.Config{Properties: properties})
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the broker at %s:%d: %w", uri.Host, uri.Port, err)
	}
	channel, err := conn.Channel()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open a channel: %w", err), conn.Close())
	}
	return conn, channel, nil
}

// openBroker connects and makes sure that the broker may be emptied.
func openBroker(url string) (*broker, error) {
	conn, channel, err := dial(url, "admin")
	if err != nil {
		return nil, err
	}
	b := &broker{conn: conn, channel: channel}
	b.version, _ = conn.Properties["version"].(string)
	if err := b.own(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return b, nil
}

func (b *broker) close() error { return b.conn.Close() }

// own marks the broker as ours, unless a coordinator has used it before.
func (b *broker) own() error {
	ours, err := b.exists(marker)
	if err != nil || ours {
		return err
	}
	used, err := b.exists(bus.QueueAssign)
	if err != nil {
		return err
	}
	if used {
		return fmt.Errorf("the broker has a queue %s and is not the benchmark's own, which empties it: start another with scripts/broker.sh start --dir .run/bench-broker", bus.QueueAssign)
	}
	_, err = b.channel.QueueDeclare(marker, true, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("declare the queue %s: %w", marker, err)
	}
	return nil
}

func (b *broker) exists(queue string) (bool, error) {
	probe, err := b.conn.Channel()
	if err != nil {
		return false, fmt.Errorf("open a channel: %w", err)
	}
	_, err = probe.QueueDeclarePassive(queue, true, false, false, false, nil)
	var reply *amqp.Error
	if errors.As(err, &reply) && reply.Code == amqp.NotFound {
		return false, nil // the broker has closed the channel
	}
	if err != nil {
		return false, fmt.Errorf("look for the queue %s: %w", queue, err)
	}
	return true, probe.Close()
}

// clean deletes whatever an earlier run has left.
func (b *broker) clean() error { return b.remove(everyQueue()) }

func (b *broker) remove(queues []string) error {
	for _, queue := range queues {
		if _, err := b.channel.QueueDelete(queue, false, false, false); err != nil {
			return fmt.Errorf("delete the queue %s: %w", queue, err)
		}
	}
	return nil
}

func (b *broker) declare(queues ...string) error {
	for _, queue := range queues {
		if _, err := b.channel.QueueDeclare(queue, true, false, false, false, quorum()); err != nil {
			return fmt.Errorf("declare the queue %s: %w", queue, err)
		}
	}
	return nil
}

// ready is how many messages wait in the queues together. Each costs the broker
// one small request.
func (b *broker) ready(queues ...string) (int, error) {
	total := 0
	for _, queue := range queues {
		q, err := b.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return 0, fmt.Errorf("look at the queue %s: %w", queue, err)
		}
		total += q.Messages
	}
	return total, nil
}

// awaitReady gives a queue time to have n messages again: what a consumer that has
// left held comes back a moment later. It returns how many there are.
func (b *broker) awaitReady(queue string, n int) (int, error) {
	for end := time.Now().Add(drainTimeout); ; time.Sleep(inputPoll) {
		ready, err := b.ready(queue)
		if err != nil || ready == n || time.Now().After(end) {
			return ready, err
		}
	}
}

// fill publishes the tasks from number first to first+n-1 and returns when the
// broker has confirmed them all.
func (b *broker) fill(queue string, first, n int) error {
	return b.fillWith(queue, first, n, task)
}

func (b *broker) fillWith(queue string, first, n int, task func(int) amqp.Publishing) error {
	f, err := b.feed(queue)
	if err != nil {
		return err
	}
	for i := range n {
		if err := f.send(task(first + i)); err != nil {
			return errors.Join(err, f.close())
		}
	}
	return f.close()
}

// drainTimeout is how long the next message of a queue may take.
const drainTimeout = 10 * time.Second

// drain takes every message out of the queues and counts it.
func (b *broker) drain(queues []string, t *tally) error {
	for _, queue := range queues {
		for {
			n, err := b.ready(queue)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			if err := b.take(queue, n, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// take consumes n messages on a channel of its own: closing it gives back what
// was sent beyond that.
func (b *broker) take(queue string, n int, t *tally) error {
	channel, err := b.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume %s: %w", queue, err)
	}
	timeout := time.NewTimer(drainTimeout)
	defer timeout.Stop()
	const batch = 500 // below the 2,000 that a broker sends ahead
	for i := range n {
		timeout.Reset(drainTimeout)
		select {
		case d, ok := <-deliveries:
			if !ok {
				return fmt.Errorf("the broker stopped delivering from %s", queue)
			}
			t.count(d.MessageId)
			if i%batch == batch-1 || i == n-1 {
				if err := d.Ack(true); err != nil {
					return fmt.Errorf("acknowledge what came from %s: %w", queue, err)
				}
			}
		case <-timeout.C:
			return fmt.Errorf("%s holds messages that the broker does not deliver", queue)
		}
	}
	return channel.Close()
}

// tally counts the arrivals of the tasks 0 to n-1.
type tally struct {
	seen    []bool
	arrived int
	twice   int
	strange int // messages that are no task of ours
}

func newTally(n int) *tally { return &tally{seen: make([]bool, n)} }

// count notes one arrival and gives the task's number; false when it is a second
// one or no task of ours.
func (t *tally) count(messageID string) (int, bool) {
	n, ok := taskNumber(messageID)
	switch {
	case !ok || n >= len(t.seen):
		t.strange++
		return 0, false
	case t.seen[n]:
		t.twice++
		return 0, false
	}
	t.seen[n] = true
	t.arrived++
	return n, true
}

// complete is nil when every task has arrived once and nothing else has.
func (t *tally) complete() error {
	if t.arrived == len(t.seen) && t.twice == 0 && t.strange == 0 {
		return nil
	}
	return &countError{sent: len(t.seen), arrived: t.arrived, twice: t.twice, strange: t.strange}
}

// countError says that tasks were lost or came more than once.
type countError struct{ sent, arrived, twice, strange int }

func (e *countError) Error() string {
	return fmt.Sprintf("%d tasks in, %d different ones out: %d lost, %d arrived again, %d messages that are no task of this run",
		e.sent, e.arrived, e.sent-e.arrived, e.twice, e.strange)
}
