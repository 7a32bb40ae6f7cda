package journal

import (
	"fmt"
	"strconv"

	"taskbus/coordinator/bus"
)

// VersionError is a message that another version of Taskbus has written, in a way that
// this one does not understand. Nothing may be skipped: what it says counts.
type VersionError struct {
	// Offset of the message in the journal; -1: not known.
	Offset int64
	// What is not understood: "format version", "kind of message", "kind of record".
	What string
	// Found is what the message has, Known the highest that is understood. A Found below it is a format version that
	// is read no more.
	Found, Known uint64
	// By is the version of the program that wrote it; empty: not known.
	By string
}

// Older reports whether an older version wrote it.
func (e *VersionError) Older() bool { return e.Found < e.Known }

func (e *VersionError) Error() string {
	if e.Older() {
		return fmt.Sprintf("%s: %s %d, and this version of taskbus reads only %d: an older version of taskbus wrote it; "+
			"start that version, or begin with an empty journal (docs/howto/backup.md, \"When the journal cannot be read\")",
			place(e.Offset), e.What, e.Found, e.Known)
	}
	by := "a newer version of taskbus"
	if e.By != "" {
		by = "taskbus " + e.By
	}
	return fmt.Sprintf(
		"%s: %s %d, and this version of taskbus knows them up to %d: %s wrote it; start that version, or a later one",
		place(e.Offset), e.What, e.Found, e.Known, by)
}

// CorruptError is a message that is not what was written.
type CorruptError struct {
	// Offset of the message in the journal; -1: not known.
	Offset int64
	// Reason is what is wrong with it, without anything of what it says.
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged: %s; `taskbus serve --journal-skip-corrupt` goes on without what it says: "+
		"a task it speaks of may be dispatched once more (see docs/howto/backup.md)", place(e.Offset), e.Reason)
}

// GapError says that records are missing which the state cannot be rebuilt without.
type GapError struct {
	// Offset of the message that shows it; -1: not known.
	Offset int64
	// Want is the number of the record that should come, Got the one that came.
	// Both are 0 when it is a snapshot that is incomplete.
	Want, Got uint64
	// Reason in words.
	Reason string
}

func (e *GapError) Error() string {
	return fmt.Sprintf("%s: %s; see docs/howto/backup.md, \"When the journal cannot be read\"", place(e.Offset), e.Reason)
}

// place names a message of the journal for people.
func place(offset int64) string {
	if offset < 0 {
		return "a message of " + bus.StreamJournal
	}
	return "the message at offset " + strconv.FormatInt(offset, 10) + " of " + bus.StreamJournal
}
