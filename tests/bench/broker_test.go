package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

const (
	brokerEnv    = "TASKBUS_BENCH_BROKER" // the URL of a broker that every run empties
	relayInput   = "bench.assign"
	bareStream   = "bench.result"  // results that the service does not read
	answersQueue = "bench.answers" // of the producer
	prefetch     = 2000
)

// dial connects under a name that operators see. The error never holds the URL.
func dial(url, name string) (*amqp.Connection, error) {
	if _, err := amqp.ParseURI(url); err != nil {
		return nil, errors.New(brokerEnv + " (not shown) is no URL such as amqp://user:password@host:5672/vhost")
	}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName("taskbus-bench-" + name)
	return amqp.DialConfig(url, amqp.Config{Properties: properties})
}

// connect is a channel of a connection of its own, which ends with ctx.
func connect(ctx context.Context, url, name string) *amqp.Channel {
	conn := must(dial(url, name))
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return must(conn.Channel())
}

// version is the broker's.
func version(url string) string {
	conn := must(dial(url, "version"))
	defer func() { _ = conn.Close() }()
	said, _ := conn.Properties["version"].(string)
	return said
}

// clean deletes what an earlier run has left.
func (r *rig) clean() {
	for _, queue := range slices.Concat(queueNames(relayQueue, fleetSize), queueNames(agentQueue, fleetSize),
		[]string{relayInput, bareStream, answersQueue, bus.QueueAssign, bus.QueueAssignHigh, bus.QueueRequest,
			bus.QueueReassign, bus.QueueFailed, bus.QueueDead, bus.StreamStatus, bus.StreamResult, bus.StreamJournal}) {
		must(r.channel.QueueDelete(queue, false, false, false))
	}
}

// quorum are the arguments of a quorum queue like those of Taskbus.
var quorum = amqp.Table{"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-delivery-limit": int64(1000)}

// waiting is how many messages are ready in the queues together. Each costs the broker one small request.
func (r *rig) waiting(queues ...string) (total int) {
	for _, queue := range queues {
		total += must(r.channel.QueueDeclarePassive(queue, true, false, false, false, nil)).Messages
	}
	return total
}

// awaitWaiting returns when n messages are in the queues.
func (r *rig) awaitWaiting(n int, queues ...string) {
	r.await(r.service.process, "messages in queues", n, 0, func() int { return r.waiting(queues...) })
}

// fill publishes the tasks from number first on as fast as the broker confirms.
func (r *rig) fill(first, n int, task taskMaker) {
	check(r.publish(first, n, func(int) time.Time { return time.Time{} }, task), "fill the queue")
}

// publish sends each task when it is due, and returns when all are confirmed: what is not confirmed may be lost with
// its connection, and would be counted as lost by the service.
func (r *rig) publish(first, n int, due func(int) time.Time, task taskMaker) error {
	return caught(func() {
		ctx, disconnect := context.WithCancel(r.ctx)
		defer disconnect()
		channel := connect(ctx, r.url, "producer")
		check(channel.Confirm(false))
		window, failed := make(chan *amqp.DeferredConfirmation, prefetch), make(chan error, 1)
		go func() {
			var fault error
			for c := range window {
				if !c.Wait() {
					fault = errors.New("the broker did not confirm a task")
				}
			}
			failed <- fault
		}()
		for i := first; i < first+n && r.ctx.Err() == nil; i++ {
			time.Sleep(time.Until(due(i)))
			queue, p := task(i)
			if r.scenario.relay {
				queue = relayInput
			}
			window <- must(channel.PublishWithDeferredConfirm("", queue, true, false, p))
		}
		close(window)
		check(<-failed)
	})
}

// ear counts the arrivals of the tasks 0 to n-1, and times them.
type ear struct {
	due   func(int) time.Time
	class func(int) string // of a task, for its times; nil: all are of one
	skip  int              // the first tasks, which are counted and not timed

	mu      sync.Mutex
	seen    []bool
	arrived int
	twice   int
	strange int // messages that are no task of the run
	last    time.Time
	took    map[string][]time.Duration
}

func newEar(n int) *ear { return &ear{seen: make([]bool, n), took: make(map[string][]time.Duration)} }

func (e *ear) hear(messageID string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := taskNumber(messageID)
	switch {
	case !ok || n >= len(e.seen):
		e.strange++
		return
	case e.seen[n]:
		e.twice++
		return
	}
	e.seen[n], e.arrived, e.last = true, e.arrived+1, at
	if e.due != nil && n >= e.skip {
		class := ""
		if e.class != nil {
			class = e.class(n)
		}
		e.took[class] = append(e.took[class], at.Sub(e.due(n)))
	}
}

func (e *ear) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.arrived
}

// percentiles reports those of each class.
func (e *ear) percentiles(b *testing.B) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for class, took := range e.took {
		slices.Sort(took)
		for p, name := range map[int]string{50: "p50-ms", 99: "p99-ms", 100: "max-ms"} {
			b.ReportMetric(float64(percentile(took, p))/1e6, class+name)
		}
	}
}

// percentile is the smallest value that at least p per cent of the sorted values do not exceed (nearest rank).
func percentile[T any](sorted []T, p int) T { return sorted[max((len(sorted)*p+99)/100, 1)-1] }

// complete is nil when every task has arrived once and nothing else has.
func (e *ear) complete() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.arrived == len(e.seen) && e.twice == 0 && e.strange == 0 {
		return nil
	}
	return fmt.Errorf("%d tasks in, %d out: %d lost, %d arrived again, %d messages that are no task of this run",
		len(e.seen), e.arrived, len(e.seen)-e.arrived, e.twice, e.strange)
}

// consume hears what comes into queues, as it comes: acknowledged on arrival.
func (r *rig) consume(e *ear, queues ...string) {
	channel := connect(r.connection, r.url, "agents")
	for _, queue := range queues {
		deliveries := must(channel.Consume(queue, "", true, false, false, false, nil))
		go func() {
			for d := range deliveries {
				e.hear(d.MessageId, time.Now())
			}
		}()
	}
}

// listen hears the results in a stream, from "first" or "next" on.
func (r *rig) listen(e *ear, stream, offset string) {
	channel := connect(r.connection, r.url, "results")
	check(channel.Qos(prefetch, 0, false))
	deliveries := must(channel.Consume(stream, "", false, false, false, false, amqp.Table{"x-stream-offset": offset}))
	go func() {
		for d := range deliveries {
			if d.Type == bus.StreamResult { // not a fence of the service
				e.hear(d.MessageId, time.Now())
			}
			if d.DeliveryTag%500 == 0 && d.Ack(true) != nil {
				return // the run misses the rest
			}
		}
	}()
}
