package amqpbus

import (
	"sync"
	"time"
)

const (
	// ackBatch settlements, or whatever there is after ackDelay, go out together.
	ackBatch = 64
	ackDelay = 5 * time.Millisecond
	// Of a stream an acknowledgement only asks for more, and makes the broker read
	// the chunk again from which the next message comes: it goes out for a quarter
	// of the prefetch at once, or after streamAckDelay.
	streamAckShare = 4
	streamAckDelay = 100 * time.Millisecond
	// ackStuck is how long settlements wait behind a held delivery, in the hope
	// of going out in one batch with it.
	ackStuck = 50 * time.Millisecond
)

// tagState is what became of one delivery.
type tagState uint8

const (
	outstanding tagState = iota
	settled              // to be acknowledged
	gone                 // rejected or requeued; the broker has forgotten it
)

// ackTracker decides which acknowledgements one channel sends, and when. It does
// no I/O and reads no clock. It is safe for concurrent use.
//
// Delivery tags of a channel count from 1 without gaps. The ring covers the tags
// from base on. What is below is done with, or is one of the strays: deliveries
// held so long that those behind them were acknowledged singly. While there are
// strays nothing may be acknowledged by "everything up to tag".
type ackTracker struct {
	batch int // settlements that make a flush urgent

	mu      sync.Mutex
	ring    []tagState // power of two long; tag t is at t mod len
	base    uint64     // first tag of the ring
	ready   uint64     // base ≤ t < ready: none is outstanding
	next    uint64     // the tag after the last delivered
	settled int        // tags of the ring in state settled
	strays  map[uint64]struct{}
	singles []uint64 // settled strays
	rejects []uint64
	returns []uint64  // to be requeued
	stuck   time.Time // since when settlements wait behind a held delivery; zero: none do
	soon    bool      // a flush within ackDelay has been asked for
	now     bool      // an immediate flush has been asked for
}

func newAckTracker(batch int) *ackTracker {
	return &ackTracker{
		batch: batch,
		ring:  make([]tagState, 256), base: 1, ready: 1, next: 1,
		strays: make(map[uint64]struct{}),
	}
}

// orders is what one flush sends, in the order of the fields. Each tag occurs in
// one of them, but that upTo covers the rest.
type orders struct {
	reject  []uint64
	requeue []uint64
	single  []uint64
	upTo    uint64 // acknowledge everything up to this tag; 0: nothing
}

// frames is how many the flush takes.
func (o *orders) frames() int {
	n := len(o.reject) + len(o.requeue) + len(o.single)
	if o.upTo != 0 {
		n++
	}
	return n
}

// wakeup says how soon the next flush is wanted.
type wakeup uint8

const (
	wakeNot  wakeup = iota // the one already asked for will do
	wakeSoon               // within ackDelay
	wakeNow
)

func (t *ackTracker) at(tag uint64) *tagState { return &t.ring[tag&uint64(len(t.ring)-1)] }

// deliver records the next delivery. Tags must come in order.
func (t *ackTracker) deliver(tag uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tag-t.base >= uint64(len(t.ring)) {
		larger := make([]tagState, 2*len(t.ring))
		for old := t.base; old < t.next; old++ {
			larger[old&uint64(len(larger)-1)] = *t.at(old)
		}
		t.ring = larger
	}
	*t.at(tag) = outstanding
	t.next = tag + 1
}

// ack settles a delivery. A tag that is not outstanding is ignored: an unknown
// tag would make the broker close the channel.
func (t *ackTracker) ack(tag uint64) wakeup {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.settle(tag, settled) {
		return wakeNot
	}
	if tag >= t.base {
		t.settled++
	} else {
		t.singles = append(t.singles, tag)
	}
	batch := t.ready - t.base
	if len(t.strays) > 0 {
		batch = uint64(t.settled + len(t.singles))
	}
	switch {
	case batch >= uint64(t.batch) && !t.now:
		t.now = true
		return wakeNow
	case !t.soon:
		t.soon = true
		return wakeSoon
	}
	return wakeNot
}

// reject settles a delivery by refusing it, requeue by giving it back; both want to go out at once.
func (t *ackTracker) reject(tag uint64) wakeup  { return t.refuse(tag, &t.rejects) }
func (t *ackTracker) requeue(tag uint64) wakeup { return t.refuse(tag, &t.returns) }

func (t *ackTracker) refuse(tag uint64, out *[]uint64) wakeup {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.settle(tag, gone) {
		return wakeNot
	}
	*out = append(*out, tag)
	return wakeNow
}

// settle moves an outstanding tag to the given state, or out of the strays.
func (t *ackTracker) settle(tag uint64, state tagState) bool {
	if tag < t.base {
		_, held := t.strays[tag]
		delete(t.strays, tag)
		return held
	}
	if tag >= t.next || *t.at(tag) != outstanding {
		return false
	}
	*t.at(tag) = state
	for t.ready < t.next && *t.at(t.ready) != outstanding {
		t.ready++
	}
	return true
}

// take moves what is due at now into out, whose slices it reuses, and says after
// how long to look again (0: not before the next wakeup). When all is set,
// nothing waits for company.
func (t *ackTracker) take(now time.Time, all bool, out *orders) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.soon, t.now = false, false
	out.reject = append(out.reject[:0], t.rejects...)
	out.requeue = append(out.requeue[:0], t.returns...)
	out.single = append(out.single[:0], t.singles...)
	out.upTo = 0
	t.rejects, t.returns, t.singles = t.rejects[:0], t.returns[:0], t.singles[:0]

	for ; t.base < t.ready; t.base++ {
		if *t.at(t.base) != settled {
			continue
		}
		t.settled--
		if len(t.strays) > 0 {
			out.single = append(out.single, t.base)
		} else {
			// The broker insists that the tag itself is still unacknowledged,
			// so that this must not be one that was rejected or requeued.
			out.upTo = t.base
		}
	}
	if t.settled == 0 {
		t.stuck = time.Time{}
		return 0
	}
	if t.stuck.IsZero() {
		t.stuck = now
	}
	if waited := now.Sub(t.stuck); waited < ackStuck && !all && len(t.strays) == 0 {
		return ackStuck - waited
	}
	t.bypass(out)
	return 0
}

// idle reports that every delivery so far is settled and has been taken.
func (t *ackTracker) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.base == t.next && len(t.strays) == 0 && len(t.singles) == 0 && len(t.rejects) == 0 && len(t.returns) == 0
}

// bypass acknowledges every settled tag singly; the held ones among them become
// strays.
func (t *ackTracker) bypass(out *orders) {
	for ; t.settled > 0; t.base++ {
		switch *t.at(t.base) {
		case outstanding:
			t.strays[t.base] = struct{}{}
		case settled:
			out.single = append(out.single, t.base)
			t.settled--
		}
	}
	t.ready = max(t.ready, t.base)
	for t.ready < t.next && *t.at(t.ready) != outstanding {
		t.ready++
	}
	t.stuck = time.Time{}
}
