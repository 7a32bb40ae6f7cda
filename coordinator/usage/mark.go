package usage

import (
	"encoding/binary"
	"errors"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/view"
)

// Mark is up to where the journal is in the rows. The zero value of a Mark is not a start:
// see NoMark.
type Mark struct {
	// Offset of the last message that is in the rows; -1: none. Check is its checksum, by which
	// the journal is known again.
	Offset int64
	Check  uint32
	// Epoch and Next are what the journal.Reader had come to.
	Epoch, Next uint64
	// Again is from where a reader that goes on from here reads the journal again: up to the mark only for
	// which reservations are open that are not stored.
	Again From
	// Since is from when on everything is in the rows, but for the gaps; At when the last
	// message was written. Zero: nothing is.
	Since, At time.Time
	// Generation is how often the rows were made anew.
	Generation int64
}

// NoMark is the mark of rows that hold nothing.
func NoMark() Mark { return Mark{Offset: -1, Next: 1, Again: From{Next: 1}} }

// Start is from where the journal is to be given: from the mark itself at the latest, by which it
// is known again.
func (m *Mark) Start() int64 { return max(0, min(m.Offset, m.Again.Offset)) }

// Reservation is one that is open.
type Reservation struct {
	ID coordinator.TaskKey
	// Key is whose row it counts in, on the day on which it was made.
	Key
}

// Gap is a part of the journal that is not in the rows. To is zero while it is not known.
type Gap = view.HistoryGap

// State is all that a Projection goes on from.
type State struct {
	Mark Mark
	Open []Reservation
}

// Batch is what is to be changed to bring rows from one mark to another. All of it is done, or
// nothing.
type Batch struct {
	From, To Mark
	// Rows are to be added to those that are there.
	Rows []Row
	// Put are open reservations to be stored, Drop those stored that have ended. Both in the order
	// of their ids.
	Put  []Reservation
	Drop []coordinator.TaskKey
	Gaps []Gap
}

// ErrOtherJournal says that the rows are not of this journal.
var ErrOtherJournal = errors.New(
	"the journal is not the one that the history was made from: it was deleted and begun anew, or belongs to another " +
		"broker; " +
		"`taskbus quota history --rebuild` takes this one over and keeps what is there, another TASKBUS_HISTORY begins a " +
		"history of its own")

// Other tells of the message at the mark, or of the first one behind it where that is not there any
// more, that it is of another journal: by its checksum; or, because it was written before the mark's own,
// by what it says.
func (m *Mark) Other(offset int64, body []byte) bool {
	if offset == m.Offset {
		return checkOf(body) != m.Check
	}
	h, err := journal.DecodeHeader(body)
	return err == nil && (h.Epoch < m.Epoch || h.Kind == journal.KindBatch && h.First < m.Next)
}

// Moved is the mark in another stream that says the same: where its message is there, with the body that it
// has there, and from where the stream is to be read again.
func (m Mark) Moved(offset int64, body []byte, again int64) Mark {
	m.Offset, m.Check, m.Again.Offset = offset, checkOf(body), again
	return m
}

// Behind is the mark of rows that hold all that a reader has taken, of which this is the last message.
func (m Mark) Behind(r *journal.Reader, offset int64, body []byte) Mark {
	m.Epoch, m.Next = r.Epoch(), r.Next()
	m.Again = here(r, offset+1)
	return m.Moved(offset, body, offset+1)
}

// Onward finds where rows go on in another journal, whose messages it is given from the first on.
type Onward struct {
	mark   Mark
	reader *journal.Reader
	found  bool
	// To is where they go on, and From when that message was written. Begun: nothing that was open before can end
	// there.
	To    Mark
	From  time.Time
	Begun bool
}

// NewOnward is for rows up to a mark.
func NewOnward(m Mark) *Onward {
	o := &Onward{mark: m, reader: journal.NewReader()}
	o.reader.SkipCorrupt(func(int64, error) {}) // the coordinator reports it
	return o
}

// Found reports whether a message was found behind which nothing is in the rows, and before which all is: the first,
// of a journal that was begun after the mark; else the end of the latest import of what was written before it.
func (o *Onward) Found() bool { return o.found }

// Take takes the next message; more reports whether those behind it are to be looked at, too. Errors:
// ErrOtherJournal, the journal holds what the rows may or may not hold; those of a journal.Reader.
func (o *Onward) Take(offset int64, body []byte) (more bool, err error) {
	if _, err := o.reader.Take(offset, body); err != nil {
		return false, err
	}
	if o.reader.LastAt().After(o.mark.At) {
		if !o.found {
			return false, ErrOtherJournal
		}
		return false, nil
	}
	if h, err := journal.DecodeHeader(body); err == nil && (h.Kind == journal.KindBatch || h.Kind == journal.KindPiece) {
		o.found = false // the rows have records of behind the import: to read them again would count them twice
	}
	o.Begun = o.mark.BegunAfter(body)
	if o.Begun || !journal.ImportedAt(body).IsZero() && o.reader.Began() {
		o.To, o.found = o.mark.Behind(o.reader, offset, body), true
		if _, o.From = o.reader.Leader(); o.From.After(o.To.At) {
			o.To.At = o.From
		}
	}
	return !o.Begun, nil
}

// BegunAfter tells of the first message of another journal that all of it was written after what is in the
// rows: its first leader claims it, at a later time than that of the mark.
func (m *Mark) BegunAfter(first []byte) bool {
	h, err := journal.DecodeHeader(first)
	return err == nil && h.Kind == journal.KindEpoch && h.Epoch == 1 && h.First == 1 && h.At.After(m.At)
}

// checkOf is the checksum of a message of the journal: all its versions have it there.
func checkOf(body []byte) uint32 {
	if len(body) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint32(body[4:8])
}
