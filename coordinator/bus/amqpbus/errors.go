package amqpbus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// explain turns an error of the library or the network into one of the contract:
// what was being done, what the broker said, what to do next. The library's
// error is not wrapped; its text goes through scrub.
func explain(t *target, doing string, err error) error {
	var reply *amqp.Error
	for _, plain := range []error{
		bus.ErrAccess, bus.ErrUnanswered, bus.ErrClosed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, plain) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	if !errors.As(err, &reply) {
		return fmt.Errorf("%s: %s", doing, t.scrub(err.Error()))
	}
	text := fmt.Sprintf("%s: broker answered %d %s", doing, reply.Code, t.scrub(reply.Reason))
	if !reply.Server {
		text = fmt.Sprintf("%s: %s", doing, t.scrub(reply.Reason))
	}
	switch {
	case inUse(reply):
		return fmt.Errorf("%w: %s; end the other one, or wait until the broker has noticed its end", bus.ErrInUse, text)
	case reply.Code == amqp.AccessRefused:
		return fmt.Errorf("%w: %s; grant it with rabbitmqctl set_permissions", bus.ErrAccess, text)
	case reply.Code == amqp.NotAllowed:
		return fmt.Errorf("%w: %s; check the virtual host, the user's permissions there and its connection limits",
			bus.ErrAccess, text)
	}
	return errors.New(text)
}

// refusal is the broker's answer, if err is one of the given codes.
func refusal(err error, codes ...int) *amqp.Error {
	var reply *amqp.Error
	if errors.As(err, &reply) && reply.Server {
		for _, code := range codes {
			if reply.Code == code {
				return reply
			}
		}
	}
	return nil
}

// inUse reports that another connection has the queue for itself: as a queue of its own, or as an exclusive
// consumer, which is the one 403 that is no matter of permissions; only its text distinguishes it.
func inUse(reply *amqp.Error) bool {
	return reply.Code == amqp.ResourceLocked ||
		reply.Code == amqp.AccessRefused && strings.Contains(reply.Reason, "in exclusive use")
}

// scrub removes the password from a text that others wrote. None is known to
// show it; this is the second line. Passwords of up to three bytes are left
// alone: they occur in any text.
func (t *target) scrub(text string) string {
	if len(t.password) > 3 && t.password != t.user {
		text = strings.ReplaceAll(text, t.password, "***")
	}
	return text
}
