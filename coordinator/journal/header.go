package journal

import (
	"time"

	"taskbus/coordinator"
)

// FormatVersion is the version of the format that this package writes. It is raised
// when an older reader would misunderstand a message: a field of a record changes
// its meaning, or one that counts things off gets another value. What an older
// reader can skip needs no new version (see the package's documentation).
const FormatVersion = 2

// Kind is what a message holds.
type Kind uint8

// The kinds. The numbers are part of the format and never change.
const (
	KindBatch    Kind = 1 // records, in order
	KindEpoch    Kind = 2 // a new leader
	KindSnapshot Kind = 3 // part of a snapshot: records that make up a whole state
	KindInputs   Kind = 4 // the inputs of the engine, for replay
	KindPiece    Kind = 5 // some bytes of a message that is too large for one
	lastKind          = KindPiece
)

// String is the word shown to people.
func (k Kind) String() string {
	switch k {
	case KindBatch:
		return "batch"
	case KindEpoch:
		return "epoch"
	case KindSnapshot:
		return "snapshot"
	case KindInputs:
		return "inputs"
	case KindPiece:
		return "piece"
	default:
		return "unknown"
	}
}

// Header precedes everything else in a message.
type Header struct {
	Kind Kind `rec:"-"` // as the next: before the fields
	// Version of the format that the message is written in. Written is always
	// FormatVersion, whatever it says here.
	Version uint8 `rec:"-"`
	// Epoch of the leader that wrote it. What has a lower one than a message before
	// it is void.
	Epoch uint64 `rec:"1"`
	// First is the number of the first record of a batch. Of an epoch: the number
	// that the next record will have. Of a snapshot: the number of the first record
	// that the snapshot does not contain. Of inputs: the number of the first of them
	// in their recording. All count from 1.
	First uint64 `rec:"2"`
	// Count of the records or inputs in the message.
	Count int `rec:"3"`
	// At is when it was written, by the leader's clock: the times in the message
	// are given relative to it.
	At time.Time `rec:"4"`
	// ResultOffset is where in the stream task.result reading must go on after
	// this message, SnapshotOffset where in the journal the newest complete snapshot
	// begins. -1: none.
	ResultOffset   int64 `rec:"5"`
	SnapshotOffset int64 `rec:"6"`
}

// Epoch is the body of a message of KindEpoch: the leader from now on.
type Epoch struct {
	// Nonce by which the leader knows its own message when it reads it back.
	Nonce string `rec:"1"`
	// Instance, Address of its HTTP server and Version of the program, for people.
	Instance string `rec:"2"`
	Address  string `rec:"3"`
	Version  string `rec:"4"`
	// Agents and Quotas are the versions of the leader's agents.yaml and quotas.yaml (see
	// config.Config.FileVersions), for those that stand by; empty: not said. A leader whose files
	// change says the same epoch again, with others.
	Agents string `rec:"5"`
	Quotas string `rec:"6"`
	// Lost is the loss of an earlier journal; nil: none, or it is acknowledged. It is said by the leader that
	// finds it with its claim of epoch 1, and like the files again when it changes. Later claims say nothing of
	// it: a Reader goes on with what was said before them. It is not changed once it is here.
	Lost *Loss `rec:"7"`
}

// Loss says that this journal was begun although there had been another one.
type Loss struct {
	At time.Time `rec:"1"`
	// Evidence is by what that is known.
	Evidence []string `rec:"2"`
	// Budgets says for people what has become of what was used of them; Restored: it was taken back.
	Budgets  string `rec:"3"`
	Restored bool   `rec:"4"`
}

// Chunk says which part of which snapshot a message of KindSnapshot is.
type Chunk struct {
	// Snapshot is its name, which no other has.
	Snapshot string `rec:"1"`
	// Number of the part, from 0. Last: no other follows.
	Number int  `rec:"2"`
	Last   bool `rec:"3"`
	// Leader that wrote it, and since when it led: a reader that begins here has not seen its epoch.
	Leader Epoch     `rec:"4"`
	Since  time.Time `rec:"5"`
}

// Message is one message of the journal, decoded.
type Message struct {
	Header
	// Epoch is set for KindEpoch, Chunk for KindSnapshot, Piece for KindPiece.
	Epoch *Epoch
	Chunk *Chunk
	Piece *Piece
	// Records of a batch or of a part of a snapshot.
	Records []coordinator.Record
}
