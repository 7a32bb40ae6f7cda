package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
	"math"
)

// An export is a file with messages of the journal as they are, each with its offset:
//
//	"TBJX\n", version (a byte)
//	messages: offset + 1 (varint), length (varint), the message
//	0, number of messages (varint), CRC-32C of all before it (4 bytes, little endian)
//
// The end distinguishes a whole file from one that was cut off.
const (
	exportMagic   = "TBJX\n"
	exportVersion = 1
	// maxExported is the length of a message beyond which a file is no export: brokers
	// take no larger ones.
	maxExported = 512 << 20
)

// Exported is one message of the journal as it is in the stream.
type Exported struct {
	Offset int64
	Body   []byte
}

// WriteExport writes messages, in the order of their offsets, until there are no more,
// and says how many they were. At the first error, also one of messages, it ends; what
// was written by then is not read as an export.
func WriteExport(w io.Writer, messages iter.Seq2[Exported, error]) (int, error) {
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	_, _ = out.WriteString(exportMagic) // errors stay until Flush
	_ = out.WriteByte(exportVersion)
	count := 0
	var head []byte
	for m, err := range messages {
		if err != nil {
			return count, err
		}
		if m.Offset < 0 || m.Offset == math.MaxInt64 {
			return count, fmt.Errorf("export the journal: a message has the offset %d", m.Offset)
		}
		head = binary.AppendUvarint(head[:0], uint64(m.Offset)+1)
		head = binary.AppendUvarint(head, uint64(len(m.Body)))
		_, _ = out.Write(head)
		if _, err := out.Write(m.Body); err != nil {
			return count, fmt.Errorf("export the journal: %w", err)
		}
		count++
	}
	_, _ = out.Write(binary.AppendUvarint([]byte{0}, uint64(count)))
	if err := out.Flush(); err != nil {
		return count, fmt.Errorf("export the journal: %w", err)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32())); err != nil {
		return count, fmt.Errorf("export the journal: %w", err)
	}
	return count, nil
}

// ReadExport gives the messages of an export in their order. The first error is the
// last that it gives. The messages are the caller's; what is in them is not looked at.
func ReadExport(r io.Reader) iter.Seq2[Exported, error] {
	return func(yield func(Exported, error) bool) {
		e := exportReader{in: bufio.NewReaderSize(r, 64<<10), sum: crc32.New(castagnoli)}
		if err := e.begin(); err != nil {
			yield(Exported{}, err)
			return
		}
		for {
			m, more, err := e.next()
			if err != nil {
				yield(Exported{}, err)
				return
			}
			if !more || !yield(m, nil) {
				return
			}
		}
	}
}

// exportReader reads an export and sums up what it reads.
type exportReader struct {
	in    *bufio.Reader
	sum   hash.Hash32
	count uint64
}

var errNoExport = errors.New("this is no export of a journal; `taskbus journal export FILE` writes one")

func (e *exportReader) begin() error {
	head := make([]byte, len(exportMagic)+1)
	if _, err := io.ReadFull(e, head); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errNoExport
	} else if err != nil {
		return fmt.Errorf("read the export: %w", err)
	}
	switch version := head[len(exportMagic)]; {
	case string(head[:len(exportMagic)]) != exportMagic || version == 0:
		return errNoExport
	case version > exportVersion:
		return fmt.Errorf(
			"the export has version %d, and this version of taskbus knows them up to %d: read it with the one that wrote "+
				"it, or a later one", version, exportVersion)
	}
	return nil
}

// next gives the next message; false at the end.
func (e *exportReader) next() (Exported, bool, error) {
	place, err := binary.ReadUvarint(e)
	if err != nil {
		return Exported{}, false, e.cut(err)
	}
	if place == 0 {
		return Exported{}, false, e.end()
	}
	length, err := binary.ReadUvarint(e)
	if err != nil {
		return Exported{}, false, e.cut(err)
	}
	if place > math.MaxInt64 || length > maxExported {
		return Exported{}, false, e.damaged()
	}
	var body bytes.Buffer // grows with what is there, whatever the length says
	if _, err := io.CopyN(&body, e, int64(length)); err != nil {
		return Exported{}, false, e.cut(err)
	}
	e.count++
	return Exported{Offset: int64(place - 1), Body: body.Bytes()}, true, nil
}

func (e *exportReader) end() error {
	count, err := binary.ReadUvarint(e)
	if err != nil {
		return e.cut(err)
	}
	want := e.sum.Sum32()
	var sum [4]byte
	if _, err := io.ReadFull(e, sum[:]); err != nil {
		return e.cut(err)
	}
	if count != e.count || binary.LittleEndian.Uint32(sum[:]) != want {
		return e.damaged()
	}
	return nil
}

// cut is the error of a file that ends too early.
func (e *exportReader) cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the export ends after %d messages, and not as one that is complete; export once more", e.count)
	}
	return fmt.Errorf("read the export after %d messages: %w", e.count, err)
}

func (e *exportReader) damaged() error {
	return fmt.Errorf("the export is damaged, after %d messages or before; export once more", e.count)
}

// Read implements io.Reader.
func (e *exportReader) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	_, _ = e.sum.Write(p[:n]) // never fails
	return n, err
}

// ReadByte implements io.ByteReader.
func (e *exportReader) ReadByte() (byte, error) {
	b, err := e.in.ReadByte()
	if err == nil {
		_, _ = e.sum.Write([]byte{b})
	}
	return b, err
}
