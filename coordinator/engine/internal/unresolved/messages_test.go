package unresolved

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

var (
	began = time.Unix(2_000_000_000, 0)
	a, b  = coordinator.TaskKey{1}, coordinator.TaskKey{2}
)

func none(coordinator.TaskKey) bool { return false }

// TestManyAcknowledgements: no more than maxAcks are looked at, the latest.
func TestManyAcknowledgements(t *testing.T) {
	m := New()
	for i := range maxAcks + 1 {
		m.Acked(began.Add(time.Duration(i)), coordinator.TaskKey{uint64(i)})
	}
	acks := slices.Collect(m.Acks(began))
	if len(acks) != maxAcks || acks[0].Key != (coordinator.TaskKey{maxAcks}) || acks[1].Key != a {
		t.Errorf("%d may be under way, the first %v and %v", len(acks), acks[0], acks[1])
	}
	if m.Acked(began, b); len(m.acks) != maxAcks || m.acks[1].Key != b || m.acks[2].Key != b {
		t.Error("the oldest goes first")
	}
}

// TestSessionLost: a message may come again whose dispatch was not answered, or whose acknowledgement is younger than
// two seconds.
func TestSessionLost(t *testing.T) {
	m := New()
	m.Unanswered(a)
	m.Acked(began.Add(-AckDoubt), b)
	m.Acked(began.Add(-AckDoubt+1), a)
	if n := m.Counts()[a]; n != 1 {
		t.Errorf("%d messages of a, want that of its dispatch", n)
	}
	m.SessionLost(began, time.Hour, none)
	if n := m.Counts(); n[a] != 2 || n[b] != 0 {
		t.Errorf("after the session %v, want 2 of a", n)
	}
	if got := []bool{m.Came(a), m.Came(a), m.Came(a), m.Came(b)}; !slices.Equal(got, []bool{true, true, false, false}) ||
		len(m.Counts()) != 0 {
		t.Errorf("came: %v, want 2 of a and none of b; left: %v", got, m.Counts())
	}
	if m.SessionLost(began, 0, none); len(m.Counts()) != 0 {
		t.Errorf("%v is left of a session without anything", m.Counts())
	}
}

// TestShortSession: what has not come in half a minute will not come, unless it may be held.
func TestShortSession(t *testing.T) {
	for _, c := range []struct {
		lasted time.Duration
		held   bool
		want   int
	}{{ShortSession - 1, false, 3}, {ShortSession, false, 0}, {ShortSession, true, 3}} {
		m := New()
		m.SetExpected(a, 2)
		m.Expect(a)
		m.SessionLost(began, c.lasted, func(coordinator.TaskKey) bool { return c.held })
		if n := m.Counts()[a]; n != c.want {
			t.Errorf("%+v: %d", c, n)
		}
	}
}

// TestCame: one that was expected goes before one of this session, and each is taken off once.
func TestCame(t *testing.T) {
	m := New()
	m.Expect(a)
	m.Unanswered(a)
	counts := m.Counts()
	if !m.Came(a) || len(m.expected) != 0 || m.unanswered[a] != 1 || counts[a] != 2 {
		t.Errorf("%v are expected, %v unanswered; there were %v", m.expected, m.unanswered, counts)
	}
}

// TestCheck: what no call can have left is found.
func TestCheck(t *testing.T) {
	for name, spoil := range map[string]func(*Messages){
		"":               func(*Messages) {},
		"counted to 0":   func(m *Messages) { m.expected[a]-- },
		"less than none": func(m *Messages) { m.unanswered[a] = -1 },
		"not full":       func(m *Messages) { m.next = 1 },
		"too many":       func(m *Messages) { m.acks = make([]Ack, maxAcks+1) },
	} {
		m := New()
		m.Expect(a)
		m.Unanswered(b)
		m.Acked(began, a)
		if spoil(&m); (m.Check() != nil) != (name != "") {
			t.Errorf("%s: %v", name, m.Check())
		}
	}
}
