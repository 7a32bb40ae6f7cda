package amqpbus_test

import (
	"errors"
	"fmt"
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/support/brokertest"
)

// What watching the fleet costs: one look at a queue, of which there are some
// hundred a second, and the taking back of what an agent left behind.
func BenchmarkFleet(b *testing.B) {
	queues := []bus.Queue{{Name: "plain", Kind: bus.Classic}}
	for i := range relayAgents {
		queues = append(queues, bus.AgentQueue(bus.ProfileQuorum, agentQueue(i)))
	}
	s, err := amqpbus.New(config(b, brokertest.Vhost(b).URL)).Open(b.Context(), bus.SessionSpec{
		Name: "watch", Topology: bus.Topology{Mode: bus.Declare, Queues: queues},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(b.Context()) })
	for name, queue := range map[string]func(int) string{
		"depth/quorum":  agentQueue,
		"depth/classic": func(int) string { return "plain" },
		"depth/missing": func(int) string { return "missing" },
		"depth/one of 4 missing": func(i int) string {
			return [...]string{"missing", agentQueue(i), "plain",
				agentQueue(i + 1)}[i%4]
		},
	} {
		b.Run(name, func(b *testing.B) {
			for i := range b.N {
				if _, err := s.Depth(b.Context(), queue(i)); err != nil && !errors.Is(err, bus.ErrNoQueue) {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("subscribe and unsubscribe", func(b *testing.B) {
		for i := range b.N {
			err := s.Subscribe(b.Context(), bus.Subscription{
				Queue: agentQueue(i), Prefetch: 100, Priority: 1, Handle: func(bus.Delivery) {}, OnEnded: func(error) {},
			})
			if err == nil {
				_, err = s.Unsubscribe(b.Context(), agentQueue(i))
			}
			if err != nil {
				b.Fatal(fmt.Errorf("round %d: %w", i, err))
			}
		}
	})
}
