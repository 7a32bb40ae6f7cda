package amqpbus

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// Queues that come while a session lasts.

// ensure declares a queue, or looks for it where declaring is not allowed. It
// reports whether the queue exists, and keeps whether it is as described.
func (t *topology) ensure(ctx context.Context, q bus.Queue) (exists bool, err error) {
	doing := fmt.Sprintf("declare queue %q", q.Name)
	seen := false // by a passive look
	err = t.ask(ctx, doing, func(ch *amqp.Channel) error {
		if !q.Temporary && t.mode != bus.Declare {
			if _, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil); err != nil || t.mode != bus.Verify {
				return err
			}
			seen = true
			// The broker compares arguments in a declaration only. Directly after
			// the look it creates nothing, unless the queue is deleted within
			// this round trip. It would then come back as described, and an operator that deletes the queue
			// of a running coordinator finds it again, empty: no message and no settings are lost.
			t.step("compare " + q.Name)
		}
		return declareQueue(ch, q)
	})
	t.setMatching(q.Name, err == nil && (q.Temporary || t.mode == bus.Declare || t.mode == bus.Verify))
	switch {
	case err == nil:
		return true, nil
	case refusal(err, amqp.NotFound) != nil:
		return false, nil
	case refusal(err, amqp.ResourceLocked) != nil:
		if q.Temporary {
			return t.insteadOfTemporary(ctx, q, err)
		}
		t.record(locked(q))
		return true, nil
	case refusal(err, amqp.AccessRefused) != nil && seen:
		t.record(incomparable(q))
		return true, nil
	}
	if reply := refusal(err, amqp.PreconditionFailed); reply != nil {
		plain, err := t.isPlain(ctx, q)
		t.record(differs(q, plain, t.link.target.scrub(reply.Reason)))
		return true, err
	}
	if reply := refusal(err, amqp.AccessRefused); reply != nil && q.Temporary {
		return false, accessFor(t.link.target, doing, "configure", q.Name, reply)
	}
	if err := t.denied(doing, q.Name, err); err != nil {
		return false, err
	}
	return true, nil
}

// insteadOfTemporary sorts out the one refusal for two cases: the broker lets only the owner look at an
// exclusive queue, and every connection at a lasting one.
func (t *topology) insteadOfTemporary(ctx context.Context, q bus.Queue, refused error) (bool, error) {
	doing := fmt.Sprintf("look at queue %q", q.Name)
	err := t.ask(ctx, doing, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(q.Name, false, false, true, false, nil)
		return err
	})
	if err == nil {
		t.record(locked(q))
		return true, nil
	}
	if refusal(err, amqp.ResourceLocked, amqp.NotFound) != nil { // still there, or just gone
		return false, explain(t.link.target, fmt.Sprintf("declare the temporary queue %q", q.Name), refused)
	}
	return false, explain(t.link.target, doing, err)
}

func declareQueue(ch *amqp.Channel, q bus.Queue) error {
	var err error
	if q.Temporary {
		_, err = ch.QueueDeclare(q.Name, false, false, true, false, nil)
	} else {
		_, err = ch.QueueDeclare(q.Name, true, false, false, false, arguments(q))
	}
	return err
}

// isPlain reports whether an existing queue is what clients get that declare a
// durable queue without arguments. The queue exists, so that declaring it merely
// makes the broker compare.
func (t *topology) isPlain(ctx context.Context, q bus.Queue) (bool, error) {
	if q.Kind == bus.Classic {
		return false, nil
	}
	doing := fmt.Sprintf("look at queue %q", q.Name)
	err := t.ask(ctx, doing, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(q.Name, true, false, false, false, nil)
		return err
	})
	if err != nil && refusal(err, amqp.PreconditionFailed, amqp.ResourceLocked) == nil {
		return false, explain(t.link.target, doing, err)
	}
	return err == nil, nil
}

// bindAgain is how long the broker may take for a binding of a session at work. What
// concerns bindings is agreed on by all nodes of a cluster, and waits for one that
// hangs until it is given up, 60 to 75 s by default: no reason to cut a session that
// lacks nothing else.
const bindAgain = 2 * time.Minute

// ensureBound is ensure for a temporary queue, with its bindings.
func (t *topology) ensureBound(ctx context.Context, q bus.Queue, bindings []bus.Binding) (bool, error) {
	exists, err := t.ensure(ctx, q)
	if err != nil || !exists {
		return exists, err
	}
	for _, b := range bindings {
		if b.Queue != q.Name {
			continue
		}
		if err := t.bind(ctx, max(t.link.request, bindAgain), b); err != nil {
			return true, err
		}
	}
	return true, nil
}
