package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/schemas"
)

// witness hears what happens to victims and their tasks, from the broker. It
// belongs to one goroutine.
type witness struct {
	conn    *amqp.Connection
	victims []*victim
	results <-chan amqp.Delivery
	events  <-chan amqp.Delivery
	ended   map[int]bool         // tasks with a result, by number
	last    map[string]time.Time // when the latest result of a task of that victim came
	left    map[string]time.Time // when it was announced to have left
}

func newWitness(url string, all []*victim) (*witness, error) {
	conn, channel, err := dial(url, "witness")
	if err != nil {
		return nil, err
	}
	w := &witness{conn: conn, victims: all, ended: make(map[int]bool), last: make(map[string]time.Time), left: make(map[string]time.Time)}
	if w.results, err = consumeStream(channel, bus.StreamResult, "next", readPrefetch); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	if err == nil {
		err = channel.QueueBind(queue.Name, schemas.AgentOffline+".#", bus.ExchangeEvents, false, nil)
	}
	if err == nil {
		w.events, err = channel.Consume(queue.Name, "", true, true, false, false, nil)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen to %s: %w", bus.ExchangeEvents, err), conn.Close())
	}
	return w, nil
}

// until listens until it is so.
func (w *witness) until(ctx context.Context, what string, is func() bool) error {
	late := time.After(detectionTimeout)
	for !is() {
		select {
		case d, more := <-w.results:
			if !more {
				return fmt.Errorf("the broker stopped delivering from %s", bus.StreamResult)
			}
			w.result(d, time.Now())
		case d, more := <-w.events:
			if !more {
				return fmt.Errorf("the broker stopped delivering from %s", bus.ExchangeEvents)
			}
			w.left[strings.TrimPrefix(d.RoutingKey, schemas.AgentOffline+".")] = time.Now()
		case <-late:
			return fmt.Errorf("waited %s in vain for %s", detectionTimeout, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// untilRedone waits for the results of all tasks that were ready in the victim's
// queue.
func (w *witness) untilRedone(ctx context.Context, v *victim) error {
	return w.until(ctx, "the waiting tasks of "+v.id, func() bool { return w.done(v) >= victimSlots-v.handed() })
}

func (w *witness) result(d amqp.Delivery, at time.Time) {
	n, ours := taskNumber(d.MessageId)
	if !ours || d.Type != bus.StreamResult {
		return
	}
	w.ended[n] = true
	for _, v := range w.victims {
		if n >= v.first && n < v.first+victimSlots {
			w.last[v.id] = at
		}
	}
}

// done is how many tasks of the victim have a result.
func (w *witness) done(v *victim) int {
	done := 0
	for n := v.first; n < v.first+victimSlots; n++ {
		if w.ended[n] {
			done++
		}
	}
	return done
}
