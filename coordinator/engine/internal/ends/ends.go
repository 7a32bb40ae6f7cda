package ends

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"taskbus/coordinator"
)

const (
	// maxRecent bounds the tasks that are kept: more than can be under way to the broker at once.
	maxRecent = 8192
	// Young is how old those may be that a snapshot has: results are not read again from that far back, but where
	// the broker was away, and no snapshot was written.
	Young = time.Minute
)

// End is that of a task.
type End struct {
	Task *coordinator.Task
	At   time.Time // of its latest result; zero: shortly before the end of a term
}

// IsYoung reports whether a snapshot has it.
func (x End) IsYoung(now time.Time) bool { return x.At.IsZero() || now.Sub(x.At) < Young }

// Ends are those that may be announced again.
type Ends struct {
	recent map[coordinator.TaskKey]End
	ring   []coordinator.TaskKey // each once, in the order in which they came
	next   int                   // where the next goes once the ring is full

	failures  []*coordinator.Fail // pending, in the order in which they came
	announced map[coordinator.TaskKey]struct{}
}

// New returns an empty Ends.
func New() Ends {
	return Ends{recent: make(map[coordinator.TaskKey]End), announced: make(map[coordinator.TaskKey]struct{})}
}

// Keep takes in a task; of one id the latest stays.
func (s *Ends) Keep(now time.Time, key coordinator.TaskKey, t *coordinator.Task) {
	_, known := s.recent[key]
	s.recent[key] = End{t, now}
	switch {
	case known:
	case len(s.ring) < maxRecent:
		s.ring = append(s.ring, key)
	default:
		delete(s.recent, s.ring[s.next])
		s.ring[s.next] = key
		s.next = (s.next + 1) % maxRecent
	}
}

// Task returns what a task was accepted with; nil when that is not known any more.
func (s *Ends) Task(key coordinator.TaskKey) *coordinator.Task { return s.recent[key].Task }

// Heard notes that a result of the task has come once more: the next leader may read that one, too. It returns what
// the task was accepted with, and whether a snapshot may have been without that until now.
func (s *Ends) Heard(now time.Time, key coordinator.TaskKey) (t *coordinator.Task, late bool) {
	end, known := s.recent[key]
	if known {
		s.recent[key] = End{end.Task, now}
	}
	return end.Task, known && now.Sub(end.At) >= Young
}

// Recent yields the ends that are kept, in the order in which they came.
func (s *Ends) Recent() iter.Seq2[coordinator.TaskKey, End] {
	return func(yield func(coordinator.TaskKey, End) bool) {
		for i := range s.ring {
			if key := s.ring[(s.next+i)%len(s.ring)]; !yield(key, s.recent[key]) {
				return
			}
		}
	}
}

// TermEnded notes that a term has ended, of which the latest record is of that time: what was announced shortly before
// by its clock, which may be another, is young to the next leader.
func (s *Ends) TermEnded(at time.Time) {
	for key, end := range s.recent { // order does not matter: each by itself
		if at.Sub(end.At) < Young {
			s.recent[key] = End{end.Task, time.Time{}}
		}
	}
}

// SessionOpened sets the time of the ends that are young to now.
func (s *Ends) SessionOpened(now time.Time) {
	for key, end := range s.recent { // likewise
		if end.At.IsZero() {
			s.recent[key] = End{end.Task, now}
		}
	}
}

// AddFailure adds a failure, to be published until it is acknowledged.
func (s *Ends) AddFailure(f *coordinator.Fail) { s.failures = append(s.failures, f) }

// AckFailure takes the oldest failure of a task off; false when there is none.
func (s *Ends) AckFailure(key coordinator.TaskKey) bool {
	i := slices.IndexFunc(s.failures, func(f *coordinator.Fail) bool { return coordinator.KeyOf(f.Task.ID) == key })
	if i < 0 {
		return false
	}
	s.failures = slices.Delete(s.failures, i, i+1)
	return true
}

// Failures returns those that are pending. It must not be changed.
func (s *Ends) Failures() []*coordinator.Fail { return s.failures }

// Announce notes that the end of a task was announced while results were read again.
func (s *Ends) Announce(key coordinator.TaskKey) { s.announced[key] = struct{}{} }

// IsAnnounced reports whether the end of a task was announced while results were read again.
func (s *Ends) IsAnnounced(key coordinator.TaskKey) bool {
	_, is := s.announced[key]
	return is
}

// ForgetAnnounced ends the reading of results: what comes from here on is new.
func (s *Ends) ForgetAnnounced() { clear(s.announced) }

// Check returns what does not balance; nil: all is well.
func (s *Ends) Check() error {
	if len(s.ring) != len(s.recent) || len(s.ring) < maxRecent && s.next != 0 {
		return fmt.Errorf("%d ends are kept, in a ring of %d that goes on at %d", len(s.recent), len(s.ring), s.next)
	}
	for i, key := range s.ring {
		if _, is := s.recent[key]; !is {
			return fmt.Errorf("the end at %d of the ring is not kept", i)
		}
	}
	return nil
}
