package membus_test

import (
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/bustest"
	"taskbus/tests/support/membus"
)

func TestConformance(t *testing.T) {
	bustest.Exercise(t, bustest.Harness{
		New: func(*testing.T) bus.Bus {
			b := membus.New()
			b.SetUser("bustest")
			return b
		},
		Cut:            func(_ *testing.T, b bus.Bus) { b.(*membus.Broker).Cut() },
		Between:        func(_ *testing.T, b bus.Bus, f func(string)) { b.(*membus.Broker).SetBetween(f) },
		DeleteQueue:    func(_ *testing.T, b bus.Bus, queue string) { b.(*membus.Broker).DeleteQueue(queue) },
		DeleteExchange: func(_ *testing.T, b bus.Bus, exchange string) { b.(*membus.Broker).DeleteExchange(exchange) },
		Trim:           func(_ *testing.T, b bus.Bus, stream string) { b.(*membus.Broker).Trim(stream, 60) },
		Block:          func(_ *testing.T, b bus.Bus, blocked bool) { b.(*membus.Broker).Block(blocked) },
		Features:       bustest.Features{Alarms: true},
	})
}
