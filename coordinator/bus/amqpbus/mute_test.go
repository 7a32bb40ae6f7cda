package amqpbus_test

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/tests/brokertest"
)

// TestQueueThatDoesNotAnswer: RabbitMQ says of a quorum queue that does not answer in time, as it may be after
// a restart or on a busy machine, that it has neither messages nor consumers. Such an answer deletes nothing.
func TestQueueThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	const queue = "task.lane.g"
	s := open(t, config(t, b.URL), bus.SessionSpec{Name: "mute", Topology: bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{bus.LaneQueue("g")}}})
	b.Publish(t, "", queue, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("t")})
	process := func(what string) {
		b.Ctl(t, "eval", fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"%s">>, queue, <<"%s">>)), {P, _} = amqqueue:get_pid(Q), sys:%s(P).`, b.VHost, queue, what))
	}
	process("suspend")
	if d, err := s.Depth(t.Context(), queue); err != nil || d != (bus.Depth{}) {
		t.Logf("its depth is %+v, %v: the broker has become better than this test takes it for", d, err)
	}
	answer := make(chan bool, 1)
	go func() {
		gone, err := s.DropQueue(t.Context(), queue)
		if err != nil {
			t.Error(err)
		}
		answer <- gone
	}()
	time.Sleep(2 * time.Second) // it is being asked
	process("resume")
	if <-answer {
		t.Error("it is gone")
	}
	if some, err := s.Holds(t.Context(), queue); !some || err != nil {
		t.Errorf("Holds = %v, %v, want true, nil", some, err)
	}
	// Holds has given it back, which nothing confirms; and the number comes from the queue that was slow to answer.
	eventually(t, "the message to be in the queue", func() bool { return b.Ready(t, queue) == 1 })
}
