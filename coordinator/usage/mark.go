package usage

import (
	"encoding/binary"
	"errors"
	"time"

	"taskbus/coordinator"
)

// Mark is up to where the journal is in the rows. The zero value of a Mark is not a start:
// see NoMark.
type Mark struct {
	// Offset of the last message that is in the rows; -1: none. Check is its checksum, by which
	// the journal is known again.
	Offset int64
	Check  uint32
	// Epoch, Next and Doubts are what journal.Resume needs.
	Epoch, Next uint64
	Doubts      bool
	// Since is from when on everything is in the rows, but for the gaps; At when the last
	// message was written. Zero: nothing is.
	Since, At time.Time
	// Generation is how often the rows were made anew.
	Generation int64
}

// NoMark is the mark of rows that hold nothing.
func NoMark() Mark { return Mark{Offset: -1, Next: 1} }

// States of a reservation. One that has ended otherwise is told once, and not remembered.
const (
	stateOpen    = 0
	stateExpired = 1 // it may yet be settled
	// It had expired before what the rows hold, so that it is not among their expired ones.
	stateExpiredBefore = 2
)

// remembered is for how long one that has expired is known: longer than
// tombstone_ttl_seconds may be.
const remembered = 32 * 24 * time.Hour

// Reservation is one that is open, or has expired and may yet be settled.
type Reservation struct {
	ID coordinator.TaskKey
	// Key is whose row it counts in, on the day on which it was made.
	Key
	State int
	// Until it is remembered; zero of one that is open.
	Until time.Time
}

// Gap is a part of the journal that is not in the rows.
type Gap struct {
	// From, To: it lies between what was written then. To is zero while it is not known.
	From, To time.Time
	// Offset of the message that shows it.
	Offset int64
	// Lost reservations were open before it and had ended behind it: what they have used is not
	// known.
	Lost   int64
	Reason string
}

// State is all that a Projection goes on from.
type State struct {
	Mark Mark
	Open []Reservation
}

// Batch is what is to be changed to bring rows from one mark to another. All of it is done, or
// nothing.
type Batch struct {
	From, To Mark
	// Rows are to be added to those that are there; Expired may be below 0.
	Rows []Row
	// Put are reservations as they are now, Drop those that are not needed any more. Both in the
	// order of their ids.
	Put  []Reservation
	Drop []coordinator.TaskKey
	Gaps []Gap
}

// ErrOtherJournal says that the rows are not of this journal.
var ErrOtherJournal = errors.New("the journal is not the one that the history was made from: it was deleted and begun anew, or belongs to another broker; " +
	"`taskbus quota history --rebuild` takes this one over and keeps what is there, another TASKBUS_HISTORY begins a history of its own")

// checkOf is the checksum of a message of the journal: all its versions have it there.
func checkOf(body []byte) uint32 {
	if len(body) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint32(body[4:8])
}
