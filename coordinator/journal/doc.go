// Package journal answers one question: what has the leader decided and learnt?
// Another process can go on from there. It is the format of the stream coordinator.journal, the rules by which its
// messages become the records to be folded, and the numbering by which they are written.
//
// # Messages
//
// One AMQP message is one envelope:
//
//	"TBJ\n"                        the same in every version
//	CRC-32C, 4 bytes               of all that follows, little endian; in every version
//	version, kind                  a byte each, see FormatVersion and Kind
//	header                         length, then the fields of Header
//	special fields                 length, then those of Epoch (KindEpoch), Chunk (KindSnapshot), Piece (KindPiece)
//	items                          each: kind, length, fields
//
// An item is a record, an input (which its time precedes), or (kind 0) a string that later items refer to by
// its number: what comes again and again, like the ids of agents, is written once in a message.
//
// Fields are those of the structs of package coordinator and of this one, by the numbers in their tags `rec` (see
// schema.go), each encoded as protobuf does: number and wire type, value. A field that is zero is left out. Numbers
// are varints, zigzag where they may be negative; a time is its nanoseconds relative to the header's, after a length;
// hashes and checksums are little endian; a list has its number of elements before them, and an array has not.
//
// A message that is larger than MaxPiece goes to the stream in several of KindPiece, which have bytes of
// it in the place of items; see [Pieces] and [Joiner].
//
// # Versions
//
// What a later version adds to a struct an earlier one passes over, and what an earlier one has not written is zero.
// A number has one meaning for ever, also that of a field which is gone (testdata/fields.txt has them all). A kind of
// record or message that is not known is a *VersionError, and so is another format version: skipping it would give
// another state than the leader's. Whatever changes the meaning of fields, or adds a value to a closed set (a fate, a
// reason), raises FormatVersion.
//
// # Reading and writing
//
// [Reader] takes the messages of the stream in order and gives the records that are
// to be folded now: it drops what is void or folded already, keeps back what lies
// after a snapshot that is still being read, and refuses holes. [Writer] numbers
// records and cuts them into messages. [ReadExport] and [WriteExport] are the file in
// which `taskbus journal export` keeps messages: "TBJX\n", a version, of each message its offset + 1, length
// and bytes, then 0, their number and a CRC-32C of it all.
//
// # What it must never do
//
// It reads no clock, starts no goroutine, and does no I/O but on an io.Reader or
// io.Writer that it is given. It interprets no record: what they do to the state is
// the engine's business (package engine, Fold). Bytes from outside never make it
// panic, nor allocate more than a small multiple of their number.
package journal
