package journal

import (
	"encoding/binary"
	"hash/crc32"
	"math"

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
	var c coder
	c.begin(h.At)
	for _, r := range records {
		c.record(r)
	}
	h.Kind, h.Count = KindBatch, len(records)
	return c.appendMessage(dst, h, nil)
}

// AppendEpoch appends the message by which a leader begins.
func AppendEpoch(dst []byte, h Header, epoch Epoch) []byte {
	var c coder
	c.begin(h.At)
	h.Kind, h.Count = KindEpoch, 0
	return c.appendMessage(dst, h, func(c *coder) { c.leads(&epoch) })
}

// AppendSnapshot appends one part of a snapshot to dst. Kind and Count of h are
// filled in.
func AppendSnapshot(dst []byte, h Header, chunk Chunk, records []coordinator.Record) []byte {
	var c coder
	c.begin(h.At)
	for _, r := range records {
		c.record(r)
	}
	h.Kind, h.Count = KindSnapshot, len(records)
	return c.appendMessage(dst, h, func(c *coder) { c.chunk(&chunk) })
}

// Decode reads a message, all of it. Texts in what it returns do not refer to body; of small records many
// are made at a time, so that keeping one keeps others, too. Of KindInputs it returns the header alone, of
// KindPiece what it is one of. Errors: *NewerError, *CorruptError.
func Decode(body []byte) (*Message, error) {
	c, h, err := openMessage(body)
	if err != nil {
		return nil, err
	}
	m := &Message{Header: h}
	switch h.Kind {
	case KindEpoch:
		m.Epoch = new(Epoch)
		c.section(func(c *coder) { c.leads(m.Epoch) })
	case KindSnapshot:
		m.Chunk = new(Chunk)
		c.section(func(c *coder) { c.chunk(m.Chunk) })
	case KindPiece:
		m.Piece = new(Piece)
		c.section(func(c *coder) { c.piece(m.Piece) })
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
	c.section(func(c *coder) { c.chunk(&chunk) })
	if c.bad != "" {
		return h, Chunk{}, false, corrupt(c.bad)
	}
	return h, chunk, true, nil
}

// appendMessage appends a message of what the coder has in out. special, if given,
// are fields between the header and that.
func (c *coder) appendMessage(dst []byte, h Header, special func(*coder)) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, 0, 0, 0, 0, FormatVersion, byte(h.Kind))
	c.header(&h)
	if special != nil {
		c.part(special)
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
	case h.Version > FormatVersion:
		return coder{}, h, &NewerError{Offset: -1, What: "format version", Found: uint64(h.Version), Known: FormatVersion}
	case h.Kind > lastKind:
		return coder{}, h, &NewerError{Offset: -1, What: "kind of message", Found: uint64(h.Kind), Known: uint64(lastKind)}
	case h.Version == 0 || h.Kind == 0:
		return coder{}, h, corrupt(impossible)
	}
	var c coder
	c.open(body[fieldsAt:])
	c.header(&h)
	if c.bad != "" {
		return coder{}, h, corrupt(c.bad)
	}
	c.base, _ = nanoseconds(h.At)
	return c, h, nil
}

func corrupt(reason string) error { return &CorruptError{Offset: -1, Reason: reason} }

// header writes or reads the fields of a header; its time is relative to 1970.
func (c *coder) header(h *Header) {
	base := c.base
	c.base = 0
	c.part(func(c *coder) {
		c.uvarint(&h.Epoch)
		c.uvarint(&h.First)
		count := uint64(h.Count)
		c.uvarint(&count)
		c.time(&h.At)
		c.offset(&h.ResultOffset)
		c.offset(&h.SnapshotOffset)
		if c.writing {
			return
		}
		// An item is two bytes at least, its kind and its length.
		if count > uint64(len(c.item))/2 || h.First > math.MaxUint64-count {
			c.fail(impossible)
			return
		}
		h.Count = int(count)
	})
	c.base = base
}

// section reads the special fields of a message, whose texts keep nothing else of it.
func (c *coder) section(fields func(*coder)) {
	n := c.read()
	if n > uint64(len(c.in)) {
		c.fail(truncated)
		return
	}
	rest := c.in[n:]
	c.open(c.in[:n:n])
	fields(c)
	if c.bad == "" {
		c.in = rest
	}
}

// offset is a place in a stream, or -1.
func (c *coder) offset(p *int64) {
	if c.writing {
		c.write(uint64(max(*p, -1)) + 1)
		return
	}
	v := c.read()
	if v > math.MaxInt64+1 {
		c.fail(impossible)
		return
	}
	*p = int64(v - 1)
}

// leads are the special fields of KindEpoch.
func (c *coder) leads(e *Epoch) {
	c.epoch(e)
	c.news(e)
}

func (c *coder) epoch(e *Epoch) {
	text(c, &e.Nonce)
	text(c, &e.Instance)
	text(c, &e.Address)
	text(c, &e.Version)
}

// news is what may change in an epoch, at the end of a section: the versions of the leader's files, and the loss of
// an earlier journal. Messages of earlier versions, and of a leader that does not say them, end before.
func (c *coder) news(e *Epoch) {
	if c.writing && e.Agents+e.Quotas == "" && e.Lost == nil || !c.writing && len(c.in) == 0 {
		return
	}
	text(c, &e.Agents)
	text(c, &e.Quotas)
	if c.writing && e.Lost == nil || !c.writing && len(c.in) == 0 {
		return
	}
	if !c.writing {
		e.Lost = new(Loss)
	}
	c.part(func(c *coder) {
		l := e.Lost
		m := c.mask(on(l.Restored, 1))
		c.time(&l.At)
		texts(c, &l.Evidence)
		text(c, &l.Budgets)
		c.flag(&l.Restored, m&1 != 0)
	})
}

func (c *coder) chunk(k *Chunk) {
	m := c.mask(on(k.Last, 1))
	text(c, &k.Snapshot)
	integer(c, &k.Number)
	c.flag(&k.Last, m&1 != 0)
	c.epoch(&k.Leader)
	c.time(&k.Since)
	c.news(&k.Leader)
}

// nextItem opens the next item of the message, after the strings before it, and
// gives its kind and what follows it; false at the end of the message.
func (c *coder) nextItem() (kind byte, rest []byte, ok bool) {
	for len(c.in) > 0 {
		kind = c.in[0]
		c.in = c.in[1:]
		n := c.read()
		if n > uint64(len(c.in)) {
			c.fail(truncated)
			break
		}
		item := c.in[:n:n]
		rest = c.in[n:]
		if kind != defineString {
			c.open(item)
			return kind, rest, true
		}
		c.strings = append(c.strings, string(item))
		c.in = rest
	}
	return 0, nil, false
}

// readRecords reads the records of a message to its end.
func (c *coder) readRecords(count int) ([]coordinator.Record, error) {
	var s slabs
	records := make([]coordinator.Record, 0, min(count, len(c.in)/2))
	for {
		kind, rest, ok := c.nextItem()
		if !ok {
			break
		}
		r := c.readRecord(kind, &s, len(rest))
		switch {
		case r == nil:
			return nil, &NewerError{Offset: -1, What: "kind of record", Found: uint64(kind), Known: lastRecordKind}
		case c.bad != "":
			return nil, corrupt(c.bad)
		}
		records = append(records, r)
		c.in = rest
	}
	switch {
	case c.bad != "":
		return nil, corrupt(c.bad)
	case len(records) != count:
		return nil, corrupt("it has not as many records as it says")
	case count == 0:
		return nil, nil
	}
	return records, nil
}
