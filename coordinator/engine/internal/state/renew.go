package state

import (
	"time"

	"taskbus/coordinator"
)

// renewalWritten is how long after a renewal of a lease that long the next is written: an agent may report progress
// many times a second, and the journal is not to hear of each.
func renewalWritten(timeout time.Duration) time.Duration {
	const least, part = time.Second, 8
	return max(least, timeout/part)
}

// Renew has a lease last as long as if it began now, if that is longer. Now and then it is written: what follows this
// leader knows no earlier deadline.
func (s *State) Renew(now time.Time, t *Task) {
	s.lengthen(t, now, 0)
	if t.Renewed.IsZero() || !now.Before(t.Renewed.Add(renewalWritten(t.Timeout))) {
		t.Renewed = now
		s.Commit(t.renewal())
	}
}

// lengthen has the time of a lease begin at an instant, and adds some, unless it lasts longer anyway.
func (s *State) lengthen(t *Task, from time.Time, add time.Duration) {
	deadline := from.Add(t.Timeout + LeaseMargin + add)
	if !deadline.After(t.Deadline) {
		return
	}
	t.Deadline, t.RunsFrom = deadline, from
	s.WatchLease(t)
}

// renewal is the record of the latest renewal that was written.
func (t *Task) renewal() *coordinator.Renewed {
	return &coordinator.Renewed{Key: t.Key, Attempt: t.Attempt, At: t.Renewed}
}

// foldRenewed takes over a renewal. Later ones, which are not written, may have followed it.
func (s *State) foldRenewed(r *coordinator.Renewed) {
	if t := s.LeaseOf(r.Key, r.Attempt); t != nil && t.Stage == Leased {
		t.Renewed = r.At
		s.lengthen(t, r.At, renewalWritten(t.Timeout))
	}
}
