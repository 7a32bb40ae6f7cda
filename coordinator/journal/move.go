package journal

import (
	"errors"
	"slices"
	"sort"
	"time"

	"taskbus/coordinator"
)

// Imported is the instance that claims the last epoch of a journal that was imported: it tells the next
// leader that no coordinator has led since.
const Imported = "taskbus journal import"

// ImportedAt is when an import ended with this message; zero: none did.
func ImportedAt(body []byte) time.Time {
	if h, err := DecodeHeader(body); err != nil || h.Kind != KindEpoch {
		return time.Time{}
	}
	m, err := Decode(body)
	if err != nil || m.Epoch.Instance != Imported {
		return time.Time{}
	}
	return m.At
}

// Mover makes of the messages of an export those of an empty stream. They say the same, but for where things are:
// offsets are those of the stream they come to. It is not safe for concurrent use.
type Mover struct {
	joiner  Joiner
	reader  *Reader // of what it has given
	results bool
	next    int64
	from    []int64         // offsets in the export, ascending, of the messages that have been given
	to      []int64         // where each begins now
	starts  map[int64]int64 // of snapshots
}

// NewMover returns one that has moved nothing. results: task.result is the same as before, so that what the
// messages say of where to read on in it still holds.
func NewMover(results bool) *Mover {
	return &Mover{reader: NewReader(), results: results, starts: make(map[int64]int64)}
}

// Take returns what is to be published in the place of the next message of the export, in order: nothing
// where it is a piece of one whose last piece is yet to come. An error says that no coordinator could go on
// from such a journal: *VersionError, *CorruptError, *GapError.
func (m *Mover) Take(e Exported) ([][]byte, error) {
	body, err := m.joiner.Take(e.Body)
	if err != nil || body == nil {
		return nil, at(e.Offset, err, "")
	}
	_, chunk, part, err := DecodeChunk(body)
	if err != nil {
		return nil, at(e.Offset, err, "")
	}
	if part && chunk.Number == 0 {
		m.starts[e.Offset] = m.next
	}
	m.from, m.to = append(m.from, e.Offset), append(m.to, m.next)
	moved := slices.Collect(Pieces(m.readdress(body)))
	for _, one := range moved {
		if _, err := m.reader.Take(m.next, one); err != nil {
			return nil, err
		}
		m.next++
	}
	return moved, nil
}

// Append returns messages of records that the export does not have, written at a time, which come next.
func (m *Mover) Append(at time.Time, records []coordinator.Record) ([][]byte, error) {
	w, err := NewWriter(m.reader)
	if err != nil {
		return nil, err
	}
	messages := w.Batch(at, records)
	for _, body := range messages {
		if _, err := m.reader.Take(m.next, body); err != nil {
			return nil, err
		}
		m.next++
	}
	return messages, nil
}

// End returns the last message: a claim, by an instance that will not lead. An error says that what has
// been given is no journal to go on from.
func (m *Mover) End(at time.Time, nonce, version string) ([]byte, error) {
	if m.next == 0 {
		return nil, errors.New("the export has no message")
	}
	if err := m.reader.Check(); err != nil {
		return nil, err
	}
	body := Claim(m.reader, at, Epoch{Nonce: nonce, Instance: Imported, Version: version})
	_, err := m.reader.Take(m.next, body)
	m.next++
	return body, err
}

// Reader is that of what has been given.
func (m *Mover) Reader() *Reader { return m.reader }

// Next is how many messages have been given: the offset of the one that comes next.
func (m *Mover) Next() int64 { return m.next }

// Offset is where the message now begins that was at an offset of the export, or the first behind it; false:
// there is none.
func (m *Mover) Offset(before int64) (int64, bool) {
	i := sort.Search(len(m.from), func(i int) bool { return m.from[i] >= before })
	if i == len(m.from) {
		return -1, false
	}
	return m.to[i], true
}

// readdress gives a message whose header says where things are now.
func (m *Mover) readdress(body []byte) []byte {
	c, h, _ := openMessage(body) // it was opened before
	if moved, ok := m.starts[h.SnapshotOffset]; ok {
		h.SnapshotOffset = moved
	} else {
		h.SnapshotOffset = -1 // it lies before the export
	}
	if !m.results {
		h.ResultOffset = -1
	}
	var w coder
	w.begin(h.At)
	w.out = c.in
	return w.appendMessage(make([]byte, 0, len(body)+spaceForHeader), h, nil)
}
