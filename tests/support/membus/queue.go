package membus

import (
	"slices"
	"time"

	"taskbus/coordinator/bus"
)

// queue is a place where messages wait: a line or a stream. The broker's lock is
// held for every method.
type queue interface {
	definition() bus.Queue
	// full tells whether a publication is refused.
	full() bool
	append(m *message)
	// attach adds a consumer and starts to serve it.
	attach(c *consumer)
	// detach takes a consumer away together with what it holds.
	detach(c *consumer)
	// settle takes back a message that a consumer is done with.
	settle(m *message, how settlement)
	// messages are those that are ready, in order.
	messages() []*message
	consumers() []*consumer
	// counted is how many consumers a broker says that there are, and depth how many messages are ready.
	counted() int
	depth() int
	// peek takes the first message for a session and gives it back; false: none is ready.
	peek(s *session) bool
	// usableBy tells whether a session may consume and inspect the queue.
	usableBy(s *session) bool
	// close forgets all messages and consumers and returns the latter.
	close() []*consumer
}

// settlement is what a consumer does with a delivery.
type settlement uint8

const (
	acknowledged settlement = iota
	rejected
	requeued
)

// Reasons for dead-lettering, in RabbitMQ's words.
const (
	reasonRejected      = "rejected"
	reasonExpired       = "expired"
	reasonDeliveryLimit = "delivery_limit"
	reasonMaxLength     = "maxlen"
)

// line is a quorum or classic queue: each message goes to one consumer.
type line struct {
	def    bus.Queue
	fabric *fabric
	owner  *session // of a temporary queue, else nil
	lock   bool     // it is there to be had, and for nothing else
	gone   bool     // deleted: what comes back to it is nowhere

	ready      []*message // by seq
	readers    []*consumer
	turn       int // index in readers of the one that is served next
	lastSeq    uint64
	lastReturn uint64      // likewise, of what came back to a quorum queue
	expiry     *time.Timer // set for the head, while it can expire
	stranded   []*message  // dead letters that their queue does not have yet
	sending    bool        // they are on their way
	unsent     []*message  // of them, those whose queue was missing
	again      *time.Timer // set while there are such
}

// firstSeq leaves room in front of what has never been handed out.
const firstSeq = 1 << 40

func newLine(def bus.Queue, f *fabric) *line { return &line{def: def, fabric: f, lastSeq: firstSeq} }

func (l *line) definition() bus.Queue  { return l.def }
func (l *line) messages() []*message   { return l.ready }
func (l *line) consumers() []*consumer { return l.readers }

func (l *line) depth() int { return len(l.ready) }

// counted: a quorum queue goes on counting a consumer that has been unsubscribed and holds something.
func (l *line) counted() int {
	if l.def.Kind == bus.Quorum {
		return len(l.readers)
	}
	return active(l.readers)
}

func (l *line) peek(s *session) bool {
	if len(l.ready) == 0 {
		return false
	}
	m := l.pop()
	if !m.handedOut {
		m.givenBack = s
	}
	l.takeBack(m)
	l.serve()
	return true
}

// usableBy: a lock belongs to the connection that publishes, which neither consumes nor looks.
func (l *line) usableBy(s *session) bool {
	return !l.lock && (l.owner == nil || l.owner == s)
}

func (l *line) full() bool {
	return l.def.MaxLength > 0 && !l.def.DropHead && len(l.ready) >= l.def.MaxLength
}

func (l *line) append(m *message) {
	if l.lock {
		return // its holder throws it away
	}
	l.lastSeq++
	m.seq = l.lastSeq
	m.at = time.Now()
	for _, wait := range []time.Duration{l.def.TTL, m.props.Expiration} {
		if at := m.at.Add(wait); wait > 0 && (m.expires.IsZero() || at.Before(m.expires)) {
			m.expires = at
		}
	}
	l.ready = append(l.ready, m)
	l.serve()
	for l.def.DropHead && l.def.MaxLength > 0 && len(l.ready) > l.def.MaxLength {
		l.discard(l.pop(), reasonMaxLength)
	}
}

func (l *line) attach(c *consumer) {
	l.readers = append(l.readers, c)
	l.serve()
}

// detach returns what the consumer held. In a quorum queue that counts against the
// delivery limit.
func (l *line) detach(c *consumer) {
	l.readers = slices.DeleteFunc(l.readers, func(other *consumer) bool { return other == c })
	l.takeBack(c.handBack()...)
	l.serve()
}

// takeBack puts what was handed out back: in a classic queue in its old place, in a quorum
// queue before what was never handed out and behind what came back earlier.
func (l *line) takeBack(messages ...*message) {
	if l.gone {
		return
	}
	for _, m := range messages {
		m.handedOut = true
		if l.def.Kind == bus.Quorum {
			m.returns++
			l.lastReturn++
			m.seq = l.lastReturn
		}
		if l.def.DeliveryLimit > 0 && m.returns > l.def.DeliveryLimit {
			l.discard(m, reasonDeliveryLimit)
			continue
		}
		l.ready = append(l.ready, m)
	}
	slices.SortFunc(l.ready, func(a, b *message) int { return int(int64(a.seq) - int64(b.seq)) })
}

func (l *line) settle(m *message, how settlement) {
	if l.gone {
		return
	}
	switch how {
	case rejected:
		l.discard(m, reasonRejected)
	case requeued:
		l.takeBack(m)
	}
	l.serve()
}

func (l *line) close() []*consumer {
	readers := l.readers
	l.gone, l.ready, l.readers, l.stranded, l.unsent = true, nil, nil, nil, nil
	l.serve() // stops the timer
	return readers
}

// serve drops what has expired at the head and hands out what consumers may
// have. It is called after every change.
func (l *line) serve() {
	for len(l.ready) > 0 {
		if head := l.ready[0]; !head.expires.IsZero() && !time.Now().Before(head.expires) {
			l.discard(l.pop(), reasonExpired)
			continue
		}
		c := l.nextReader()
		if c == nil {
			break
		}
		c.push(l.pop())
	}
	if l.expiry != nil {
		l.expiry.Stop()
		l.expiry = nil
	}
	if len(l.ready) > 0 && !l.ready[0].expires.IsZero() {
		l.expiry = time.AfterFunc(time.Until(l.ready[0].expires), func() {
			l.fabric.mu.Lock()
			defer l.fabric.mu.Unlock()
			l.serve()
		})
	}
}

func (l *line) pop() *message {
	m := l.ready[0]
	l.ready[0] = nil // lets go of it
	l.ready = l.ready[1:]
	return m
}

// nextReader picks, in turn, from the consumers of the highest priority that have
// credit; nil if none has.
func (l *line) nextReader() *consumer {
	var best *consumer
	last := l.turn
	for i := range l.readers {
		at := (last + 1 + i) % len(l.readers)
		if c := l.readers[at]; c.hasCredit() && (best == nil || c.sub.Priority > best.sub.Priority) {
			best, l.turn = c, at
		}
	}
	return best
}

// sendAgain is after how long a dead letter whose queue was missing is tried again, whether that has
// come meanwhile or not.
const sendAgain = 3 * time.Minute

// discard sends a message on as a dead letter, at least once: it is ready here no more,
// and on its way until the queue that it goes to has it. Without one it waits.
func (l *line) discard(m *message, reason string) {
	if l.def.DeadLetter == "" {
		return
	}
	dead := m.deadLetter(l.def.Name, reason, l.def.DeadLetter)
	if dead.goesRound() {
		return
	}
	l.stranded = append(l.stranded, dead)
	l.sendStranded()
}

// sendStranded has dead letters sent to their queue, in order and in their own time. With the queue
// that they come from they are lost on the way.
func (l *line) sendStranded() {
	if l.sending || len(l.stranded) == 0 {
		return
	}
	l.sending = true
	go func() {
		l.fabric.mu.Lock()
		defer l.fabric.mu.Unlock()
		defer func() { l.sending = false }()
		for len(l.stranded) > 0 {
			l.fabric.between("dead-letter " + l.def.Name)
			if len(l.stranded) == 0 {
				return
			}
			dead := l.stranded[0]
			l.stranded = l.stranded[1:]
			if target := l.fabric.queues[l.def.DeadLetter]; target != nil {
				target.append(dead)
			} else {
				l.sendLater(dead)
			}
		}
	}()
}

// sendLater keeps a dead letter whose queue is missing.
func (l *line) sendLater(dead *message) {
	l.unsent = append(l.unsent, dead)
	if l.again != nil {
		return
	}
	l.again = time.AfterFunc(sendAgain, func() {
		l.fabric.mu.Lock()
		defer l.fabric.mu.Unlock()
		l.stranded = append(l.stranded, l.unsent...)
		l.unsent, l.again = nil, nil
		l.sendStranded()
	})
}
