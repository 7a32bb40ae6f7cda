// Package bustest is the conformance suite of package bus.
//
// It answers "does this transport keep the promises of bus.Bus?" by exercising
// every promise through the interface alone. membus and amqpbus run the same
// cases, so that what a test proves in memory holds on RabbitMQ too.
//
// # How a transport uses it
//
//	func TestConformance(t *testing.T) {
//		bustest.Exercise(t, bustest.Harness{
//			New:         func(t *testing.T) bus.Bus { … a broker of its own … },
//			Cut:         func(t *testing.T, b bus.Bus) { … },
//			Between:     func(t *testing.T, b bus.Bus, f func(step string)) { … },
//			DeleteQueue: func(t *testing.T, b bus.Bus, queue string) { … },
//			Trim:        func(t *testing.T, b bus.Bus, stream string) { … },
//		})
//	}
//
// # What it must never do
//
// It knows no transport, never sleeps (it waits for an event with a generous
// deadline, or polls a counter of the broker), and never skips in silence: what
// a harness cannot do appears as a sub-test that says so.
package bustest
