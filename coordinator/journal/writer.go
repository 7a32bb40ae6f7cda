package journal

import (
	"iter"
	"slices"
	"time"

	"taskbus/coordinator"
)

// MaxMessage is how many bytes the records of one message take up at most, unless a
// single one is larger.
const MaxMessage = 256 << 10

// spaceForHeader is what a message takes up beside its records, as a rule.
const spaceForHeader = 128

// Claim is the message by which a reader that has read the journal to its end becomes the leader, in the
// next epoch. If it has not, it is void, or harmless. It counts if, once it has been read back, the Leader
// of that Reader is the one of this Nonce; then [NewWriter] goes on from there.
func Claim(r *Reader, at time.Time, leader Epoch) []byte {
	return AppendEpoch(nil, Header{
		Epoch: r.Epoch() + 1, First: r.Next(), At: at,
		ResultOffset: r.ResultOffset(), SnapshotOffset: r.SnapshotOffset(),
	}, leader)
}

// Writer numbers the records of one epoch and makes messages of them, which are to
// be published in the order in which it gives them. It is not safe for concurrent
// use.
type Writer struct {
	coder            coder
	epoch            uint64
	leader           Epoch
	since            time.Time
	next             uint64
	result, snapshot int64
	limit            int // bytes of records in a message: MaxMessage
	piece            int // bytes of a message in one of its pieces: MaxPiece
}

// NewWriter goes on where r has come to, in its epoch and for its leader, whose
// claim r has read. A *GapError says that r has not found a state to begin with.
func NewWriter(r *Reader) (*Writer, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	w := &Writer{epoch: r.Epoch(), next: r.Next(), result: r.ResultOffset(), snapshot: r.SnapshotOffset(),
		limit: MaxMessage, piece: MaxPiece}
	w.leader, w.since = r.Leader()
	return w, nil
}

// Next is the number that the next record gets.
func (w *Writer) Next() uint64 { return w.next }

// Results says where in task.result reading must go on, once the records that are
// written from now on have been folded; -1: not known. What results before it have led
// to must be in records by then.
func (w *Writer) Results(offset int64) { w.result = offset }

// SnapshotAt says that the newest complete snapshot begins at this offset: its last
// part has been read back (see Reader.SnapshotOffset), or is confirmed.
func (w *Writer) SnapshotAt(offset int64) { w.snapshot = offset }

// News makes the message that says which files the leader has now, and which loss of an earlier journal is not
// acknowledged; nil if neither has changed since it was said.
func (w *Writer) News(at time.Time, agents, quotas string, lost *Loss) []byte {
	if w.leader.Agents == agents && w.leader.Quotas == quotas && w.leader.Lost == lost {
		return nil
	}
	w.leader.Agents, w.leader.Quotas, w.leader.Lost = agents, quotas, lost
	return AppendEpoch(nil, w.Header(at), w.leader)
}

// Header is that of a message at this moment.
func (w *Writer) Header(at time.Time) Header {
	return Header{Version: FormatVersion, Epoch: w.epoch, First: w.next, At: at, ResultOffset: w.result,
		SnapshotOffset: w.snapshot}
}

// Batch makes messages of the records, in order, of at most MaxMessage bytes; a record that is larger than
// MaxPiece goes in pieces. Without records it is one message with a header alone. The messages are the
// caller's.
func (w *Writer) Batch(at time.Time, records []coordinator.Record) [][]byte {
	messages := make([][]byte, 0, 1)
	w.coder.cut(at, w.limit, slices.Values(records), func(c *coder, count int, _ bool) bool {
		h := w.Header(at)
		h.Kind, h.Count = KindBatch, count
		whole := c.appendMessage(make([]byte, 0, len(c.out)+spaceForHeader), h, nil)
		for body := range pieces(whole, w.piece) {
			messages = append(messages, body)
		}
		w.next += uint64(count)
		return true
	})
	return messages
}

// Snapshot makes messages of a whole state as of now: all records numbered so far
// have been folded into it, none of those that follow. Name is one that no other
// snapshot has.
//
// The first message, without records, must be published before any batch that is
// made later: a reader that begins at it finds all of them. The rest follow in
// their order, at any later time, with batches in between. Their sequence may be run
// through beside other calls of the Writer, also on another goroutine; it runs
// through records meanwhile, and needs none of them any more once it asks for the
// next one.
func (w *Writer) Snapshot(at time.Time, name string, records iter.Seq[coordinator.Record]) (first []byte,
	rest iter.Seq[[]byte]) {
	h, limit, piece := w.Header(at), w.limit, w.piece
	opening := Chunk{Snapshot: name, Leader: w.leader, Since: w.since}
	return AppendSnapshot(nil, h, opening, nil), func(yield func([]byte) bool) {
		var c coder
		h, chunk := h, opening
		h.Kind = KindSnapshot
		c.cut(at, limit, records, func(c *coder, count int, last bool) bool {
			chunk.Number++
			h.Count, chunk.Last = count, last
			whole := c.appendMessage(make([]byte, 0, len(c.out)+spaceForHeader), h, &chunk)
			for body := range pieces(whole, piece) {
				if !yield(body) {
					return false
				}
			}
			return true
		})
	}
}

// cut writes records to out and calls full whenever no more of them fit in limit, and
// at the end, with how many there are; it ends when full says false.
func (c *coder) cut(at time.Time, limit int, records iter.Seq[coordinator.Record],
	full func(c *coder, count int, last bool) bool) {
	c.begin(at)
	count := 0
	for r := range records {
		before := len(c.out)
		c.record(r)
		count++
		if len(c.out) <= limit || count == 1 {
			continue
		}
		c.out = c.out[:before] // it begins the next message, with the strings that are new there
		if !full(c, count-1, false) {
			return
		}
		c.begin(at)
		c.record(r)
		count = 1
	}
	full(c, count, true)
}
