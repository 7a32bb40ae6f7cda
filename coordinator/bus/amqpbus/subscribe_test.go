package amqpbus

import (
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
)

// A broker that is still starting may not know a queue that it has created a moment ago: that passes, and
// nobody is sent to create it. One that nobody has created does not come by itself.
func TestQueueThatTheBrokerDoesNotKnow(t *testing.T) {
	notFound := &amqp.Error{Code: amqp.NotFound, Reason: "NOT_FOUND - no queue 'q' in vhost '/'", Server: true}
	for _, c := range []struct {
		name    string
		mode    bus.Mode
		created bool // by this session
		passes  bool
	}{
		{"declared a moment ago", bus.Declare, true, true},
		{"found a moment ago", bus.Verify, true, true},
		{"never declared", bus.Declare, false, false},
		{"not looked for", bus.Off, false, false},
	} {
		s := &session{target: &target{}, topology: newTopology(nil, c.mode, zerolog.Nop())}
		s.topology.setMatching("q", c.created)
		err := s.subscribeError(bus.Subscription{Queue: "q"}, notFound)
		var topology *bus.TopologyError
		if passes := !errors.As(err, &topology); passes != c.passes || strings.Contains(err.Error(), applyCommand) == passes {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
