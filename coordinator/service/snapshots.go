package service

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

// snapshotting is when the next snapshot is due, and where the newest complete one
// begins.
type snapshotting struct {
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
func (s *snapshotting) begin(now time.Time, complete int64, folded bool) {
	s.complete.Store(complete)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.named = now, complete
	if folded {
		s.records, s.began = 1, now.Add(firstSnapshot-snapshotEvery)
	}
}

func (s *snapshotting) wrote(records, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records += records
	s.bytes += bytes
}

// due reports whether a snapshot should be written now, and if so begins it.
func (s *snapshotting) due(now time.Time, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.name != "":
		return false
	case s.wanted:
	case s.records == 0 && now.Sub(s.began) < snapshotAnyway:
		return false
	case s.records < snapshotRecords && s.bytes < snapshotBytes && now.Sub(s.began) < snapshotEvery:
		return false
	}
	s.start(now, name)
	return true
}

// want begins one out of turn if none is being written; else it is due when that is.
func (s *snapshotting) want(now time.Time, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted = s.name != ""; !s.wanted {
		s.start(now, name)
	}
	return !s.wanted
}

// later makes a snapshot begin at the next look.
func (s *snapshotting) later() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = true
}

// order begins one out of turn, whatever is being written.
func (s *snapshotting) order(now time.Time, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(now, name)
}

func (s *snapshotting) start(now time.Time, name string) {
	s.name, s.offset, s.parts = name, -1, 0
	s.records, s.bytes, s.began, s.wanted = 0, 0, now, false
}

// read notes a part that was read back.
func (s *snapshotting) read(offset int64, c *journal.Chunk) {
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
func (s *snapshotting) names(offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = offset
}

// unnamed reports whether no message says yet where the newest complete one begins: a starting coordinator
// would read the one before it.
func (s *snapshotting) unnamed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named != s.complete.Load()
}

// readBack looks at a message of the journal while this session leads: its own. One of
// a later epoch is another leader's, from which on ours are void: the lock can have two holders while a
// cluster is torn apart, or where an operator has deleted it.
func (l *ledger) readBack(d *bus.Delivery) {
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
		l.r.fault(l.fatal(fmt.Errorf("read back what was written to the journal at offset %d: %w", d.Offset, err)))
	case h.Epoch > l.epochClaimed():
		l.r.fault(fmt.Errorf("another coordinator leads since epoch %d; this one led in epoch %d", h.Epoch, l.epochClaimed()))
	case part:
		l.snapshot.read(d.Offset, &chunk)
		l.nameSnapshot()
	}
}

// epochClaimed returns the epoch in which this session leads.
func (l *ledger) epochClaimed() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader.Epoch()
}

// takeSnapshots writes one whenever it is time.
func (l *ledger) takeSnapshots() {
	l.r.every(snapshotLook, func() bool {
		l.markOffset()
		l.nameSnapshot()
		if name := randomID(); !l.r.draining.Load() && l.snapshot.due(l.r.s.now(), name) {
			l.r.s.loop.within(l.r.number, func(now time.Time) {
				l.writer.queue <- written{image: l.imageOf(now), name: name}
			})
		}
		return true
	})
}

// quotasChanged journals the books as they are when the files change quotas. A starting coordinator reads
// the files as they are then: without a snapshot of this moment it would charge by them what was used
// before they were so. (Controls need none: the journal has them in their place among what was used.) It
// runs on the loop's goroutine, in the turn in which the quotas have changed.
func (s *Service) quotasChanged(now time.Time) {
	r := s.current.Load()
	if r == nil || r.number != s.loop.session || s.loop.commits == nil || r.draining.Load() {
		return // it does not lead, or keeps no journal
	}
	if rec := s.loop.recording; rec != nil { // its beginning must be in the journal before another snapshot is
		rec.flush()
		r.ledger.snapshot.later()
		return
	}
	if name := randomID(); r.ledger.snapshot.want(now, name) {
		r.ledger.writer.queue <- written{image: r.ledger.imageOf(now), name: name}
	}
}

// markOffset writes down how far results have been dealt with, if nothing else does, and what was
// recorded since the last time.
func (l *ledger) markOffset() {
	l.r.s.loop.within(l.r.number, func(now time.Time) {
		l.r.journalled(now)
		if rec := l.r.s.loop.recording; rec != nil {
			rec.flush()
		}
	})
}

// nameSnapshot has the journal say that a snapshot is complete, unless what is written anyway does.
func (l *ledger) nameSnapshot() {
	if !l.snapshot.unnamed() {
		return
	}
	l.r.s.loop.within(l.r.number, func(now time.Time) {
		if c := l.r.s.loop.commits; c != nil && l.snapshot.unnamed() {
			c.mark(now)
		}
	})
}

// snapshotOf returns the records of a snapshot: what readers see of recent tasks, and the engine's state, which
// says what has become of those with ends that had not been carried out yet.
func (l *ledger) snapshotOf(m *engine.Image) iter.Seq[coordinator.Record] {
	return func(yield func(coordinator.Record) bool) {
		for t := range l.r.s.history.before {
			if !yield(t) {
				return
			}
		}
		m.Records(yield)
	}
}

// publishPart publishes one part of a snapshot.
func (l *ledger) publishPart(body []byte) (*part, error) {
	p := &part{answered: make(chan bus.Outcome, 1)}
	token := l.r.tickets.issue(p)
	if err := l.publish(body, token); err != nil {
		l.r.tickets.redeem(token)
		return nil, err
	}
	l.r.s.metrics.journalBytes.Add(float64(len(body)))
	return p, nil
}

// writeSnapshot publishes the parts of a snapshot after the first, each when the one
// before is confirmed: few are on their way at a time, so that commits, which tasks
// wait for, pass between them. It reports whether all are.
func (l *ledger) writeSnapshot(p *part, rest iter.Seq[[]byte]) bool {
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
func (l *ledger) awaitPart(p *part) bool {
	select {
	case outcome := <-p.answered:
		if outcome != bus.Confirmed && outcome != bus.Unknown {
			l.r.fault(errNotJournalled(outcome))
		}
		return outcome == bus.Confirmed
	case <-l.r.bus.Done():
		return false
	}
}

// part is one part of a snapshot; its answer is waited for.
type part struct{ answered chan bus.Outcome }

func (p *part) settled(_ *session, outcome bus.Outcome) { p.answered <- outcome }
