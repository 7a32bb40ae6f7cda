package unresolved

import (
	"fmt"
	"iter"
	"maps"
	"time"

	"taskbus/coordinator"
)

// An acknowledgement may be under way for AckDoubt, or behind maxAcks others: a session that ends then may take it
// with it. They are sent in batches, and RabbitMQ keeps those of a quorum queue back that come too fast (see
// bus/amqpbus).
const (
	AckDoubt = 2 * time.Second
	maxAcks  = 8192
	// ShortSession may end before everything was delivered again that is to be.
	ShortSession = 30 * time.Second
)

// Ack is a task with its message acknowledged a moment ago.
type Ack struct {
	Key coordinator.TaskKey
	At  time.Time
}

// Messages are those that may come again.
type Messages struct {
	acks []Ack // the latest, a ring
	next int   // where the next goes once the ring is full
	// unanswered dispatches of the session at hand: their messages are the broker's.
	unanswered map[coordinator.TaskKey]int
	// expected may come in the session at hand, of those before.
	expected map[coordinator.TaskKey]int
}

// New returns Messages without any.
func New() Messages {
	return Messages{unanswered: make(map[coordinator.TaskKey]int), expected: make(map[coordinator.TaskKey]int)}
}

// Acked notes that the message of a task was acknowledged.
func (m *Messages) Acked(now time.Time, key coordinator.TaskKey) {
	ack := Ack{key, now}
	if len(m.acks) < maxAcks {
		m.acks = append(m.acks, ack)
		return
	}
	m.acks[m.next] = ack
	m.next = (m.next + 1) % maxAcks
}

// Unanswered notes that the broker has the message of a task: its dispatch was published and never answered, or the
// task was given up.
func (m *Messages) Unanswered(key coordinator.TaskKey) { m.unanswered[key]++ }

// Expect notes that one more message of a task may come in this session.
func (m *Messages) Expect(key coordinator.TaskKey) { m.expected[key]++ }

// SetExpected takes over from a snapshot how many may come.
func (m *Messages) SetExpected(key coordinator.TaskKey, n int) { m.expected[key] = n }

// SessionLost notes what the next session may bring. What did not come in a session that was long enough will not
// come any more, but what MayBeHeld names: it may have come, and have been held unacknowledged as it ended.
func (m *Messages) SessionLost(now time.Time, lasted time.Duration, mayBeHeld func(coordinator.TaskKey) bool) {
	if lasted >= ShortSession {
		maps.DeleteFunc(m.expected, func(key coordinator.TaskKey, _ int) bool { return !mayBeHeld(key) })
	}
	for key, n := range m.unanswered { // order does not matter: it is a sum
		m.expected[key] += n
	}
	for ack := range m.Acks(now) {
		m.expected[ack.Key]++
	}
	m.acks, m.next = nil, 0
	clear(m.unanswered)
}

// Came takes one message that was delivered again off; false when none was expected.
func (m *Messages) Came(key coordinator.TaskKey) bool {
	for _, in := range []map[coordinator.TaskKey]int{m.expected, m.unanswered} {
		if n := in[key]; n > 1 {
			in[key] = n - 1
			return true
		} else if n == 1 {
			delete(in, key)
			return true
		}
	}
	return false
}

// Counts returns how many messages of each task may come, in this session or the next.
func (m *Messages) Counts() map[coordinator.TaskKey]int {
	counts := maps.Clone(m.expected)
	for key, n := range m.unanswered { // order does not matter: it is a sum
		counts[key] += n
	}
	return counts
}

// Acks yields the acknowledgements that may be under way.
func (m *Messages) Acks(now time.Time) iter.Seq[Ack] {
	return func(yield func(Ack) bool) {
		for _, ack := range m.acks {
			if now.Sub(ack.At) < AckDoubt && !yield(ack) {
				return
			}
		}
	}
}

// Check returns what does not balance; nil: all is well.
func (m *Messages) Check() error {
	if n := len(m.acks); n > maxAcks || n < maxAcks && m.next != 0 {
		return fmt.Errorf("the ring has %d acknowledgements, and goes on at %d", n, m.next)
	}
	for _, counts := range []map[coordinator.TaskKey]int{m.expected, m.unanswered} {
		for _, n := range counts { // order does not matter: as a rule nothing is found
			if n <= 0 {
				return fmt.Errorf("%d messages of a task may come again", n)
			}
		}
	}
	return nil
}
