package amqpbus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
)

// applyCommand creates what is missing.
const applyCommand = "taskbus topology apply"

// topology declares and inspects queues and exchanges.
type topology struct {
	*asker
	mode   bus.Mode
	logger zerolog.Logger
	// between, of tests, is called between two steps of a request; may be nil.
	between func(step string)

	lookers [bus.DepthsAtOnce]*asker
	prober  *prober
	// deleting is the connection over which queues are deleted: that which the lock belongs to. A session
	// that has lost the lock takes nothing away from the one that has it.
	deleting *link

	mu       sync.RWMutex
	findings []bus.Finding
	matching map[string]bool // queues found as described; no false entries
	// given is, by queue, the message that holds has given back and that was delivered to no consumer since.
	given map[string]hash
}

// hash identifies bodies.
type hash [sha256.Size]byte

func newTopology(l *link, mode bus.Mode, logger zerolog.Logger) *topology {
	return &topology{
		asker: newAsker(l), lookers: newLookers(l), mode: mode, logger: logger, deleting: l,
		matching: make(map[string]bool), given: make(map[string]hash),
	}
}

// moveTo is the same topology with all that is known, asked over other connections, but for what deletes.
// It must be called before the session is shared.
func (t *topology) moveTo(l *link, p *prober) *topology {
	return &topology{
		asker: newAsker(l), lookers: newLookers(l), prober: p, mode: t.mode, logger: t.logger, between: t.between,
		deleting: t.deleting, findings: t.findings, matching: t.matching, given: t.given,
	}
}

// step lets a test know that another may get in now.
func (t *topology) step(name string) {
	if t.between != nil {
		t.between(name)
	}
}

// apply sees to what a session shares with others.
func (t *topology) apply(ctx context.Context, want bus.Topology) error {
	if t.mode == bus.Off {
		return nil
	}
	for _, x := range want.Exchanges {
		if err := t.exchange(ctx, x); err != nil {
			return err
		}
	}
	return t.queues(ctx, want, false)
}

// applyTemporary sees to the session's own queues. They belong to the connection
// that declares them, which must be the one that consumes.
func (t *topology) applyTemporary(ctx context.Context, want bus.Topology) error {
	return t.queues(ctx, want, true)
}

// queues sees to the temporary or to the lasting queues, and to their bindings. Queues are declared one by one: four
// at a time are three times as fast, but in a fleet of 500 agents kept every other declaration on the node waiting
// for more than its 10 s.
func (t *topology) queues(ctx context.Context, want bus.Topology, temporary bool) error {
	mine := make(map[string]bool)
	news := progress{logger: t.logger, told: time.Now()}
	for i, q := range want.Queues {
		if q.Temporary {
			mine[q.Name] = true
		}
		if q.Temporary != temporary {
			continue
		}
		exists, err := t.ensure(ctx, q)
		if err != nil {
			return err
		}
		if !exists {
			return t.missing(q.Name)
		}
		news.tell(time.Now(), i+1, len(want.Queues))
	}
	if t.mode != bus.Declare && !temporary {
		return nil // AMQP has no way to look at a binding
	}
	for _, b := range want.Bindings {
		if mine[b.Queue] != temporary {
			continue
		}
		if err := t.bind(ctx, t.link.request, b); err != nil {
			return err
		}
	}
	return nil
}

// progress logs how far a long declaration is: the queues of hundreds of new agents can take half a minute.
type progress struct {
	logger zerolog.Logger
	told   time.Time // when it was logged last; at first, the beginning
}

// progressEvery is how often it does.
const progressEvery = 5 * time.Second

func (p *progress) tell(now time.Time, done, of int) {
	if now.Sub(p.told) < progressEvery {
		return
	}
	p.told = now
	p.logger.Info().Int("done", done).Int("of", of).Msg("connecting: declaring queues")
}

func missing(what, name string) error {
	return &bus.TopologyError{Object: name, Reason: "the " + what + " does not exist; create it with: " + applyCommand}
}

// missing is that the broker does not know a queue. One that it was asked to create it may not know yet, or
// not any more: to create it by hand changes nothing.
func (t *topology) missing(queue string) error {
	if t.mode == bus.Declare || t.matches(queue) {
		return fmt.Errorf("queue %q: the broker does not know it, although it was to create it, or had it a moment ago: "+
			"it may still be starting, and is asked again; if this goes on, see the broker's log", queue)
	}
	return missing("queue", queue)
}

func (t *topology) exchange(ctx context.Context, x bus.Exchange) error {
	doing := fmt.Sprintf("declare exchange %q", x.Name)
	err := t.ask(ctx, doing, func(ch *amqp.Channel) error {
		if t.mode == bus.Declare {
			return ch.ExchangeDeclare(x.Name, string(x.Kind), true, false, false, false, nil)
		}
		return ch.ExchangeDeclarePassive(x.Name, string(x.Kind), true, false, false, false, nil)
	})
	if err == nil {
		return nil
	}
	if refusal(err, amqp.NotFound) != nil {
		return missing("exchange", x.Name)
	}
	if reply := refusal(err, amqp.PreconditionFailed); reply != nil {
		t.record(bus.Finding{Object: x.Name, Text: fmt.Sprintf(
			"exists with other settings than those of a durable %s exchange and is used as it is: what is published to it "+
				"may not be routed where it should (broker: %s)",
			x.Kind, t.link.target.scrub(reply.Reason))})
		return nil
	}
	return t.denied(doing, x.Name, err)
}

// denied handles a 403. Declaring needs the permission; looking does not need
// the answer: what cannot be seen is recorded and taken to be there.
func (t *topology) denied(doing, object string, err error) error {
	reply := refusal(err, amqp.AccessRefused)
	switch {
	case reply == nil:
		return explain(t.link.target, doing, err)
	case t.mode == bus.Declare:
		return accessFor(t.link.target, doing, "configure", object, reply)
	}
	t.record(bus.Finding{Object: object,
		Text: "cannot be verified, this user has no permission to look at it; taken to exist"})
	return nil
}

func (t *topology) bind(ctx context.Context, limit time.Duration, b bus.Binding) error {
	doing := fmt.Sprintf("bind queue %q to exchange %q", b.Queue, b.Exchange)
	err := t.askFor(ctx, limit, doing, func(ch *amqp.Channel) error {
		return ch.QueueBind(b.Queue, b.Key, b.Exchange, false, nil)
	})
	if err == nil {
		return nil
	}
	if reply := refusal(err, amqp.NotFound); reply != nil {
		// The queue has just been seen to.
		return &bus.TopologyError{Object: b.Exchange, Reason: fmt.Sprintf(
			"%s: broker answered %d %s; create it with: %s", doing, reply.Code, t.link.target.scrub(reply.Reason), applyCommand)}
	}
	if reply := refusal(err, amqp.AccessRefused); reply != nil {
		return accessFor(t.link.target, doing, "write (queue) or read (exchange)", b.Queue+" and "+b.Exchange, reply)
	}
	return explain(t.link.target, doing, err)
}

// depth implements [bus.Session].
func (t *topology) depth(ctx context.Context, queue string) (bus.Depth, error) {
	var found amqp.Queue
	doing := fmt.Sprintf("read the depth of queue %q", queue)
	err := t.look(ctx, doing, func(ch *amqp.Channel) (err error) {
		found, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	if err == nil {
		return bus.Depth{Ready: found.Messages, Consumers: found.Consumers}, nil
	}
	return bus.Depth{}, t.unseen(doing, "configure", queue, err)
}

// unseen explains why the broker said nothing of a queue.
func (t *topology) unseen(doing, permission, queue string, err error) error {
	if refusal(err, amqp.NotFound) != nil {
		return fmt.Errorf("%s: %w", doing, bus.ErrNoQueue)
	}
	if reply := refusal(err, amqp.AccessRefused); reply != nil {
		return accessFor(t.link.target, doing, permission, queue, reply)
	}
	return explain(t.link.target, doing, err)
}

// drop implements [bus.Session] for DropQueue. A quorum queue takes none of the conditions that
// AMQP has for a deletion: 540, and the connection is closed. So it looks first. While the broker holds
// publishers up it deletes nothing: the answer could take as long as that, and nothing else be asked.
func (t *topology) drop(ctx context.Context, queue string) (bool, error) {
	d, err := t.depth(ctx, queue)
	switch {
	case errors.Is(err, bus.ErrNoQueue):
		return true, nil
	case err != nil:
		return false, err
	case t.mode != bus.Declare, d.Ready > 0, d.Consumers > 0, t.deleting.wire.Held():
		return false, nil
	}
	switch some, err := t.holds(ctx, queue); {
	case errors.Is(err, bus.ErrNoQueue):
		return true, nil
	case err != nil || some:
		return false, err
	}
	t.step("drop " + queue)
	doing := fmt.Sprintf("delete queue %q", queue)
	var lost atomic.Int64 // a request that ctx does not wait for goes on
	err = t.inTurn(ctx, doing, func() error {
		n, err := t.delete(doing, queue)
		lost.Store(int64(n))
		return err
	})
	if reply := refusal(err, amqp.AccessRefused); reply != nil {
		return false, accessFor(t.link.target, doing, "configure", queue, reply)
	}
	if err != nil {
		return false, explain(t.link.target, doing, err)
	}
	t.setMatching(queue, false)
	if n := lost.Load(); n > 0 {
		return true, fmt.Errorf("%s: %w: %d", doing, bus.ErrNotEmpty, n)
	}
	return true, nil
}

// delete deletes a queue over a channel of its own, and returns how many messages were in it.
func (t *topology) delete(doing, queue string) (lost int, err error) {
	channel, err := t.deleting.channel()
	if err != nil {
		return 0, err
	}
	err = t.deleting.within(doing, func() (err error) {
		lost, err = channel.QueueDelete(queue, false, false, false)
		return err
	})
	if err != nil {
		return 0, err // the channel is closed
	}
	return lost, t.deleting.within("close a channel", channel.Close)
}

// record keeps a finding and logs it, once for each object.
func (t *topology) record(f bus.Finding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.ContainsFunc(t.findings, func(known bus.Finding) bool { return known.Object == f.Object }) {
		return
	}
	t.findings = append(t.findings, f)
	t.logger.Warn().Str("object", f.Object).Msg(f.Text)
}

// list returns a copy of the findings.
func (t *topology) list() []bus.Finding {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.findings)
}

func (t *topology) setMatching(queue string, as bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if as {
		t.matching[queue] = true
	} else {
		delete(t.matching, queue)
	}
}

// matches implements [bus.Session]. It waits for no request to the broker.
func (t *topology) matches(queue string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.matching[queue]
}
