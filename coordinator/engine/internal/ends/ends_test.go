package ends

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

var began = time.Unix(2_000_000_000, 0)

func keyOf(n int) coordinator.TaskKey { return coordinator.TaskKey{uint64(n)} }

// TestRecentIsBounded: the oldest goes for a new one, and one that is known takes no second place.
func TestRecentIsBounded(t *testing.T) {
	s := New()
	for i := range maxRecent {
		s.Keep(began, keyOf(i), &coordinator.Task{})
	}
	newer := &coordinator.Task{}
	if s.Keep(began, keyOf(0), newer); s.Task(keyOf(0)) != newer || len(s.ring) != maxRecent {
		t.Errorf("%d are kept, of one id the latest", len(s.ring))
	}
	s.Keep(began, keyOf(maxRecent), newer)
	if s.Task(keyOf(0)) != nil || s.Task(keyOf(1)) == nil || len(s.recent) != maxRecent {
		t.Errorf("%d are kept, and the first not", len(s.recent))
	}
	var keys []coordinator.TaskKey
	for key, end := range s.Recent() {
		if keys = append(keys, key); end.Task == nil {
			t.Fatalf("nothing is known of %v", key)
		}
	}
	if len(keys) != maxRecent || keys[0] != keyOf(1) || keys[maxRecent-1] != keyOf(maxRecent) {
		t.Errorf("%d in order, from %v to %v", len(keys), keys[0], keys[len(keys)-1])
	}
}

// TestYoung: an end is young for a minute after its latest result, and what was young at the end of a term is until a
// minute after the next session has opened.
func TestYoung(t *testing.T) {
	s := New()
	s.Keep(began, keyOf(1), &coordinator.Task{})
	end := func() End { return s.recent[keyOf(1)] }
	if !end().IsYoung(began.Add(Young-1)) || end().IsYoung(began.Add(Young)) {
		t.Error("for a minute")
	}
	if task, late := s.Heard(began.Add(Young-1), keyOf(1)); task == nil || late {
		t.Error("a second result within the minute: a snapshot has the task")
	}
	if !end().IsYoung(began.Add(2*Young - 2)) {
		t.Error("a minute from the second result on")
	}
	if _, late := s.Heard(began.Add(2*Young-1), keyOf(1)); !late {
		t.Error("a minute later a snapshot may be without it")
	}
	if task, late := s.Heard(began, keyOf(2)); task != nil || late {
		t.Error("nothing is known of another")
	}
	last := began.Add(2*Young - 1)
	if s.TermEnded(last.Add(Young)); end().At.IsZero() {
		t.Error("it was old at the end of the term")
	}
	s.TermEnded(last.Add(Young - 1))
	if later := began.Add(time.Hour); !end().IsYoung(later) {
		t.Error("young until a session opens")
	} else if s.SessionOpened(later); !end().At.Equal(later) {
		t.Errorf("as of then: %v", end().At)
	}
}

// TestFailures: pending until acknowledged, one at a time, in their order.
func TestFailures(t *testing.T) {
	s := New()
	fail := func(id coordinator.TaskID) *coordinator.Fail {
		return &coordinator.Fail{Task: &coordinator.Task{ID: id}}
	}
	first, other, second := fail("a"), fail("b"), fail("a")
	for _, f := range []*coordinator.Fail{first, other, second} {
		s.AddFailure(f)
	}
	if !s.AckFailure(coordinator.KeyOf("a")) || !slices.Equal(s.Failures(), []*coordinator.Fail{other, second}) {
		t.Errorf("the oldest of a goes: %v", s.Failures())
	}
	if s.AckFailure(coordinator.KeyOf("c")) || len(s.Failures()) != 2 {
		t.Error("c has none")
	}
}

// TestAnnounced: until results are read no more.
func TestAnnounced(t *testing.T) {
	s := New()
	if s.Announce(keyOf(1)); !s.IsAnnounced(keyOf(1)) || s.IsAnnounced(keyOf(2)) {
		t.Error("1 was, 2 was not")
	}
	if s.ForgetAnnounced(); s.IsAnnounced(keyOf(1)) {
		t.Error("what comes from here on is new")
	}
}

// TestCheck: each way in which the ring and what is kept may differ is found.
func TestCheck(t *testing.T) {
	for name, spoil := range map[string]func(*Ends){
		"":              func(*Ends) {},
		"one is lost":   func(s *Ends) { delete(s.recent, keyOf(1)) },
		"one too many":  func(s *Ends) { s.recent[keyOf(3)] = End{} },
		"under another": func(s *Ends) { s.ring[0] = keyOf(3) },
		"not full":      func(s *Ends) { s.next = 1 },
	} {
		s := New()
		s.Keep(began, keyOf(1), &coordinator.Task{})
		s.Keep(began, keyOf(2), &coordinator.Task{})
		if spoil(&s); (s.Check() != nil) != (name != "") {
			t.Errorf("%s: %v", name, s.Check())
		}
	}
}
