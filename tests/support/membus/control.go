package membus

import (
	"context"
	"runtime"

	"taskbus/coordinator/bus"
)

// Reply is how the broker answers a publication (see [Broker.SetConfirm]).
type Reply uint8

// The replies.
const (
	// Answer behaves like a broker in good health.
	Answer Reply = iota
	// Nack refuses: the message is nowhere, the outcome is bus.Rejected.
	Nack
	// Return says that no queue is bound, whether it is or not: the message is
	// nowhere, the outcome is bus.Unroutable.
	Return
	// Withhold takes the message but does not confirm it before
	// [Broker.ReleaseConfirms]. As outcomes come in order of publishing, those
	// of the session's later publications wait behind it, but for optional ones
	// and those apart, which have orders of their own.
	Withhold
	// Lose forgets the message and never answers: the outcome is bus.Unknown when
	// the session ends, and nothing behind it is settled before.
	Lose
)

// control is what a test has asked the broker to do.
type control struct {
	between   func(step string)
	confirm   func(bus.Publication) Reply
	openError error
	user      string
	withheld  []*publication
	mute      map[string]bool // queues
}

// SetMute has a queue not answer in time, or answer again: Depth goes by what RabbitMQ says then, which is that
// nothing is in it and that it has no consumer.
func (b *Broker) SetMute(queue string, mute bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.control.mute == nil {
		b.control.mute = make(map[string]bool)
	}
	b.control.mute[queue] = mute
}

// seen is what the broker says of a queue.
func (b *Broker) seen(q queue) bus.Depth {
	if b.control.mute[q.definition().Name] {
		return bus.Depth{}
	}
	return bus.Depth{Ready: q.depth(), Consumers: q.counted()}
}

// alarm holds up publishers while it is on.
type alarm struct{ on bool }

// SetConfirm lets reply decide how each publication is answered from now on; nil
// restores the normal behaviour. reply is called from the publisher's goroutine,
// for several publishers at once, and must not keep the body.
func (b *Broker) SetConfirm(reply func(bus.Publication) Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.control.confirm = reply
}

// ReleaseConfirms answers every publication that is withheld, in the order of
// publishing.
func (b *Broker) ReleaseConfirms() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.control.withheld {
		p.answer(p.outcome)
	}
	b.control.withheld = nil
}

// SetOpenError makes Open fail with err (wrapped), as with bus.ErrAccess or while
// a broker is down; nil lets sessions in again. Open ones are not touched.
func (b *Broker) SetOpenError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.control.openError = err
}

// SetUser names the user of the sessions that are opened from now on (see
// bus.Session.User); none at first. A session without a name stands for the connections
// of many: it takes every UserID.
func (b *Broker) SetUser(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.control.user = name
}

// Cut ends every session, as when the broker closes its connections.
func (b *Broker) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	// All are over before the first returns what it holds, so that no delivery
	// goes through the hands of a session that is about to end.
	sessions := b.sessions
	for _, s := range sessions {
		s.stop(errCut)
	}
	for _, s := range sessions {
		s.handBack()
	}
}

// Clear implements [bus.Clearer].
func (b *Broker) Clear(_ context.Context, t bus.Topology) (removed int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fabric.queues[bus.QueueLeader] != nil {
		return 0, bus.ErrInUse
	}
	for _, q := range t.Queues {
		if b.fabric.queues[q.Name] != nil {
			b.deleteQueue(q.Name)
			removed++
		}
	}
	for _, x := range t.Exchanges {
		delete(b.fabric.exchanges, x.Name)
	}
	return removed, nil
}

// DeleteQueue removes a queue with its messages and bindings and ends its
// consumers, and the sessions of those that have no OnEnded. A missing queue is
// no fault.
func (b *Broker) DeleteQueue(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deleteQueue(name)
}

// deleteQueue takes a queue away and then tells its consumers, and the holder of it as a lock. The
// lock is held, and let go in between.
func (b *Broker) deleteQueue(name string) {
	q := b.fabric.remove(name)
	if q == nil {
		return
	}
	ended := q.close()
	l, _ := q.(*line)
	lock := l != nil && l.lock
	if len(ended) > 0 || lock {
		b.between("cancel " + name)
	}
	for _, c := range ended {
		c.end(errDeleted)
	}
	if lock {
		l.owner.end(errLockLost)
	}
}

// SetBetween has f called between the steps of what a broker does not do in one (the package's
// documentation has them), without any lock: it may do to the broker whatever another could,
// and take its time. nil, as at first: others that can run may get in.
func (b *Broker) SetBetween(f func(step string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.control.between = f
}

// between lets others in between two steps. The lock is held, and let go meanwhile.
func (b *Broker) between(step string) {
	f := b.control.between
	b.mu.Unlock()
	defer b.mu.Lock()
	if f == nil {
		runtime.Gosched()
		return
	}
	f(step)
}

// DeleteExchange removes an exchange with its bindings; the queues stay. A missing one
// is no fault.
func (b *Broker) DeleteExchange(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.fabric.exchanges, name)
}

// SkipOffsets makes a gap in the offsets of a stream: the next message gets one that
// is n higher than it would be. Another queue stays as it is.
func (b *Broker) SkipOffsets(name string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, ok := b.fabric.queues[name].(*stream); ok {
		s.next += max(n, 0)
	}
}

// Trim makes a stream forget what lies before an offset, as its retention does.
// Another queue stays as it is.
func (b *Broker) Trim(name string, before int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, ok := b.fabric.queues[name].(*stream); ok {
		s.trim(before)
	}
}

// Block raises or clears an alarm: publications are taken from the sessions but
// neither stored nor answered while it lasts. Sessions that publish meanwhile learn of the
// latest state; one that lasts for less than it takes to tell them may go unnoticed.
func (b *Broker) Block(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarm.on = on
	b.tellChanged()
	for _, s := range b.sessions {
		signal(s.alarmed)
		for i := range s.lanes {
			signal(s.lanes[i].carrier)
		}
	}
}

// Messages returns copies of the messages that are ready in a queue, in order,
// or of everything a stream holds; nil for a queue that does not exist. Tags are
// zero.
func (b *Broker) Messages(name string) []bus.Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.fabric.queues[name]
	if q == nil {
		return nil
	}
	var all []bus.Delivery
	for _, m := range q.messages() {
		all = append(all, m.deliver(name))
	}
	return all
}

// Unacked counts the messages of a queue that consumers hold.
func (b *Broker) Unacked(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, s := range b.sessions {
		for _, c := range s.consumers {
			if c.queue.definition().Name == name {
				n += len(c.unacked)
			}
		}
	}
	return n
}
