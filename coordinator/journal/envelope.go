package journal

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"reflect"
	"unsafe"

	"taskbus/coordinator"
)

// The first bytes of every message, in every version of the format: what it is, and
// the CRC-32C of all that follows, the version first.
const (
	magic     = "TBJ\n"
	versionAt = len(magic) + 4
	kindAt    = versionAt + 1
	fieldsAt  = kindAt + 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendBatch appends a message with these records to dst. Kind and Count of h are
// filled in. Every record must be set; one that has no task gets an empty one.
func AppendBatch(dst []byte, h Header, records []coordinator.Record) []byte {
	h.Kind = KindBatch
	return appendRecords(dst, h, nil, records)
}

// AppendEpoch appends the message by which a leader begins.
func AppendEpoch(dst []byte, h Header, epoch Epoch) []byte {
	h.Kind = KindEpoch
	return appendRecords(dst, h, &epoch, nil)
}

// AppendSnapshot appends one part of a snapshot to dst. Kind and Count of h are
// filled in.
func AppendSnapshot(dst []byte, h Header, chunk Chunk, records []coordinator.Record) []byte {
	h.Kind = KindSnapshot
	return appendRecords(dst, h, &chunk, records)
}

func appendRecords(dst []byte, h Header, special any, records []coordinator.Record) []byte {
	var c coder
	c.begin(h.At)
	for _, r := range records {
		c.record(r)
	}
	h.Count = len(records)
	return c.appendMessage(dst, h, special)
}

// Decode reads a message, all of it. Texts in what it returns do not refer to body; of small records many
// are made at a time, so that keeping one keeps others, too. Of KindInputs it returns the header alone, of
// KindPiece what it is one of. Errors: *VersionError, *CorruptError.
func Decode(body []byte) (*Message, error) {
	c, h, err := openMessage(body)
	if err != nil {
		return nil, err
	}
	m := &Message{Header: h}
	switch h.Kind {
	case KindEpoch:
		m.Epoch = new(Epoch)
		c.special(&h, m.Epoch)
	case KindSnapshot:
		m.Chunk = new(Chunk)
		c.special(&h, m.Chunk)
	case KindPiece:
		m.Piece = new(Piece)
		c.special(&h, m.Piece)
	}
	if c.bad != "" {
		return nil, corrupt(c.bad)
	}
	if h.Kind == KindBatch || h.Kind == KindSnapshot {
		m.Records, err = c.readRecords(h.Count)
	}
	return m, err
}

// DecodeHeader checks a message and reads its header alone.
func DecodeHeader(body []byte) (Header, error) {
	_, h, err := openMessage(body)
	return h, err
}

// DecodeChunk is DecodeHeader, and returns which part of which snapshot the message
// is; false for one of another kind.
func DecodeChunk(body []byte) (Header, Chunk, bool, error) {
	c, h, err := openMessage(body)
	if err != nil || h.Kind != KindSnapshot {
		return h, Chunk{}, false, err
	}
	var chunk Chunk
	if c.special(&h, &chunk); c.bad != "" {
		return h, Chunk{}, false, corrupt(c.bad)
	}
	return h, chunk, true, nil
}

// record writes one record to out.
func (c *coder) record(r coordinator.Record) {
	k := records.of(r)
	k.fields.write(c, reflect.ValueOf(r).UnsafePointer())
	c.finish(k.number)
}

// appendMessage appends a message of what the coder has in out. special, if given,
// points to what its kind has between the header and that.
func (c *coder) appendMessage(dst []byte, h Header, special any) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, 0, 0, 0, 0, FormatVersion, byte(h.Kind))
	base := c.base
	c.base = 0 // its time is relative to 1970
	c.part(func() { headerFields.write(c, unsafe.Pointer(&h)) })
	if c.base = base; special != nil {
		c.part(func() { specials[h.Kind].write(c, reflect.ValueOf(special).UnsafePointer()) })
	}
	dst = append(dst, c.body...)
	c.body = c.body[:0]
	dst = append(dst, c.out...)
	binary.LittleEndian.PutUint32(dst[start+len(magic):], crc32.Checksum(dst[start+versionAt:], castagnoli))
	return dst
}

// openMessage checks a message and reads its header; what follows is open in the
// coder, and times in it are relative to the header's.
func openMessage(body []byte) (coder, Header, error) {
	if len(body) < fieldsAt || string(body[:len(magic)]) != magic {
		return coder{}, Header{}, corrupt("it is no message of the journal")
	}
	if binary.LittleEndian.Uint32(body[len(magic):]) != crc32.Checksum(body[versionAt:], castagnoli) {
		return coder{}, Header{}, corrupt("its checksum is wrong")
	}
	h := Header{Version: body[versionAt], Kind: Kind(body[kindAt])}
	switch {
	case h.Version == 0 || h.Kind == 0:
		return coder{}, h, corrupt(impossible)
	case h.Version != FormatVersion:
		return coder{}, h, &VersionError{Offset: -1, What: "format version", Found: uint64(h.Version), Known: FormatVersion}
	case h.Kind > lastKind:
		return coder{}, h, &VersionError{Offset: -1, What: "kind of message", Found: uint64(h.Kind), Known: uint64(lastKind)}
	}
	c := coder{budget: mostAllocated*len(body) + allocatedAnyway}
	c.open(body[fieldsAt:])
	rest := c.enter()
	headerFields.read(&c, unsafe.Pointer(&h))
	c.leave(rest)
	// An item is two bytes at least, its kind and its length.
	if c.bad == "" && (h.Count < 0 || h.Count > len(body)/2 || h.First > math.MaxUint64-uint64(h.Count) ||
		h.ResultOffset < -1 || h.SnapshotOffset < -1) {
		c.fail(impossible)
	}
	if c.bad != "" {
		return coder{}, h, corrupt(c.bad)
	}
	c.base, _ = nanoseconds(h.At)
	return c, h, nil
}

// mostAllocated is how many bytes reading allocates at most for each of a message, besides allocatedAnyway: fields
// that are not there take up no bytes. Messages that want more are refused; those of leaders need a tenth.
const mostAllocated, allocatedAnyway = 128, 64 << 10

func corrupt(reason string) error { return &CorruptError{Offset: -1, Reason: reason} }

// special reads what stands between header and items in a message of this kind. Its texts are copies: they keep
// nothing else of the message.
func (c *coder) special(h *Header, into any) {
	in := c.take(c.read())
	rest := c.in
	c.open(in[:len(in):len(in)])
	specials[h.Kind].read(c, reflect.ValueOf(into).UnsafePointer())
	if p, ok := into.(*Piece); ok && (p.Of == 0 || p.Of == KindPiece || p.From < 0 || p.Size <= p.From) {
		c.fail(impossible)
	}
	c.leave(rest)
}

// nextItem opens the next item of the message, after the strings before it, and
// gives its kind and what follows it; false at the end of the message.
func (c *coder) nextItem() (kind byte, rest []byte, ok bool) {
	for len(c.in) > 0 {
		kind = c.in[0]
		c.in = c.in[1:]
		item := c.take(c.read())
		if rest = c.in; c.bad != "" {
			break
		}
		if kind != defineString {
			c.open(item[:len(item):len(item)])
			return kind, rest, true
		}
		if c.allocates(uintptr(len(item)) + 2*reflect.TypeFor[string]().Size()) {
			c.strings = append(c.strings, string(item))
		}
	}
	return 0, nil, false
}

// readRecords reads the records of a message to its end.
func (c *coder) readRecords(count int) ([]coordinator.Record, error) {
	var free [len(recordTypes)]slab
	c.allocates(uintptr(count) * reflect.TypeFor[coordinator.Record]().Size())
	list := make([]coordinator.Record, 0, count)
	err := c.readItems(&records, "record", count, func(k *kind) {
		v := free[k.number].next(c, k, count-len(list)).Addr()
		k.fields.read(c, v.UnsafePointer())
		list = append(list, v.Interface().(coordinator.Record))
	})
	if err != nil || count == 0 {
		return nil, err
	}
	return list, nil
}

// slab makes the values of one kind; small and frequent ones many at a time. They live as long as any of theirs
// does: none is kept for long.
type slab struct {
	made reflect.Value
	used int
}

// next gives the next one; as many may follow as are left.
func (s *slab) next(c *coder, k *kind, left int) reflect.Value {
	const most = 256
	t := k.fields.typ
	if n := min(left, most); s.used > 0 && s.used < s.made.Len() {
		s.used++
	} else if !k.small || !c.allocates(uintptr(n)*t.Size()) {
		c.allocates(t.Size())
		return reflect.New(t).Elem()
	} else {
		s.made, s.used = reflect.MakeSlice(reflect.SliceOf(t), n, n), 1
	}
	return s.made.Index(s.used - 1)
}

// readItems reads so many records or inputs to the end of the message, each of which is open for read.
func (c *coder) readItems(of *kinds, what string, count int, read func(k *kind)) error {
	n := 0
	for ; ; n++ {
		number, rest, ok := c.nextItem()
		if !ok {
			break
		}
		if uint64(number) > of.last() {
			return &VersionError{Offset: -1, What: "kind of " + what, Found: uint64(number), Known: of.last()}
		}
		if n == count {
			c.fail(impossible)
		} else {
			read(of.numbered[number])
		}
		if c.bad != "" {
			break
		}
		c.in = rest
	}
	switch {
	case c.bad != "":
		return corrupt(c.bad)
	case n != count:
		return corrupt("it has not as many " + what + "s as it says")
	}
	return nil
}
