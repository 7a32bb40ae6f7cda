package journaling

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/journal"
)

// When a snapshot is written: so that a start has not more than that to fold beside
// it, and that retention, which takes away the oldest segments only, never reaches the
// newest complete one.
const (
	snapshotRecords = 200_000
	// controlRecords is as how many records a change of quotas counts: to fold it is to build their
	// trees anew, which takes milliseconds where there are a thousand groups.
	controlRecords = 500
	snapshotBytes  = 64 << 20
	SnapshotEvery  = 10 * time.Minute // if anything was written since
	// snapshotAnyway is when one is written although nothing was: the segment with the
	// newest must not be the oldest when retention looks at them.
	snapshotAnyway = 24 * time.Hour
	// firstSnapshot is when a new leader writes one, if there was anything to fold.
	firstSnapshot = 10 * time.Second
)

// Snapshots is when the next snapshot is due, and where the newest complete one
// begins.
type Snapshots struct {
	complete atomic.Int64 // offset of the newest complete one; -1: none

	mu      sync.Mutex
	wanted  bool // out of turn, as soon as none is being written
	records int  // written since the latest began
	bytes   int
	began   time.Time
	name    string // of the one being written; empty: none
	offset  int64  // of its first part, once that was read back
	parts   int    // read back
	named   int64  // where the newest begins, by the latest message of the journal that says so
}

// begin takes over what is known when the session begins to lead. If anything was
// folded, a snapshot follows soon: it is not known how much lies behind the newest.
func (s *Snapshots) begin(now time.Time, complete int64, folded bool) {
	s.complete.Store(complete)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.named = now, complete
	if folded {
		s.records, s.began = 1, now.Add(firstSnapshot-SnapshotEvery)
	}
}

func (s *Snapshots) wrote(records, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records += records
	s.bytes += bytes
}

// Due reports whether a snapshot should be written now, and if so begins it.
func (s *Snapshots) Due(now time.Time, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.name != "":
		return false
	case s.wanted:
	case s.records == 0 && now.Sub(s.began) < snapshotAnyway:
		return false
	case s.records < snapshotRecords && s.bytes < snapshotBytes && now.Sub(s.began) < SnapshotEvery:
		return false
	}
	s.start(now, name)
	return true
}

// Want begins one out of turn if none is being written; else it is due when that is.
func (s *Snapshots) Want(now time.Time, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted = s.name != ""; !s.wanted {
		s.start(now, name)
	}
	return !s.wanted
}

// Later makes a snapshot begin at the next look.
func (s *Snapshots) Later() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = true
}

// Order begins one out of turn, whatever is being written.
func (s *Snapshots) Order(now time.Time, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(now, name)
}

func (s *Snapshots) start(now time.Time, name string) {
	s.name, s.offset, s.parts = name, -1, 0
	s.records, s.bytes, s.began, s.wanted = 0, 0, now, false
}

// read notes a part that was read back.
func (s *Snapshots) read(offset int64, c *journal.Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Snapshot != s.name || c.Number != s.parts {
		return
	}
	if s.parts == 0 {
		s.offset = offset
	}
	s.parts++
	if c.Last {
		s.complete.Store(s.offset)
		s.name = ""
	}
}

// names notes what a message says of where the newest complete one begins.
func (s *Snapshots) names(offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = offset
}

// Unnamed reports whether no message says yet where the newest complete one begins: a starting coordinator
// would read the one before it.
func (s *Snapshots) Unnamed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named != s.complete.Load()
}

// Snapshot has a snapshot of the engine written, after all commits that were made before. It is for the goroutine that
// makes the commits.
func (l *Ledger) Snapshot(image *engine.Image, name string) {
	l.queue <- written{image: image, name: name}
}

// readBack looks at a message of the journal while this session leads: its own. One of
// a later epoch is another leader's, from which on ours are void: the lock can have two holders while a
// cluster is torn apart, or where an operator has deleted it.
func (l *Ledger) readBack(d *bus.Delivery) {
	body, err := l.own.Take(d.Body)
	if body == nil && err == nil {
		return
	}
	var h journal.Header
	var chunk journal.Chunk
	part := false
	if err == nil {
		h, chunk, part, err = journal.DecodeChunk(body)
	}
	switch {
	case err != nil:
		l.Fault(l.fatal(fmt.Errorf("read back what was written to the journal at offset %d: %w", d.Offset, err)))
	case h.Epoch > l.epochClaimed():
		l.Fault(fmt.Errorf("another coordinator leads since epoch %d; this one led in epoch %d", h.Epoch, l.epochClaimed()))
	case part:
		l.Snapshots.read(d.Offset, &chunk)
		l.sink(&Message{ledger: l, SnapshotRead: true})
	}
}

// epochClaimed returns the epoch in which this session leads.
func (l *Ledger) epochClaimed() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader.Epoch()
}

// snapshotOf returns the records of a snapshot: what readers see of recent tasks, and the engine's state, which
// says what has become of those with ends that had not been carried out yet.
func (l *Ledger) snapshotOf(m *engine.Image) iter.Seq[coordinator.Record] {
	return func(yield func(coordinator.Record) bool) {
		for t := range l.Before {
			if !yield(t) {
				return
			}
		}
		m.Records(yield)
	}
}

// beginSnapshot publishes the first part of one, before any commit that follows; the others go between commits.
func (l *Ledger) beginSnapshot(w written) {
	l.out.SnapshotAt(l.Snapshots.complete.Load())
	first, rest := l.out.Snapshot(w.image.At(), w.name, l.snapshotOf(w.image))
	if p, err := l.publishPart(first); err == nil {
		l.Workers.Go(func() {
			if l.writeSnapshot(p, rest) && w.owed {
				l.owed.Add(-1)
			}
		})
	}
}

// part is one part of a snapshot on its way: the broker's answer is waited for.
type part <-chan bus.Outcome

// publishPart publishes one part of a snapshot.
func (l *Ledger) publishPart(body []byte) (part, error) {
	p := make(chan bus.Outcome, 1)
	token := l.Tickets.Issue(func(outcome bus.Outcome) { p <- outcome })
	if err := l.publish(body, token); err != nil {
		l.Tickets.Redeem(token)
		return nil, err
	}
	l.Metrics.Bytes.Add(float64(len(body)))
	return p, nil
}

// writeSnapshot publishes the parts of a snapshot after the first, each when the one
// before is confirmed: few are on their way at a time, so that commits, which tasks
// wait for, pass between them. It reports whether all are.
func (l *Ledger) writeSnapshot(p part, rest iter.Seq[[]byte]) bool {
	if !l.awaitPart(p) {
		return false
	}
	for body := range rest {
		failpoint.Hit(failpoint.DuringSnapshot)
		p, err := l.publishPart(body)
		if err != nil || !l.awaitPart(p) {
			return false
		}
	}
	return true
}

// awaitPart waits for the broker to take a part; false when the session ends.
func (l *Ledger) awaitPart(p part) bool {
	select {
	case outcome := <-p:
		if outcome != bus.Confirmed && outcome != bus.Unknown {
			l.Fault(errNotTaken(outcome))
		}
		return outcome == bus.Confirmed
	case <-l.Bus.Done():
		return false
	}
}
