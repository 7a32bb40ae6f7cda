package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

// unanswered is how long an agent waits for a confirm, as the SDK does.
const unanswered = 30 * time.Second

// teller publishes the results of a session and knows which of them are in task.result: a broker that
// stops or starts confirms some that it could not route, too, and returns them first.
type teller struct {
	ch      *amqp.Channel
	returns chan amqp.Return // room for everything that may be under way: the library blocks on it

	mu       sync.Mutex
	returned map[string]bool // ids of messages
}

func newTeller(ch *amqp.Channel, underWay int) *teller {
	return &teller{ch: ch, returns: ch.NotifyReturn(make(chan amqp.Return, underWay)), returned: map[string]bool{}}
}

// publish tells whether the message is in the queue.
func (t *teller) publish(ctx context.Context, queue string, m amqp.Publishing) bool {
	confirm, err := t.ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, m)
	if err != nil {
		return false
	}
	waiting, stop := context.WithTimeout(ctx, unanswered)
	defer stop()
	ok, err := confirm.WaitContext(waiting)
	return ok && err == nil && !t.unroutable(m.MessageId)
}

// unroutable tells whether a confirmed message has been returned.
func (t *teller) unroutable(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.returns) > 0 {
		t.returned[(<-t.returns).MessageId] = true
	}
	return t.returned[id]
}

// TestReturnedResultIsNotTold: of messages that all are confirmed, those count as told that were routed.
func TestReturnedResultIsNotTold(t *testing.T) {
	b := brokertest.Vhost(t)
	b.DeclareQueue(t, bus.StreamResult, nil)
	ch, err := b.Dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	const each = 50
	teller := newTeller(ch, 2*each)
	var publishers sync.WaitGroup
	for queue, want := range map[string]bool{bus.StreamResult: true, "none": false} {
		for i := range each {
			publishers.Go(func() {
				m := persistent([]byte("{}"))
				m.MessageId = fmt.Sprint(queue, "-", i)
				if got := teller.publish(t.Context(), queue, m); got != want {
					t.Errorf("%s: told %t, want %t", m.MessageId, got, want)
				}
			})
		}
	}
	publishers.Wait()
}
