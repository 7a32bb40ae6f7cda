package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/agent"
	"taskbus/coordinator/bus"
)

// Slots of the agents whose end is measured, and how often they report.
const (
	victimSlots    = 10
	victimInterval = time.Second
)

// plainAgent is an agent that sends nothing but heartbeats, and takes one message at
// a time and never ends with it: so all but one of its tasks wait in its queue. A
// line of in, whatever it says, makes it report itself offline, which is answered
// with "ok"; it also does so at the end of ctx, before it leaves.
func plainAgent(ctx context.Context, url, id string, in io.Reader, out io.Writer) (err error) {
	conn, channel, err := dial(url, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := errors.Join(channel.Confirm(false), channel.Qos(1, 0, false)); err != nil {
		return fmt.Errorf("prepare the channel: %w", err)
	}
	if _, err := channel.Consume("agent."+id, "", false, false, false, false, nil); err != nil {
		return fmt.Errorf("consume agent.%s: %w", id, err)
	}
	orders := make(chan struct{})
	go func() {
		defer close(orders)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			orders <- struct{}{}
		}
	}()
	if err := heartbeat(channel, id, "ready"); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("say that %s is ready: %w", id, err)
	}
	word := "ready"
	ticker := time.NewTicker(victimInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case _, more := <-orders:
			if !more {
				return heartbeat(channel, id, "offline")
			}
			word = "offline"
			if _, err := fmt.Fprintln(out, "ok"); err != nil {
				return fmt.Errorf("answer the order: %w", err)
			}
		case <-ctx.Done():
			return heartbeat(channel, id, "offline")
		}
		if err := heartbeat(channel, id, word); err != nil {
			return err
		}
	}
}

// heartbeat sends one, and waits for its confirm. The agent says that it is idle:
// what it has in hand it does not work on, and all its tasks are to be its own.
func heartbeat(channel *amqp.Channel, id, word string) error {
	confirm, err := channel.PublishWithDeferredConfirm("", bus.StreamStatus, true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, ContentType: "application/json", Type: "agent.status",
		Body: status(id, word, report{available: victimSlots}, time.Now()),
	})
	if err != nil {
		return fmt.Errorf("publish to %s: %w", bus.StreamStatus, err)
	}
	if !confirm.Wait() {
		return fmt.Errorf("the broker did not confirm a heartbeat of %s", id)
	}
	return nil
}

// sdkAgent is one agent of the SDK. The handlers of a rescuer do nothing, those of a
// holder never end of themselves.
func sdkAgent(ctx context.Context, url, role, id string, out io.Writer) error {
	slots, handle := rescueSlots, func(context.Context, *agent.Task) (agent.Result, error) { return agent.Result{}, nil }
	if role == "holder" {
		slots, handle = victimSlots, func(ctx context.Context, _ *agent.Task) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, context.Cause(ctx)
		}
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("say that %s is starting: %w", id, err)
	}
	return agent.Run(ctx, agent.Config{ID: id, URL: url, Slots: slots, Interval: victimInterval}, handle)
}
