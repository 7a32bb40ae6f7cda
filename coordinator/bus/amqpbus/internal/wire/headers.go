package wire

import (
	"bufio"
	"encoding/binary"
	"io"

	"taskbus/coordinator/bus"
)

// Limits of the library on the headers of a message it reads. Beyond them it
// closes the whole connection, the broker delivers the message again, and so on
// without end: one such message would keep everything from being consumed.
const (
	maxHeaderDepth    = 32
	maxHeaderElements = 8192
)

// Parts of a frame and of a content header (AMQP 0-9-1, 2.3.5 and 4.2.6).
const (
	frameHeaderSize   = 7 // type, channel, size
	frameTypeContent  = 2 // a content header: what precedes the body of a delivery
	contentFixedSize  = 2 + 2 + 8
	flagContentType   = 1 << 15
	flagContentCoding = 1 << 14
	flagHeaders       = 1 << 13
)

// headerGuard reads the frames of one connection on their way to the library.
// Headers that the library cannot read are taken out of their message; all else
// goes through byte for byte. It belongs to the goroutine that reads.
type headerGuard struct {
	in *bufio.Reader
	// dropped is called when headers were taken out.
	dropped func()

	rest  int    // bytes of the current frame that go through unread
	ready []byte // bytes that go out next
	frame []byte // space for one content header
}

// Read fills p as far as it can without waiting; it waits for the first byte.
func (g *headerGuard) Read(p []byte) (n int, err error) {
	for n < len(p) {
		switch {
		case len(g.ready) > 0:
			m := copy(p[n:], g.ready)
			n, g.ready = n+m, g.ready[m:]
		case n > 0 && !g.atHand():
			return n, nil
		case g.rest > 0:
			m, err := g.in.Read(p[n:min(len(p), n+g.rest)])
			n, g.rest = n+m, g.rest-m
			if err != nil {
				return n, err
			}
		default:
			if err := g.next(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// atHand reports whether reading can go on without waiting.
func (g *headerGuard) atHand() bool {
	buffered := g.in.Buffered()
	if g.rest > 0 || buffered < frameHeaderSize {
		return g.rest > 0 && buffered > 0
	}
	head, err := g.in.Peek(frameHeaderSize)
	return err == nil && (head[0] != frameTypeContent || buffered >= frameLength(head))
}

// frameLength is the length of a whole frame, its end mark included.
func frameLength(head []byte) int {
	return frameHeaderSize + int(binary.BigEndian.Uint32(head[3:])) + 1
}

// next begins a frame: one that is no content header goes through.
func (g *headerGuard) next() error {
	head, err := g.in.Peek(frameHeaderSize)
	if err != nil {
		return err
	}
	total := frameLength(head)
	if head[0] != frameTypeContent || total > bus.FrameMax {
		g.rest = total
		return nil
	}
	if cap(g.frame) < total {
		g.frame = make([]byte, total)
	}
	g.frame = g.frame[:total]
	if _, err := io.ReadFull(g.in, g.frame); err != nil {
		return err
	}
	g.ready = g.frame
	payload := g.frame[frameHeaderSize : total-1]
	if start, end, found := headersOf(payload); found && !readable(payload[start:end]) {
		g.ready = withoutHeaders(g.frame, frameHeaderSize+start, frameHeaderSize+end)
		g.dropped()
	}
	return nil
}

// headersOf finds the header table, its length included, in the payload of a
// content header.
func headersOf(payload []byte) (start, end int, found bool) {
	if len(payload) < contentFixedSize+2 {
		return 0, 0, false
	}
	flags := binary.BigEndian.Uint16(payload[contentFixedSize:])
	if flags&flagHeaders == 0 {
		return 0, 0, false
	}
	start = contentFixedSize + 2
	for _, before := range [...]uint16{flagContentType, flagContentCoding} {
		if flags&before == 0 {
			continue
		}
		if start >= len(payload) {
			return 0, 0, false
		}
		start += 1 + int(payload[start])
	}
	if start+4 > len(payload) {
		return 0, 0, false
	}
	end = start + 4 + int(binary.BigEndian.Uint32(payload[start:]))
	return start, end, end <= len(payload)
}

// withoutHeaders cuts the bytes from start to end out of a content header frame.
func withoutHeaders(frame []byte, start, end int) []byte {
	flags := frame[frameHeaderSize+contentFixedSize:]
	binary.BigEndian.PutUint16(flags, binary.BigEndian.Uint16(flags)&^flagHeaders)
	frame = append(frame[:start], frame[end:]...)
	binary.BigEndian.PutUint32(frame[3:], uint32(len(frame)-frameHeaderSize-1))
	return frame
}

// readable reports whether the library can read this table (with its length).
func readable(table []byte) bool {
	rest, ok := skipTable(table, 0)
	return ok && len(rest) == 0
}

// skipTable skips a table, or says that the library could not read it.
func skipTable(b []byte, depth int) (rest []byte, ok bool) {
	fields, rest, ok := cut(b, 4)
	for elements := 0; ok && len(fields) > 0; elements++ {
		if elements >= maxHeaderElements {
			return nil, false
		}
		if _, fields, ok = cut(fields, 1); ok { // the key
			fields, ok = skipField(fields, depth)
		}
	}
	return rest, ok && depth <= maxHeaderDepth
}

func skipArray(b []byte, depth int) (rest []byte, ok bool) {
	fields, rest, ok := cut(b, 4)
	for elements := 0; ok && len(fields) > 0; elements++ {
		if elements >= maxHeaderElements {
			return nil, false
		}
		fields, ok = skipField(fields, depth)
	}
	return rest, ok && depth <= maxHeaderDepth
}

// cut takes off what stands behind its length, which has size bytes.
func cut(b []byte, size int) (value, rest []byte, ok bool) {
	if len(b) < size {
		return nil, nil, false
	}
	n := int(b[0])
	if size == 4 {
		n = int(binary.BigEndian.Uint32(b))
	}
	if n > len(b)-size {
		return nil, nil, false
	}
	return b[size : size+n], b[size+n:], true
}

// skipField skips a value with its type.
func skipField(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) == 0 || depth > maxHeaderDepth {
		return nil, false
	}
	kind, b := b[0], b[1:]
	size := 0
	switch kind {
	case 'V':
	case 't', 'b', 'B':
		size = 1
	case 's', 'u':
		size = 2
	case 'I', 'i', 'f':
		size = 4
	case 'D':
		size = 5
	case 'l', 'd', 'T':
		size = 8
	case 'S', 'x':
		_, rest, ok = cut(b, 4)
		return rest, ok
	case 'F':
		return skipTable(b, depth+1)
	case 'A':
		return skipArray(b, depth+1)
	default:
		return nil, false
	}
	if len(b) < size {
		return nil, false
	}
	return b[size:], true
}

// Guarded is a wire that the library can read whatever the broker delivers.
type Guarded struct {
	*Wire
	headers headerGuard
}

// Read is called by the library's one reader goroutine.
func (g *Guarded) Read(p []byte) (int, error) {
	n, err := g.headers.Read(p)
	if err != nil {
		g.Kill(err) // as Wire.Read does
	}
	return n, err
}

// Guard puts a headerGuard before the wire. dropped is called from the reading
// goroutine and must not block.
func (w *Wire) Guard(dropped func()) *Guarded {
	return &Guarded{Wire: w, headers: headerGuard{in: w.in, dropped: dropped}}
}
