package amqpbus_test

import (
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
		b.Ctl(t, "eval", fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"%s">>, queue, <<"%s">>)), {P, _} = amqqueue:get_pid(Q),
			sys:suspend(P), spawn(fun() -> timer:sleep(%d), sys:resume(P) end).`, b.VHost, queue, d.Milliseconds()))
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
	if gone, err := s.DropQueue(t.Context(), queue); gone || err != nil {
		t.Errorf("DropQueue = %v, %v, want false, nil", gone, err)
	}
	if some, err := s.Holds(t.Context(), queue); !some || err != nil {
		t.Errorf("Holds = %v, %v, want true, nil", some, err)
	}
	// Holds has given it back, which nothing confirms; and the number comes from the queue that was slow to answer.
	eventually(t, "the message to be in the queue", func() bool { return b.Ready(t, queue) == 1 })
}
