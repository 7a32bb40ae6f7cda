package amqpbus_test

import (
	"testing"

	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/coordinator/bus/bustest"
	"taskbus/tests/brokertest"
)

// TestConformance runs the suite against a real broker, each case in a virtual
// host of its own. An alarm concerns a whole node: see TestAlarm.
func TestConformance(t *testing.T) {
	brokers := map[bus.Bus]brokertest.Broker{}
	bustest.Exercise(t, bustest.Harness{
		New: func(t *testing.T) bus.Bus {
			broker := brokertest.Vhost(t)
			b := amqpbus.New(config(t, broker.URL))
			brokers[b] = broker
			return b
		},
		Cut:            func(t *testing.T, b bus.Bus) { brokers[b].CloseConnections(t) },
		DeleteQueue:    func(t *testing.T, b bus.Bus, queue string) { brokers[b].DeleteQueue(t, queue) },
		DeleteExchange: func(t *testing.T, b bus.Bus, exchange string) { brokers[b].DeleteExchange(t, exchange) },
		Trim:           func(*testing.T, bus.Bus, string) {}, // by its limits
	})
}

func config(t testing.TB, url string) amqpbus.Config {
	return amqpbus.Config{URL: url, Logger: zerolog.New(zerolog.NewTestWriter(t))}
}
