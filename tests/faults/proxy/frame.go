package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Side is one end of a connection.
type Side int

// The sides: what a client sends comes from Client.
const (
	Client Side = iota
	Server
)

func (s Side) String() string { return [...]string{"client", "server"}[s] }

// Method is an AMQP 0-9-1 method: class and method id; 0 for frames that are none.
type Method uint32

// The methods that the proxy knows by name.
const (
	StartOK        Method = 10<<16 | 11
	ConnOpenOK     Method = 10<<16 | 41
	ConnClose      Method = 10<<16 | 50
	ChannelOpen    Method = 20<<16 | 10
	ChannelClose   Method = 20<<16 | 40
	ChannelCloseOK Method = 20<<16 | 41
	QueueDelete    Method = 50<<16 | 40
	Consume        Method = 60<<16 | 20
	ConsumeOK      Method = 60<<16 | 21
	Publish        Method = 60<<16 | 40
	Return         Method = 60<<16 | 50
	Deliver        Method = 60<<16 | 60
	GetOK          Method = 60<<16 | 71
	Ack            Method = 60<<16 | 80
	Reject         Method = 60<<16 | 90
	Nack           Method = 60<<16 | 120
	ConfirmSelect  Method = 85<<16 | 10
)

// hasContent tells whether a header and a body follow the method.
func (m Method) hasContent() bool {
	return m == Publish || m == Return || m == Deliver || m == GetOK
}

// The kinds of frames, as they are on the wire; Hello is the "AMQP 0 0 9 1" with which
// a client begins.
const (
	KindHello     = 0
	KindMethod    = 1
	KindHeader    = 2
	KindBody      = 3
	KindHeartbeat = 8
)

// Frame is one frame, with what rules and traces look at.
type Frame struct {
	From    Side
	Kind    byte
	Channel uint16
	Method  Method
	// Connection is the name the client has given it; empty before it has.
	Connection string
	// Exchange and Key of publish, deliver and return.
	Exchange, Key string
	// Queue of consume; of deliver the one that the consumer reads; of a client's ack,
	// nack and reject the one that the channel reads.
	Queue string
	// Consumer tag of consume, consume-ok and deliver.
	Consumer string
	// Tag of deliver, ack, nack and reject; Multiple: and all before it.
	Tag      uint64
	Multiple bool
	Requeue  bool
	// MessageID and Type are in header frames; BodySize as well.
	MessageID, Type string
	BodySize        uint64

	payload []byte // within raw
	raw     []byte
}

// maxFrame is far above what RabbitMQ negotiates (128 KiB).
const maxFrame = 16 << 20

// scanner cuts a stream of bytes into frames.
type scanner struct {
	from    Side
	begun   bool // the protocol header, if there is one, has passed
	pending []byte
}

// feed takes bytes and gives the frames that are complete. They own their memory.
func (s *scanner) feed(data []byte) (frames []*Frame, err error) {
	s.pending = append(s.pending, data...)
	for {
		n, err := s.complete()
		if n == 0 || err != nil {
			return frames, err
		}
		raw := bytes.Clone(s.pending[:n])
		s.pending = s.pending[n:]
		f, err := parse(s.from, raw)
		if err != nil {
			return frames, err
		}
		s.begun = true
		frames = append(frames, f)
	}
}

// complete is the length of the first frame, 0 while it is not all there.
func (s *scanner) complete() (int, error) {
	const hello, envelope = 8, 8 // type, channel, size; end
	if len(s.pending) < hello {
		return 0, nil
	}
	if !s.begun && bytes.HasPrefix(s.pending, []byte("AMQP")) {
		return hello, nil
	}
	size := binary.BigEndian.Uint32(s.pending[3:])
	if size > maxFrame {
		return 0, fmt.Errorf("a frame of %d bytes from the %v: this is no AMQP 0-9-1", size, s.from)
	}
	n := int(size) + envelope
	if len(s.pending) < n {
		return 0, nil
	}
	if s.pending[n-1] != 0xce {
		return 0, fmt.Errorf("a frame from the %v does not end in 0xCE: this is no AMQP 0-9-1", s.from)
	}
	return n, nil
}

var errShort = errors.New("a frame is shorter than what it holds")

func parse(from Side, raw []byte) (*Frame, error) {
	f := &Frame{From: from, raw: raw}
	if bytes.HasPrefix(raw, []byte("AMQP")) {
		return f, nil
	}
	f.Kind, f.Channel = raw[0], binary.BigEndian.Uint16(raw[1:])
	f.payload = raw[7 : len(raw)-1]
	r := reader{rest: f.payload}
	switch f.Kind {
	case KindMethod:
		f.Method = Method(r.long())
		f.readMethod(&r)
	case KindHeader:
		f.readHeader(&r)
	}
	if r.short {
		return nil, fmt.Errorf("read a frame of kind %d, method %d.%d, from the %v: %w", f.Kind, f.Method>>16,
			f.Method&0xffff, from, errShort)
	}
	return f, nil
}

func (f *Frame) readMethod(r *reader) {
	switch f.Method {
	case StartOK:
		f.Connection = connectionName(f.payload)
	case Consume:
		r.skip(2)
		f.Queue, f.Consumer = r.text(), r.text()
	case ConsumeOK:
		f.Consumer = r.text()
	case Publish:
		r.skip(2)
		f.Exchange, f.Key = r.text(), r.text()
	case Return:
		r.skip(2)
		r.text()
		f.Exchange, f.Key = r.text(), r.text()
	case Deliver:
		f.Consumer, f.Tag = r.text(), r.longlong()
		r.skip(1)
		f.Exchange, f.Key = r.text(), r.text()
	case GetOK:
		f.Tag = r.longlong()
	case Ack:
		f.Tag = r.longlong()
		f.Multiple = r.octet()&1 != 0
	case Nack:
		f.Tag = r.longlong()
		bits := r.octet()
		f.Multiple, f.Requeue = bits&1 != 0, bits&2 != 0
	case Reject:
		f.Tag = r.longlong()
		f.Requeue = r.octet()&1 != 0
	}
}

// readHeader reads the properties up to the type, in their order on the wire.
func (f *Frame) readHeader(r *reader) {
	r.skip(4)
	f.BodySize = r.longlong()
	flags := uint16(r.octet())<<8 | uint16(r.octet())
	has := func(bit int) bool { return flags&(1<<bit) != 0 }
	for _, bit := range []int{15, 14} { // content type and encoding
		if has(bit) {
			r.text()
		}
	}
	if has(13) { // headers
		r.skip(int(r.long()))
	}
	for _, bit := range []int{12, 11} { // delivery mode, priority
		if has(bit) {
			r.skip(1)
		}
	}
	for _, bit := range []int{10, 9, 8} { // correlation id, reply to, expiration
		if has(bit) {
			r.text()
		}
	}
	if has(7) {
		f.MessageID = r.text()
	}
	if has(6) { // timestamp
		r.skip(8)
	}
	if has(5) {
		f.Type = r.text()
	}
}

// connectionName finds the property in the client properties of start-ok: its name,
// 'S' for a long string, the length.
func connectionName(payload []byte) string {
	_, after, found := bytes.Cut(payload, []byte("\x0fconnection_nameS"))
	if !found || len(after) < 4 {
		return ""
	}
	n := binary.BigEndian.Uint32(after)
	if uint64(len(after)) < 4+uint64(n) {
		return ""
	}
	return string(after[4 : 4+n])
}

// reader reads AMQP's elementary types. Past the end everything is zero, and short.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.short, r.rest = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) skip(n int)       { r.take(n) }
func (r *reader) octet() byte      { return r.take(1)[0] }
func (r *reader) long() uint32     { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) longlong() uint64 { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) text() string     { return string(r.take(int(r.octet()))) }
