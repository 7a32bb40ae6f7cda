package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// lightPrefetch is how many tasks a light agent may have at once.
const lightPrefetch = 50

// light plays the whole fleet with as little work as an agent can have: each takes
// what comes into its queue, publishes a task.result to the stream, confirmed, and
// then acknowledges the task. It says "ready" once all consume, "done" when n results
// are confirmed, which is when they can be read, and runs until ctx ends.
//
// As in the relay, publishing and consuming have a connection each, confirms are
// pipelined, and acknowledgements go out for many at once.
func light(ctx context.Context, url, stream string, n int, out io.Writer) error {
	publishing, publish, err := dial(url, "light-publishing")
	if err != nil {
		return err
	}
	consuming, consume, err := dial(url, "light-consuming")
	if err != nil {
		return errors.Join(err, publishing.Close())
	}
	if err := publish.Confirm(false); err != nil {
		return fmt.Errorf("switch on confirms: %w", err)
	}
	returned := publish.NotifyReturn(make(chan amqp.Return, fleetSize))
	if err := consume.Qos(lightPrefetch, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	// Never full: the broker sends no more than the prefetch of each unacknowledged.
	window := make(chan sent, fleetSize*lightPrefetch)
	ended := make(chan error, fleetSize+1)
	for i := range fleetSize {
		queue := taskbusQueue(i)
		deliveries, err := consume.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			return fmt.Errorf("consume %s: %w", queue, err)
		}
		go func() { ended <- work(publish, agentID(i), stream, deliveries, window) }()
	}
	go func() {
		ended <- settle(consume, window, func(confirmed int) error {
			if confirmed != n {
				return nil
			}
			_, err := fmt.Fprintln(out, "done")
			return err
		})
	}()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("say that the light agents are ready: %w", err)
	}
	select {
	case <-ctx.Done():
	case r := <-returned:
		err = fmt.Errorf("the stream %s does not exist", r.RoutingKey)
	case err = <-ended:
		err = errors.Join(err, errors.New("the broker stopped delivering"))
	}
	return errors.Join(err, consuming.Close(), publishing.Close())
}

// work is one agent. Whoever closes the connection ends it.
func work(publish *amqp.Channel, agent, stream string, deliveries <-chan amqp.Delivery, window chan<- sent) error {
	for d := range deliveries {
		confirm, err := publish.PublishWithDeferredConfirm("", stream, true, false, result(agent, d, time.Now()))
		if err != nil {
			return fmt.Errorf("publish a result to %s: %w", stream, err)
		}
		window <- sent{confirm, d.DeliveryTag}
	}
	return nil
}

// result is the task.result of a dispatch. What it needs is in the properties, so
// that nothing is decoded.
func result(agent string, d amqp.Delivery, now time.Time) amqp.Publishing {
	task := d.MessageId // the task's id, its life and the attempt
	for range 2 {
		task = task[:max(0, strings.LastIndexByte(task, '.'))]
	}
	return amqp.Publishing{
		DeliveryMode: amqp.Persistent, ContentType: "application/json", Type: "task.result",
		MessageId: d.MessageId, CorrelationId: d.CorrelationId,
		Body: fmt.Appendf(make([]byte, 0, 512),
			`{"message_type":"task.result","task_id":%q,"agent_id":%q,"outcome":"succeeded","correlation_id":%q,"timestamp":%q,"dispatch_id":%q,"duration_ms":0.25,`+
				`"usage":{"requests":1,"input_tokens":1200,"output_tokens":350,"cost_usd":0.0125,"provider":"example","model":"large-2"}}`,
			task, agent, d.CorrelationId, now.UTC().Format(time.RFC3339Nano), d.MessageId),
	}
}

// The bare reader asks for as much ahead as the service does.
const (
	readPrefetch = 2000
	readAckBatch = 500
)

// read takes every message of a stream and does nothing with it. It says "ready"
// once it consumes, "done" after n messages, and runs until ctx ends.
func read(ctx context.Context, url, stream string, n int, out io.Writer) (err error) {
	conn, channel, err := dial(url, "reader")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	deliveries, err := consumeStream(channel, stream, "first", readPrefetch)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("say that the reader is ready: %w", err)
	}
	for got := 1; ; got++ {
		var d amqp.Delivery
		var more bool
		select {
		case d, more = <-deliveries:
		case <-ctx.Done():
			return nil
		}
		if !more {
			return errors.New("the broker stopped delivering")
		}
		if got%readAckBatch == 0 || got == n {
			if err := d.Ack(true); err != nil {
				return fmt.Errorf("acknowledge what came from %s: %w", stream, err)
			}
		}
		if got == n {
			if _, err := fmt.Fprintln(out, "done"); err != nil {
				return fmt.Errorf("say that all was read: %w", err)
			}
		}
	}
}

// consumeStream reads a stream from "first" or "next".
func consumeStream(channel *amqp.Channel, stream, offset string, prefetch int) (<-chan amqp.Delivery, error) {
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return nil, fmt.Errorf("set the prefetch: %w", err)
	}
	deliveries, err := channel.Consume(stream, "", false, false, false, false, amqp.Table{"x-stream-offset": offset})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", stream, err)
	}
	return deliveries, nil
}
