package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/agent"
	"taskbus/coordinator/bus"
)

// What works beside the service, with as little work as it can have: the relay, and kinds of agents.

var errNoDeliveries = errors.New("the broker stopped delivering")

// mover publishes what comes in elsewhere, confirmed, and acknowledges it then: as good as a plain, careful program
// gets with the library as it is. Publishing and consuming have a connection each, as the library recommends; confirms
// are pipelined; acknowledgements go out for many at once, and at once when nothing else is to be done.
type mover struct {
	consume *amqp.Channel
	window  chan moved
}

type moved struct {
	confirm *amqp.DeferredConfirmation
	tag     uint64
}

// move runs until ctx ends: the n-th message of a queue goes where to says.
func move(ctx context.Context, url string, queues []string, ahead int,
	to func(n int, queue string, d amqp.Delivery) (string, amqp.Publishing), ready func()) {
	publish := connect(ctx, url, "publishing")
	// Never full: the broker sends no more than that unacknowledged.
	m := &mover{connect(ctx, url, "consuming"), make(chan moved, ahead*len(queues))}
	check(errors.Join(publish.Confirm(false), m.consume.Qos(ahead, 0, false)))
	returned, ended := publish.NotifyReturn(make(chan amqp.Return, prefetch)), make(chan error, len(queues)+1)
	for _, queue := range queues {
		deliveries := must(m.consume.Consume(queue, "", false, false, false, false, nil))
		go func() {
			ended <- caught(func() {
				n := 0
				for d := range deliveries {
					key, p := to(n, queue, d)
					m.window <- moved{must(publish.PublishWithDeferredConfirm("", key, true, false, p)), d.DeliveryTag}
					n++
				}
				check(errNoDeliveries)
			})
		}()
	}
	go func() { ended <- caught(m.settle) }()
	ready()
	select {
	case <-ctx.Done():
	case r := <-returned:
		panic(fmt.Errorf("the queue %s does not exist", r.RoutingKey))
	case err := <-ended:
		check(err)
	}
}

// settle waits for the confirms and acknowledges up to the highest tag of them. Of several queues a lower one may not
// be confirmed then: that it is lost would show at the end of the run.
func (m *mover) settle() {
	var confirmed, acknowledged uint64
	acknowledge := func(least uint64) {
		if confirmed >= acknowledged+least {
			acknowledged = confirmed
			check(m.consume.Ack(acknowledged, true))
		}
	}
	for {
		var s moved
		select {
		case s = <-m.window:
		default: // idle
			acknowledge(1)
			s = <-m.window
		}
		if !s.confirm.Wait() {
			panic(errors.New("the broker did not confirm a message"))
		}
		confirmed = max(confirmed, s.tag)
		acknowledge(100)
	}
}

// relayEnv is set where this test binary is the relay, as a process of its own.
const relayEnv = "TASKBUS_BENCH_RELAY"

// relay is that process: what comes into its input goes to the agents in turn.
func relay(ctx context.Context) {
	targets := queueNames(relayQueue, fleetSize)
	move(ctx, os.Getenv(brokerEnv), []string{relayInput}, prefetch,
		func(n int, _ string, d amqp.Delivery) (string, amqp.Publishing) {
			return targets[n%len(targets)], amqp.Publishing{
				DeliveryMode: amqp.Persistent, ContentType: d.ContentType, Type: d.Type, MessageId: d.MessageId,
				CorrelationId: d.CorrelationId, AppId: d.AppId, Timestamp: d.Timestamp, Body: d.Body,
			}
		}, func() {})
}

// light is the whole fleet: each agent answers what it gets with a task.result to the stream.
func light(stream string) helper {
	return func(ctx context.Context, r *rig, ready func()) {
		if stream == bareStream {
			must(r.channel.QueueDeclare(stream, true, false, false, false, streamLike(bus.StreamResult)))
		}
		move(ctx, r.url, queueNames(agentQueue, fleetSize), 50,
			func(_ int, queue string, d amqp.Delivery) (string, amqp.Publishing) {
				return stream, resultOf(strings.TrimPrefix(queue, "agent."), d, time.Now(), "")
			}, ready)
	}
}

// answering is light with an output of 1 KiB, to the service; r.ended has when each result was published.
func answering(ctx context.Context, r *rig, ready func()) {
	output := `,"output":{"text":"` + strings.Repeat("x", 1<<10-len(`{"text":""}`)) + `"}`
	move(ctx, r.url, queueNames(agentQueue, fleetSize), 50,
		func(_ int, queue string, d amqp.Delivery) (string, amqp.Publishing) {
			now := time.Now()
			if n, ok := taskNumber(d.MessageId); ok && n < len(r.ended) {
				r.ended[n].Store(now.UnixNano())
			}
			return bus.StreamResult, resultOf(strings.TrimPrefix(queue, "agent."), d, now, output)
		}, ready)
}

// streamLike are the arguments of one of the service's streams.
func streamLike(name string) amqp.Table {
	q, _ := bus.OwnQueue(bus.ProfileQuorum, name)
	return amqp.Table{"x-queue-type": "stream", "x-max-age": fmt.Sprintf("%.0fs", q.MaxAge.Seconds()),
		"x-max-length-bytes": q.MaxBytes, "x-stream-max-segment-size-bytes": q.SegmentBytes}
}

// resultOf is the task.result of a dispatch, by its properties alone; more are further fields.
func resultOf(agent string, d amqp.Delivery, now time.Time, more string) amqp.Publishing {
	task := d.MessageId // the task's id, its life and the attempt
	for range 2 {
		task = task[:max(0, strings.LastIndexByte(task, '.'))]
	}
	p := message(bus.StreamResult, fmt.Appendf(make([]byte, 0, 512+len(more)),
		`{"message_type":"task.result","task_id":%q,"agent_id":%q,"outcome":"succeeded","correlation_id":%q,`+
			`"timestamp":%q,"dispatch_id":%q,"duration_ms":0.25,"usage":{"requests":1,"input_tokens":1200,`+
			`"output_tokens":350,"cost_usd":0.0125,"provider":"example","model":"large-2"}%s}`,
		task, agent, d.CorrelationId, now.UTC().Format(time.RFC3339Nano), d.MessageId, more))
	p.MessageId, p.CorrelationId = d.MessageId, d.CorrelationId
	return p
}

// sdk is the whole fleet as agents of the SDK whose tasks take so long.
func sdk(takes time.Duration) helper {
	return func(ctx context.Context, r *rig, ready func()) {
		ready() // each is online when the service says so
		ended := make(chan error, fleetSize)
		for i := range fleetSize {
			go func() {
				ended <- agent.Run(ctx, agent.Config{ID: agentID(i), URL: r.url, Slots: sdkSlots},
					func(context.Context, *agent.Task) (agent.Result, error) {
						time.Sleep(takes)
						return agent.Result{}, nil
					})
			}()
		}
		for range fleetSize {
			check(<-ended)
		}
	}
}

// report is what all agents say of themselves, and how often.
type report struct {
	active, available int
	perSecond         int // of the whole fleet; 0: once, then silence
}

// statuses speaks for the whole fleet: for all at once when r.report changes, then in turn.
func statuses(ctx context.Context, r *rig, ready func()) {
	channel := connect(ctx, r.url, "statuses")
	var say *report
	var begun time.Time
	sent, next := 0, 0
	for ticker := time.Tick(10 * time.Millisecond); ctx.Err() == nil; <-ticker {
		if now := r.report.Load(); now != say {
			say, begun, sent = now, time.Now(), -fleetSize
		}
		for ; sent < int(time.Since(begun).Seconds()*float64(say.perSecond)); sent++ {
			beat(channel, agentID(next%fleetSize), *say)
			next++
		}
		ready()
	}
}

// beat publishes an agent.status.
func beat(channel *amqp.Channel, agent string, r report) {
	p := message(bus.StreamStatus, statusOf(agent, r, time.Now()))
	check(channel.Publish("", bus.StreamStatus, true, false, p))
}

func statusOf(agent string, r report, now time.Time) []byte {
	load := float64(r.active) / float64(max(1, r.active+r.available))
	return fmt.Appendf(nil, `{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":%g,`+
		`"active_tasks":%d,"available_capacity":%d,"timestamp":%q}`,
		agent, load, r.active, r.available, now.UTC().Format(time.RFC3339Nano))
}
