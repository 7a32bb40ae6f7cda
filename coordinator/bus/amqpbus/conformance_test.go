package amqpbus_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/support/brokertest"
	"taskbus/tests/support/bustest"
)

// atOnce is how many tests run side by side, whatever the machine: nearly all their time they wait
// for the broker or a time-out.
const atOnce = 6

func TestMain(m *testing.M) {
	brokertest.SideBySide(atOnce)
	os.Exit(m.Run())
}

// countsGoroutines is the case that must be alone: others come and go with goroutines of their own.
const countsGoroutines = "/no_goroutine_is_left_behind"

// TestConformance runs the suite against a real broker, each case in a virtual
// host of its own, those of one subject side by side. An alarm concerns a whole
// node: see TestConformanceDuringAlarms.
func TestConformance(t *testing.T) {
	var made sync.Map // the broker of each bus
	of := func(b bus.Bus) brokertest.Broker {
		broker, _ := made.Load(b)
		return broker.(brokertest.Broker)
	}
	bustest.Exercise(t, bustest.Harness{
		New: func(t *testing.T) bus.Bus {
			if !strings.HasSuffix(t.Name(), countsGoroutines) {
				t.Parallel()
			}
			broker := brokertest.Vhost(t)
			b := amqpbus.New(config(t, broker.URL))
			made.Store(b, broker)
			return b
		},
		Cut:            func(t *testing.T, b bus.Bus) { of(b).CloseConnections(t) },
		Between:        func(_ *testing.T, b bus.Bus, f func(string)) { b.(*amqpbus.Bus).SetBetween(f) },
		DeleteQueue:    func(t *testing.T, b bus.Bus, queue string) { of(b).DeleteQueue(t, queue) },
		DeleteExchange: func(t *testing.T, b bus.Bus, exchange string) { of(b).DeleteExchange(t, exchange) },
		Trim:           func(*testing.T, bus.Bus, string) {}, // by its limits
	})
}

// TestConformanceDuringAlarms has a node of its own, which its cases block one after another.
func TestConformanceDuringAlarms(t *testing.T) {
	t.Parallel()
	node := brokertest.Private(t, brokertest.Options{})
	bustest.ExerciseAlarms(t, bustest.Harness{
		New: func(t *testing.T) bus.Bus {
			cfg := config(t, node.NewVhost(t).URL)
			cfg.LockProbe = 50 * time.Millisecond
			return amqpbus.New(cfg)
		},
		Block: func(t *testing.T, _ bus.Bus, blocked bool) {
			node.Ctl(t, "set_vm_memory_high_watermark", map[bool]string{true: "0.000001", false: "0.6"}[blocked])
		},
		Features: bustest.Features{Alarms: true},
	})
}

func config(t testing.TB, url string) amqpbus.Config {
	return amqpbus.Config{URL: url, Logger: zerolog.New(zerolog.NewTestWriter(t))}
}
