package amqpbus

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
)

// A broker that is still starting may not know a queue that it has created a moment ago: that passes, and
// the text does not ask to create it. One that was never created does not come by itself.
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

// A node that has no replica of the stream yet is asked again for the same, for as long as that may take: asked
// for less it would begin with what comes next, should the replica be there by then, and what a coordinator has
// written down would be passed over. Any other refusal of the arguments leads to the next ones.
func TestStreamWithoutReplicaYet(t *testing.T) {
	noReplica := &amqp.Error{Code: amqp.PreconditionFailed, Server: true,
		Reason: "PRECONDITION_FAILED - queue 'queue 's' in vhost '/'' does not have a replica on the local node"}
	noStream := &amqp.Error{Code: amqp.PreconditionFailed, Server: true,
		Reason: "PRECONDITION_FAILED - invalid arg 'x-stream-offset'"}
	fromFirst, plain := amqp.Table{streamOffsetArg: "first"}, amqp.Table{}
	for name, c := range map[string]struct {
		answers []error
		ends    bool // the session, after 250 ms
		asked   []amqp.Table
		took    time.Duration
		err     error
	}{
		"there at once": {answers: []error{nil}, asked: []amqp.Table{fromFirst}},
		"there after two pauses": {answers: []error{noReplica, noReplica, nil},
			asked: []amqp.Table{fromFirst, fromFirst, fromFirst}, took: 2 * replicaPause},
		"no stream":   {answers: []error{noStream, nil}, asked: []amqp.Table{fromFirst, plain}},
		"never there": {answers: slices.Repeat([]error{noReplica}, 100), took: replicaPatience, err: noReplica},
		"the session ends": {answers: slices.Repeat([]error{noReplica}, 100), ends: true, took: 250 * time.Millisecond,
			err: noReplica},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, begun := &session{ending: make(chan struct{})}, time.Now()
			if c.ends {
				time.AfterFunc(250*time.Millisecond, func() { close(s.ending) })
			}
			var asked []amqp.Table
			_, err := s.begin(&consumer{}, []amqp.Table{fromFirst, plain}, func(args amqp.Table) (<-chan amqp.Delivery, error) {
				asked = append(asked, args)
				return nil, c.answers[len(asked)-1]
			})
			if took := time.Since(begun); !errors.Is(err, c.err) || took != c.took {
				t.Errorf("%s: %v after %v, want %v after %v", name, err, took, c.err, c.took)
			}
			same := func(a, b amqp.Table) bool { return a[streamOffsetArg] == b[streamOffsetArg] }
			if c.asked != nil && !slices.EqualFunc(asked, c.asked, same) {
				t.Errorf("%s: asked for %v, want %v", name, asked, c.asked)
			}
			if c.err != nil && slices.ContainsFunc(asked, func(args amqp.Table) bool { return same(args, plain) }) {
				t.Errorf("%s: asked for less: %v", name, asked)
			}
		})
	}
}
