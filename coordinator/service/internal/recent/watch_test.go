package recent_test

import (
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/recent"
)

// has reports whether there is news, and takes it.
func has(w *recent.Watch) bool {
	select {
	case <-w.News:
		return true
	default:
		return false
	}
}

// Whatever changes a task's record is told to all that watch it, also before it is known, once for many changes; not
// to those that watch another task, or have stopped; and looking changes nothing.
func TestWatchesAreTold(t *testing.T) {
	s := newStory()
	one, two, other, gone := s.Watch("t-1"), s.Watch("t-1"), s.Watch("t-2"), s.Watch("t-1")
	gone.Stop()
	for _, c := range []struct {
		name string
		does func()
		want bool
	}{
		{"nothing", func() {}, false},
		{"accepted", func() { s.Accepted(s.task, true) }, true},
		{"looked at", func() {
			s.Find("t-1")
			s.Recent(10, func(*recent.Record) bool { return true })
		}, false},
		{"dispatching", func() { s.dispatch("a1", 1) }, true},
		{"settled", func() { s.Settled(dispatchOf(s.task, "a1", 1, s.at), coordinator.PublishConfirmed, s.at) }, true},
		{"came back, and out again", func() { s.comesBack("a1", 1, coordinator.ReturnExpired); s.dispatch("a2", 2) }, true},
		{"ended", func() { s.ends("a2", 2, coordinator.OutcomeSucceeded, "") }, true},
		{"by the journal", func() {
			s.Follow(s.at, []coordinator.Record{&coordinator.Remembered{Key: coordinator.KeyOf("t-1"), ID: "t-1"}})
		}, true},
	} {
		c.does()
		for i, w := range []*recent.Watch{one, two} {
			if got := has(w); got != c.want {
				t.Errorf("%s: watch %d has news: %v", c.name, i, got)
			}
			if has(w) {
				t.Errorf("%s: watch %d has it twice", c.name, i)
			}
		}
		if has(other) || has(gone) {
			t.Errorf("%s: told to one that does not watch it", c.name)
		}
	}
	one.Stop()
	s.Failed(timeoutOf(s.task, s.at.Add(1e12)))
	if has(one) || !has(two) {
		t.Error("one that has stopped takes the other along")
	}
}
