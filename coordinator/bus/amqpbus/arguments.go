package amqpbus

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// arguments are what a queue is declared with. They cannot be changed later: a
// declaration with others is refused.
func arguments(q bus.Queue) amqp.Table {
	switch q.Kind {
	case bus.Quorum:
		return quorumArguments(q)
	case bus.Stream:
		args := amqp.Table{"x-queue-type": "stream"}
		if q.MaxAge > 0 {
			args["x-max-age"] = fmt.Sprintf("%ds", int64(q.MaxAge/time.Second))
		}
		if q.MaxBytes > 0 {
			args["x-max-length-bytes"] = q.MaxBytes
		}
		if q.SegmentBytes > 0 {
			args["x-stream-max-segment-size-bytes"] = q.SegmentBytes
		}
		return args
	default:
		return nil
	}
}

func quorumArguments(q bus.Queue) amqp.Table {
	args := amqp.Table{
		"x-queue-type":     "quorum",
		"x-overflow":       "reject-publish",
		"x-delivery-limit": int64(q.DeliveryLimit),
	}
	if q.DropHead {
		args["x-overflow"] = "drop-head"
	}
	if q.DeadLetter != "" {
		args["x-dead-letter-exchange"] = ""
		args["x-dead-letter-routing-key"] = q.DeadLetter
		// Becomes at-most-once, silently, unless overflow is reject-publish.
		args["x-dead-letter-strategy"] = "at-least-once"
	}
	if q.TTL > 0 {
		args["x-message-ttl"] = q.TTL.Milliseconds()
	}
	if q.MaxLength > 0 {
		args["x-max-length"] = int64(q.MaxLength)
	}
	if q.ConsumerTimeout > 0 {
		args["x-consumer-timeout"] = q.ConsumerTimeout.Milliseconds()
	}
	return args
}

// lost says what a queue of the given kind no longer promises when a plain
// durable queue stands in its place.
func lost(kind bus.QueueKind) string {
	switch kind {
	case bus.Quorum:
		return "it is not replicated, and what is rejected, expires or fails too often is not dead-lettered at least once " +
			"(a policy with a dead-letter exchange helps)"
	case bus.Stream:
		return "a coordinator that starts does not see the past, and only one coordinator gets each message"
	default:
		return "nothing that Taskbus relies on"
	}
}

// differs is the Finding for a queue that exists with other arguments. plain
// reports that it is a plain durable queue.
func differs(q bus.Queue, plain bool, broker string) bus.Finding {
	if plain {
		return bus.Finding{Object: q.Name, Text: fmt.Sprintf(
			"exists as a plain durable queue instead of a %s and is used as it is: %s", q.Kind, lost(q.Kind))}
	}
	return bus.Finding{Object: q.Name, Text: fmt.Sprintf(
		"exists with other arguments than a %s of this topology and is used as it is; if it is a plain queue, %s (broker: "+
			"%s)",
		describe(q.Kind), lost(q.Kind), broker)}
}

// incomparable is the Finding for a queue that exists, but whose arguments this
// user may not have compared.
func incomparable(q bus.Queue) bus.Finding {
	text := fmt.Sprintf(
		"exists, but whether it is a %s of this topology cannot be verified: this user lacks the configure permission on it",
		describe(q.Kind))
	if q.Kind == bus.Quorum && q.DeadLetter != "" {
		text += "; messages to it are given no expiration, because a queue without our dead-letter rule would lose them, " +
			"and so what is not taken in time is not noticed"
	}
	return bus.Finding{Object: q.Name, Text: text}
}

// locked is the Finding for a queue that is exclusive where it should not be, or
// the other way round.
func locked(q bus.Queue) bus.Finding {
	if q.Temporary {
		return bus.Finding{Object: q.Name,
			Text: "exists as a lasting queue instead of a temporary one and is used as it is: others may consume it, and it " +
				"stays, with what is in it, when the session ends"}
	}
	return bus.Finding{Object: q.Name,
		Text: "is an exclusive queue of another connection: it can be published to, but not consumed, and it goes with " +
			"that connection"}
}

func describe(kind bus.QueueKind) string {
	switch kind {
	case bus.Stream:
		return "stream"
	case bus.Classic:
		return "plain durable queue"
	default:
		return string(kind) + " queue"
	}
}
