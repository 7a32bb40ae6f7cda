package proxy

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// wire makes the bytes of a frame.
func wire(kind byte, channel uint16, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16([]byte{kind}, channel), uint32(len(payload)))
	return append(append(b, payload...), 0xce)
}

func method(m Method, arguments ...any) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(m))
	for _, a := range arguments {
		switch v := a.(type) {
		case string:
			b = append(append(b, byte(len(v))), v...)
		case uint64:
			b = binary.BigEndian.AppendUint64(b, v)
		case uint16:
			b = binary.BigEndian.AppendUint16(b, v)
		case byte:
			b = append(b, v)
		}
	}
	return b
}

// header is a content header with every property that AMQP has.
func header(size uint64, kind, id string) []byte {
	b := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, size)
	b = append(b, 0xff, 0xfc) // fourteen properties
	text := func(s string) { b = append(append(b, byte(len(s))), s...) }
	text("application/json")
	text("identity")
	b = append(b, 0, 0, 0, 4, 1, 'x', 't', 1) // headers: x = true
	b = append(b, 2, 7)                       // delivery mode, priority
	text("correlation")
	text("reply")
	text("60000")
	text(id)
	b = append(b, make([]byte, 8)...)
	text(kind)
	return b
}

func TestFramesAreRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		raw  []byte
		want Frame
	}{
		{"protocol header", []byte("AMQP\x00\x00\x09\x01"), Frame{}},
		{"heartbeat", wire(KindHeartbeat, 0, nil), Frame{Kind: KindHeartbeat}},
		{"publish", wire(KindMethod, 3, method(Publish, uint16(0), "taskbus", "task.assign", byte(1))),
			Frame{Kind: KindMethod, Channel: 3, Method: Publish, Exchange: "taskbus", Key: "task.assign"}},
		{"deliver", wire(KindMethod, 1, method(Deliver, "c1", uint64(7), byte(1), "", "task.assign")),
			Frame{Kind: KindMethod, Channel: 1, Method: Deliver, Consumer: "c1", Tag: 7, Key: "task.assign"}},
		{"return", wire(KindMethod, 1, method(Return, uint16(312), "NO_ROUTE", "x", "k")),
			Frame{Kind: KindMethod, Channel: 1, Method: Return, Exchange: "x", Key: "k"}},
		{"consume", wire(KindMethod, 1, method(Consume, uint16(0), "task.assign", "c1", byte(0))),
			Frame{Kind: KindMethod, Channel: 1, Method: Consume, Queue: "task.assign", Consumer: "c1"}},
		{"ack of all", wire(KindMethod, 2, method(Ack, uint64(9), byte(1))),
			Frame{Kind: KindMethod, Channel: 2, Method: Ack, Tag: 9, Multiple: true}},
		{"ack of one", wire(KindMethod, 2, method(Ack, uint64(9), byte(0))),
			Frame{Kind: KindMethod, Channel: 2, Method: Ack, Tag: 9}},
		{"nack, requeue", wire(KindMethod, 2, method(Nack, uint64(4), byte(2))),
			Frame{Kind: KindMethod, Channel: 2, Method: Nack, Tag: 4, Requeue: true}},
		{"reject", wire(KindMethod, 2, method(Reject, uint64(4), byte(0))),
			Frame{Kind: KindMethod, Channel: 2, Method: Reject, Tag: 4}},
		{"content header", wire(KindHeader, 2, header(1<<40, "task.dispatch", "t.1")),
			Frame{Kind: KindHeader, Channel: 2, BodySize: 1 << 40, Type: "task.dispatch", MessageID: "t.1"}},
		{"start-ok", wire(KindMethod, 0,
			append(method(StartOK), "\x00\x00\x00\x20\x0fconnection_nameS\x00\x00\x00\x04mine"...)),
			Frame{Kind: KindMethod, Method: StartOK, Connection: "mine"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := scanner{from: Server}
			frames, err := s.feed(tt.raw)
			if err != nil || len(frames) != 1 {
				t.Fatalf("%d frames, %v", len(frames), err)
			}
			got := *frames[0]
			if !bytes.Equal(got.raw, tt.raw) {
				t.Errorf("the frame does not hold its own bytes")
			}
			got.raw, got.payload = nil, nil
			tt.want.From = Server
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestWhatIsNoAMQPIsRefused(t *testing.T) {
	badEnd := wire(KindHeartbeat, 0, nil)
	badEnd[len(badEnd)-1] = 0
	for name, raw := range map[string][]byte{
		"HTTP":                  []byte("GET / HTTP/1.1\r\n\r\n"),
		"a frame without end":   badEnd,
		"a publish cut short":   wire(KindMethod, 1, method(Publish, uint16(0))),
		"a body in an ack":      wire(KindMethod, 1, method(Ack)),
		"a header cut short":    wire(KindHeader, 1, []byte{0, 60}),
		"a frame beyond bounds": {1, 0, 1, 0xff, 0xff, 0xff, 0xff, 0},
	} {
		if _, err := (&scanner{}).feed(raw); err == nil {
			t.Errorf("%s was taken for AMQP", name)
		}
	}
}

// However the network cuts the stream, the frames are the same.
func TestFramesDoNotDependOnHowBytesArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := []byte("AMQP\x00\x00\x09\x01")
		want := 1
		for range rapid.IntRange(0, 20).Draw(t, "frames") {
			stream = append(stream, wire(KindBody, 1, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"))...)
			want++
		}
		s, rest, seen, joined := scanner{}, slices.Clone(stream), 0, []byte(nil)
		for len(rest) > 0 {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			frames, err := s.feed(rest[:n])
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range frames {
				joined = append(joined, f.raw...)
			}
			seen, rest = seen+len(frames), rest[n:]
		}
		if seen != want || !bytes.Equal(joined, stream) {
			t.Fatalf("%d frames, want %d; the bytes are the same: %t", seen, want, bytes.Equal(joined, stream))
		}
	})
}
