package amqpbus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

// TestQueueThatDoesNotAnswer: RabbitMQ says of a quorum queue that does not answer in time, as it may be after
// a restart or on a busy machine, that it has neither messages nor consumers. Such an answer deletes nothing.
func TestQueueThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	const queue = "task.lane.g"
	s := open(t, config(t, b.URL),
		bus.SessionSpec{Name: "mute", Topology: bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{bus.LaneQueue("g")}}})
	b.Publish(t, "", queue, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("t")})
	// The queue's process says nothing for so long, which the broker itself measures: rabbitmqctl takes seconds
	// to end on a busy machine. When it has ended too late, more time is given.
	mute := func(d time.Duration) bool {
		toQueue(t, b, queue,
			fmt.Sprintf("sys:suspend(P), spawn(fun() -> timer:sleep(%d), sys:resume(P) end)", d.Milliseconds()))
		depth, err := s.Depth(t.Context(), queue)
		return err == nil && depth == bus.Depth{}
	}
	const most = 32 * time.Second
	for d := 2 * time.Second; !mute(d); d *= 2 {
		if d >= most {
			t.Fatal(
				"the broker tells the depth of a queue that does not answer: it has become better than this test takes it for")
		}
	}
	if gone, err := s.DropQueue(t.Context(), queue); gone || err != nil && !errors.Is(err, bus.ErrUnanswered) {
		t.Errorf("DropQueue = %v, %v, want false, nil or ErrUnanswered", gone, err)
	}
	eventually(t, "the message to be found", func() bool {
		some, err := s.Holds(t.Context(), queue)
		if err != nil && !errors.Is(err, bus.ErrUnanswered) {
			t.Fatal(err)
		}
		return some
	})
	// Holds has given it back, which nothing confirms; and the number comes from the queue that was slow to answer.
	eventually(t, "the message to be in the queue", func() bool { return b.Ready(t, queue) == 1 })
}

// TestQueueWithoutAnswerCostsTheSessionNothing: a quorum queue without a leader keeps basic.get and basic.consume
// waiting. Other queues of the session go on, longer than a request may take, and the queue itself when it is back.
func TestQueueWithoutAnswerCostsTheSessionNothing(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	cfg := config(t, b.URL)
	cfg.RequestTimeout = time.Second
	s := open(t, cfg, bus.SessionSpec{Name: "t", Topology: quorum("mute", "other")})
	publishAll(t, s, "mute", 0, 1)
	eventually(t, "the message to be in the queue", func() bool { return b.Ready(t, "mute") == 1 })
	suspend(t, b, "mute")
	came := make(chan bus.Delivery, 16)
	take := func(queue string) error {
		return s.Subscribe(t.Context(), bus.Subscription{
			Queue: queue, Prefetch: 1, OnEnded: func(error) {}, Handle: func(d bus.Delivery) { s.Ack(d.Tag); came <- d },
		})
	}
	if _, err := s.Holds(t.Context(), "mute"); !errors.Is(err, bus.ErrUnanswered) {
		t.Errorf("Holds: %v, want ErrUnanswered", err)
	}
	for range 3 { // at once: the first request has not been answered yet
		if err := take("mute"); !errors.Is(err, bus.ErrUnanswered) {
			t.Errorf("Subscribe: %v, want ErrUnanswered", err)
		}
	}
	if some, err := s.Holds(t.Context(), "other"); some || err != nil {
		t.Errorf("Holds of the other queue: %v, %v, want false, nil", some, err)
	}
	if err := take("other"); err != nil {
		t.Fatal(err)
	}
	publishAll(t, s, "other", 0, 1)
	if d := within(t, "a delivery of the other queue", came); d.Queue != "other" {
		t.Errorf("a delivery of %s, want other", d.Queue)
	}
	toQueue(t, b, "mute", "sys:resume(P)")
	eventually(t, "the queue to be consumed", func() bool { return take("mute") == nil })
	if d := within(t, "the message", came); d.Queue != "mute" || d.Redelivered {
		t.Errorf("%s, redelivered %v; want mute, false: no consumer has had it", d.Queue, d.Redelivered)
	}
	select {
	case <-s.Done():
		t.Errorf("the session has ended: %v", s.Err())
	default:
	}
}
