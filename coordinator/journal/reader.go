package journal

import (
	"errors"
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
	since, wrote, at time.Time // wrote: when the leader's newest message was written, or its claim
	result, snapshot int64

	// skipped, if set, is called with messages that are damaged; doubt says that one has
	// been passed over since the last batch, so that records may be missing.
	skipped func(offset int64, err error)
	doubt   bool
	joiner  Joiner
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

// Resume returns one that goes on where another has stopped: what it is given next is the
// message behind, or earlier ones again, whose records are dropped. epoch and next are what
// that one's Epoch and Next gave. doubt says that records may be missing there, because a
// message was passed over (see Doubts).
func Resume(epoch, next uint64, doubt bool) *Reader {
	return &Reader{next: next, epoch: epoch, begun: true, result: -1, snapshot: -1, doubt: doubt}
}

// Began reports whether a state to begin with was found: from then on Epoch, Next and Doubts
// say all that Resume needs.
func (r *Reader) Began() bool { return r.begun }

// Within reports whether what comes next may belong to a message whose first pieces have been taken:
// a Reader that Resume gives would not understand it.
func (r *Reader) Within() bool { return r.joiner.Open() }

// Doubts reports whether a damaged message was passed over since the last batch.
func (r *Reader) Doubts() bool { return r.doubt }

// Knows gives a new Reader what the header of the journal's last message says of the
// newest complete snapshot, before it comes to messages that know as much.
func (r *Reader) Knows(last Header) { r.snapshot = max(r.snapshot, last.SnapshotOffset) }

// Start says where a new Reader is to be given messages from, by the header of the
// journal's last message, whose SnapshotOffset is -1 where there is none. Of several that the
// broker gives as its last, it is the last of the highest epoch.
func Start(last Header) bus.Position {
	if last.SnapshotOffset < 0 {
		return bus.First()
	}
	return bus.At(last.SnapshotOffset)
}

// SkipCorrupt has the Reader pass over damaged messages, and accept that their
// records are missing. Each is reported, with its offset and what is wrong with it.
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

// Led is how long that leader has written, from its claim to its newest message, by its own clock.
func (r *Reader) Led() time.Duration { return r.wrote.Sub(r.since) }

// LastAt is when the newest message that is not void was written, claims apart.
func (r *Reader) LastAt() time.Time { return r.at }

// Take takes the message at an offset and gives the records that are to be folded
// now, in order. They are the caller's. After an error the Reader is of no more use:
// *CorruptError (unless SkipCorrupt), *VersionError, *GapError.
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
	body, err := r.joiner.Take(body)
	if err != nil || body == nil {
		return nil, at(offset, err, "")
	}
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
		m.special(&h, &m.leader)
		if h.Epoch == r.epoch && r.leader.Nonce != "" {
			if m.bad == "" && m.leader.Nonce == r.leader.Nonce { // it has news
				r.leader.Agents, r.leader.Quotas, r.leader.Lost = m.leader.Agents, m.leader.Quotas, m.leader.Lost
			}
			return nil, nil // it is claimed already: sent twice, or by two
		}
	case KindSnapshot:
		m.special(&h, &m.chunk)
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

// opens reports that it is the first part of a snapshot.
func (m *message) opens() bool { return m.Kind == KindSnapshot && m.chunk.Number == 0 }

// at gives an error its place, and the version of the writer of what is newer.
func at(offset int64, err error, by string) error {
	switch e := err.(type) {
	case *CorruptError:
		e.Offset = offset
	case *VersionError:
		e.Offset, e.By = offset, by
	}
	return err
}
