package journal

import (
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// Reader turns the messages of the journal, in the order of their offsets, into the
// records that are to be folded. It begins at record number 1, or at the first part
// of a snapshot: see [Start] for where to read from. It is not safe for concurrent
// use.
//
// Void is a message of a lower epoch than one before it. What has been folded
// already is dropped, so that messages which come twice do no harm; what is missing
// is a *GapError. A snapshot is folded only where reading begins. A later one says
// what is known already: the Reader notes whether it is complete, and where it
// begins.
type Reader struct {
	// begun: a state to begin with was found, and next is the number of the record
	// that comes next.
	begun bool
	next  uint64
	// opening is the snapshot that reading begins with, until its last part.
	opening *opening
	// later is the newest snapshot behind that, while it is incomplete.
	later parts

	epoch            uint64
	leader           Epoch
	since, at        time.Time
	result, snapshot int64

	// skipped, if set, is told of messages that are damaged; doubt says that one has
	// been passed over since the last batch, so that records may be missing.
	skipped func(offset int64, err error)
	doubt   bool
}

// parts are those of one snapshot that have been read.
type parts struct {
	name   string
	offset int64 // of the first
	count  int
}

// opening is the snapshot that reading begins with.
type opening struct {
	parts
	// held are the records that lie after the snapshot and came between its parts.
	held []coordinator.Record
	// doubt: a message was passed over since it began; it may have been a part.
	doubt bool
}

// NewReader returns one that has read nothing.
func NewReader() *Reader { return &Reader{next: 1, result: -1, snapshot: -1} }

// Knows tells a new Reader what the header of the journal's last message says of the
// newest complete snapshot, before it comes to messages that know as much.
func (r *Reader) Knows(last Header) { r.snapshot = max(r.snapshot, last.SnapshotOffset) }

// Start says where a new Reader is to be given messages from, by the header of the
// journal's last message; empty: it has none. Of several that the broker gives as its
// last, it is the last of the highest epoch.
func Start(last Header, empty bool) bus.Position {
	if empty || last.SnapshotOffset < 0 {
		return bus.First()
	}
	return bus.At(last.SnapshotOffset)
}

// SkipCorrupt has the Reader pass over damaged messages, and accept that their
// records are missing. Each is told, with its offset and what is wrong with it.
func (r *Reader) SkipCorrupt(told func(offset int64, err error)) { r.skipped = told }

// Next is the number of the record that comes next.
func (r *Reader) Next() uint64 { return r.next }

// Epoch is the highest so far; 0 when there was none.
func (r *Reader) Epoch() uint64 { return r.epoch }

// Leader is whose epoch it is, and since when; empty when no message has said so.
func (r *Reader) Leader() (Epoch, time.Time) { return r.leader, r.since }

// ResultOffset is where in the stream task.result reading must go on, given that all
// records so far are folded; -1: not known.
func (r *Reader) ResultOffset() int64 { return r.result }

// SnapshotOffset is where in the journal the newest snapshot begins that is known to
// be complete; -1: none.
func (r *Reader) SnapshotOffset() int64 { return r.snapshot }

// LastAt is when the newest message that is not void was written, claims apart.
func (r *Reader) LastAt() time.Time { return r.at }

// Take takes the message at an offset and gives the records that are to be folded
// now, in order. They are the caller's. After an error the Reader is of no more use:
// *CorruptError (unless SkipCorrupt), *NewerError, *GapError.
func (r *Reader) Take(offset int64, body []byte) ([]coordinator.Record, error) {
	records, err := r.take(offset, body)
	var damaged *CorruptError
	if r.skipped == nil || !errors.As(err, &damaged) {
		return records, err
	}
	r.skipped(offset, err)
	r.doubt = true
	if r.opening != nil {
		r.opening.doubt = true
	}
	return nil, nil
}

func (r *Reader) take(offset int64, body []byte) ([]coordinator.Record, error) {
	c, h, err := openMessage(body)
	if err != nil {
		return nil, at(offset, err, "")
	}
	if h.Epoch < r.epoch {
		return nil, nil
	}
	m := message{coder: c, Header: h, offset: offset}
	switch h.Kind {
	case KindEpoch:
		m.section(func(c *coder) { c.epoch(&m.leader) })
		if h.Epoch == r.epoch && r.leader.Nonce != "" {
			return nil, nil // it is claimed already: sent twice, or by two
		}
	case KindSnapshot:
		m.section(func(c *coder) { c.chunk(&m.chunk) })
	}
	// All that will be needed of the message is read before anything changes.
	if m.bad == "" && (h.Kind == KindBatch || h.Kind == KindSnapshot && !r.begun) {
		if m.records, err = m.readRecords(h.Count); err != nil {
			return nil, at(offset, err, r.leader.Version)
		}
	}
	if m.bad != "" {
		return nil, at(offset, corrupt(m.bad), "")
	}

	held, err := r.enter(&m)
	if err != nil {
		return nil, err
	}
	var own []coordinator.Record
	switch h.Kind {
	case KindEpoch:
		err = r.lead(&m)
	case KindBatch:
		own, err = r.batch(&m)
	case KindSnapshot:
		own, err = r.part(&m)
	}
	if held == nil {
		return own, err
	}
	return append(held, own...), err
}

// message is one that is being taken.
type message struct {
	coder
	Header
	offset  int64
	leader  Epoch // of KindEpoch
	chunk   Chunk // of KindSnapshot
	records []coordinator.Record
}

// opens tells that it is the first part of a snapshot.
func (m *message) opens() bool { return m.Kind == KindSnapshot && m.chunk.Number == 0 }

// at gives an error its place, and the version of who wrote what is newer.
func at(offset int64, err error, by string) error {
	switch e := err.(type) {
	case *CorruptError:
		e.Offset = offset
	case *NewerError:
		e.Offset, e.By = offset, by
	}
	return err
}

// enter heeds what every header says. Where the opening snapshot has thereby ended
// without its last part, it gives what was held for it.
func (r *Reader) enter(m *message) (held []coordinator.Record, err error) {
	if o := r.opening; o != nil && (m.Epoch > r.epoch || m.SnapshotOffset >= o.offset || o.doubt && m.opens() && m.chunk.Snapshot != o.name) {
		if !o.doubt {
			return nil, gap(m.offset, 0, 0, fmt.Sprintf("the snapshot that begins at offset %d, where reading began, has no end: its leader did not finish it", o.offset))
		}
		held = r.finish()
	}
	if m.Epoch > r.epoch {
		r.epoch, r.leader, r.since, r.later = m.Epoch, Epoch{}, m.At, parts{}
	}
	if m.Kind == KindSnapshot && r.leader.Nonce == "" {
		r.leader, r.since = m.chunk.Leader, m.chunk.Since
	}
	r.snapshot = max(r.snapshot, m.SnapshotOffset)
	if m.Kind != KindEpoch { // whoever claims comes later than what he is to go on from
		r.at = m.At
	}
	return held, nil
}

// lead takes the claim of a new leader.
func (r *Reader) lead(m *message) error {
	r.leader, r.since = m.leader, m.At
	if r.result < 0 {
		r.result = m.ResultOffset
	}
	if r.opening != nil || !r.begun && m.First > 1 {
		return nil // a snapshot is being read, or may follow
	}
	r.begun = true
	return r.hole(m)
}

// hole refuses that records are missing before those of the message, unless they
// were passed over.
func (r *Reader) hole(m *message) error {
	if m.First <= r.next {
		return nil
	}
	if !r.doubt {
		return gap(m.offset, r.next, m.First, fmt.Sprintf("records %d to %d are missing before it", r.next, m.First-1))
	}
	r.next = m.First
	return nil
}

// batch takes records, and gives those that are to be folded now.
func (r *Reader) batch(m *message) ([]coordinator.Record, error) {
	end := m.First + uint64(m.Count)
	if !r.begun && r.opening == nil {
		if m.First > 1 && !r.doubt {
			return nil, nil // a snapshot may follow; if none does, Check says so
		}
		r.begun = true
	}
	if end < r.next || end == r.next && m.Count > 0 {
		return nil, nil // folded already, or part of the snapshot
	}
	if err := r.hole(m); err != nil {
		return nil, err
	}
	fresh := m.records[min(r.next-m.First, uint64(m.Count)):]
	r.next, r.doubt = end, false
	if m.ResultOffset >= 0 {
		r.result = m.ResultOffset
	}
	if r.opening != nil {
		r.opening.held = append(r.opening.held, fresh...)
		return nil, nil
	}
	return fresh, nil
}

// part takes a part of a snapshot, and gives what is to be folded now.
func (r *Reader) part(m *message) ([]coordinator.Record, error) {
	if r.begun {
		r.note(m)
		return nil, nil
	}
	if r.opening == nil {
		if m.chunk.Number > 0 && !r.doubt {
			return nil, nil // the rest of one whose beginning is gone
		}
		r.opening = &opening{parts: parts{name: m.chunk.Snapshot, offset: m.offset}, doubt: r.doubt}
		r.next, r.result, r.doubt = m.First, m.ResultOffset, false
	}
	o := r.opening
	switch {
	case m.chunk.Snapshot != o.name || m.chunk.Number < o.count:
		return nil, nil // came twice
	case m.chunk.Number > o.count && !o.doubt:
		return nil, gap(m.offset, 0, 0, fmt.Sprintf("part %d of the snapshot that begins at offset %d is missing before it", o.count, o.offset))
	}
	o.count = m.chunk.Number + 1
	if !m.chunk.Last {
		return m.records, nil
	}
	if !o.doubt {
		r.snapshot = max(r.snapshot, o.offset)
	}
	return append(m.records, r.finish()...), nil
}

// finish ends the opening snapshot, and gives what was held for it.
func (r *Reader) finish() []coordinator.Record {
	held := r.opening.held
	r.opening, r.begun = nil, true
	return held
}

// note counts the parts of a snapshot that is not folded.
func (r *Reader) note(m *message) {
	k := &m.chunk
	if m.opens() && k.Snapshot != r.later.name {
		r.later = parts{name: k.Snapshot, offset: m.offset}
	}
	switch {
	case k.Snapshot != r.later.name || k.Number < r.later.count:
		return // came twice, or its beginning is gone
	case k.Number > r.later.count:
		r.later = parts{} // a part is missing: it will never be complete
		return
	}
	r.later.count++
	if k.Last {
		r.snapshot = max(r.snapshot, r.later.offset)
	}
}

// Check tells, at the end of the journal, whether a state was found to go on from;
// an empty journal has one. The error is a *GapError.
func (r *Reader) Check() error {
	switch {
	case r.opening != nil:
		return gap(-1, 0, 0, fmt.Sprintf("the snapshot that begins at offset %d of %s, where reading began, has no end", r.opening.offset, bus.StreamJournal))
	case !r.begun && r.epoch > 0:
		return gap(-1, 0, 0, "it no longer holds its beginning and no complete snapshot")
	}
	return nil
}

func gap(offset int64, want, got uint64, reason string) error {
	return &GapError{Offset: offset, Want: want, Got: got, Reason: reason}
}
