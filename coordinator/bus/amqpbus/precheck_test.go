package amqpbus

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

var testEdge = bus.Edge{Exchanges: map[string]bool{"known": true}, User: "me", Frame: bus.FrameMax}

func TestEncodeRefusesWhatWouldHarmTheConnection(t *testing.T) {
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	cyclicList := []any{nil}
	cyclicList[0] = cyclicList
	with := func(spoil func(*bus.Publication)) bus.Publication {
		p := bus.Publication{Key: "q", Body: []byte("secret body")}
		spoil(&p)
		return p
	}
	header := func(name string, value any) bus.Publication {
		return with(func(p *bus.Publication) { p.Headers = map[string]any{name: value} })
	}
	for name, p := range map[string]bus.Publication{
		"256 bytes of message id in 128 characters": with(func(p *bus.Publication) {
			p.MessageID = strings.Repeat("é",
				128)
		}),
		"unknown exchange":  with(func(p *bus.Publication) { p.Exchange = "unknown" }),
		"another's user id": with(func(p *bus.Publication) { p.UserID = "you" }),
		"body above 8 MiB":  with(func(p *bus.Publication) { p.Body = make([]byte, bus.MaxBody+1) }),
		"expiration above 2³²−1": with(func(p *bus.Publication) {
			p.Expiration = bus.MaxExpiration + time.Millisecond
		}),
		"headers above a frame":    header("h", strings.Repeat("x", bus.FrameMax)),
		"header key of 256 bytes":  header(strings.Repeat("k", 256), "v"),
		"int, of which size?":      header("h", 1),
		"headers without end":      with(func(p *bus.Publication) { p.Headers = cyclic }),
		"list without end":         header("h", cyclicList),
		"CC that is no list":       header("CC", "q2"),
		"BCC with a number inside": header("BCC", []any{"q2", int64(1)}),
	} {
		var refused *bus.EncodingError
		_, err := encode(&testEdge, &p)
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v, want an *EncodingError", name, err)
		} else if strings.Contains(refused.Reason, "secret") || len(refused.Reason) > 200 {
			t.Errorf("%s: the reason shows too much: %s", name, refused.Reason)
		}
	}
}

func TestEncodeKeepsWhatIsFine(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	plain := map[string]any{"traceparent": "00-1"}
	p := bus.Publication{
		Exchange: "known", Key: "q", Body: []byte("b"),
		Properties: bus.Properties{UserID: "me", Expiration: time.Nanosecond, Timestamp: at, Headers: plain},
	}
	msg, err := encode(&testEdge, &p)
	if err != nil {
		t.Fatal(err)
	}
	want := amqp.Publishing{DeliveryMode: amqp.Persistent, UserId: "me", Expiration: "1", Timestamp: at,
		Headers: amqp.Table{"traceparent": "00-1"}, Body: []byte("b")}
	if !reflect.DeepEqual(msg, want) {
		t.Errorf("got %+v\nwant %+v", msg, want)
	}
	if &msg.Body[0] != &p.Body[0] {
		t.Error("the body was copied")
	}
	if allocs := testing.AllocsPerRun(100, func() { _, _ = encode(&testEdge, &p) }); allocs > 0 {
		t.Errorf("%v allocations for a message with a short expiration and plain headers, want none", allocs)
	}
}

// The caller's own map is never written to.
func TestEncodeTableConvertsACopy(t *testing.T) {
	inner := map[string]any{"deep": int64(1)}
	mine := map[string]any{"s": "x", "table": inner, "list": []any{inner}}
	table := encodeTable(mine)
	want := amqp.Table{"s": "x", "table": amqp.Table{"deep": int64(1)}, "list": []any{amqp.Table{"deep": int64(1)}}}
	if !reflect.DeepEqual(table, want) {
		t.Errorf("got %#v\nwant %#v", table, want)
	}
	if _, still := mine["table"].(map[string]any); !still {
		t.Error("the caller's map was changed")
	}
}

func TestDecodeTableGivesTheTypesOfTheContract(t *testing.T) {
	got := decodeTable(amqp.Table{
		"b": byte(1), "i8": int8(-2), "i16": int16(-3), "u16": uint16(4), "i32": int32(-5), "u32": uint32(6), "i64": int64(7),
		"f32": float32(0.5), "f64": 0.25, "dec": amqp.Decimal{Scale: 2, Value: 1234}, // 1234 / 10² = 12.34
		"nil": nil, "empty": amqp.Table{},
		"x-death": []any{amqp.Table{"count": int32(1), "reason": "expired"}},
	})
	want := map[string]any{
		"b": int64(1), "i8": int64(-2), "i16": int64(-3), "u16": int64(4), "i32": int64(-5), "u32": int64(6), "i64": int64(7),
		"f32": 0.5, "f64": 0.25, "dec": 12.34, "empty": map[string]any{},
		"x-death": []any{map[string]any{"count": int64(1), "reason": "expired"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v\nwant %#v", got, want)
	}
	if decodeTable(amqp.Table{}) != nil {
		t.Error("no headers must be nil")
	}
}

func TestStreamOffset(t *testing.T) {
	for from, want := range map[bus.Position]any{
		bus.Ago(time.Millisecond): "1s", bus.Ago(time.Second): "1s", bus.Ago(1500 * time.Millisecond): "2s",
		bus.Ago(10 * time.Minute): "600s",
		bus.First():               "first", bus.Last(): "last", bus.At(0): int64(0), bus.At(1 << 40): int64(1 << 40),
		bus.At(-1):                 int64(0),
		bus.Since(time.Unix(7, 5)): time.Unix(7, 5), bus.Since(time.Time{}): time.Unix(0, 0), bus.Ago(0): "next",
		bus.Ago(-time.Second): "next", {}: "next",
	} {
		if got := streamOffset(from); got != want {
			t.Errorf("%+v is %v, want %v", from, got, want)
		}
	}
}

// What is refused is followed by what to ask for instead; the last asks for nothing.
func TestConsumeArguments(t *testing.T) {
	s := &session{spec: bus.SessionSpec{Topology: bus.Topology{Queues: []bus.Queue{
		{Name: "log", Kind: bus.Stream}, {Name: "line", Kind: bus.Quorum},
	}}}}
	offset, priority, none := amqp.Table{"x-stream-offset": "60s"}, amqp.Table{"x-priority": int64(7)}, amqp.Table{}
	for _, test := range []struct {
		queue    string
		from     bus.Position
		priority int
		want     []amqp.Table
	}{
		{"line", bus.Position{}, 0, []amqp.Table{none}},
		{"line", bus.Ago(time.Minute), 0, []amqp.Table{none}},
		{"line", bus.Ago(time.Minute), 7, []amqp.Table{priority, none}},
		{"log", bus.Position{}, 0, []amqp.Table{none}},
		{"log", bus.Ago(-time.Minute), 0, []amqp.Table{none}},
		{"log", bus.Ago(time.Minute), 0, []amqp.Table{offset, none}},
		{"log", bus.Ago(time.Minute), 7, []amqp.Table{offset, priority, none}},
		{"no text", bus.Ago(time.Minute), 7, []amqp.Table{offset, priority, none}},
		{"no text", bus.Position{}, 0, []amqp.Table{none}},
	} {
		got := s.consumeArguments(bus.Subscription{Queue: test.queue, From: test.from, Priority: test.priority})
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s from %v with priority %d: %v, want %v", test.queue, test.from, test.priority, got, test.want)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, test := range []struct {
		name  string
		queue bus.Queue
		want  amqp.Table
	}{
		{"agent", bus.AgentQueue(bus.ProfileQuorum, "agent.a1"), amqp.Table{
			"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-delivery-limit": int64(5),
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "task.reassign",
			"x-dead-letter-strategy": "at-least-once",
			"x-consumer-timeout":     int64(86_400_000), // 24 h × 3600 s × 1000
		}},
		{"bounded, dropping its oldest", bus.Queue{Kind: bus.Quorum, DeliveryLimit: 9, TTL: time.Minute, MaxLength: 7,
			DropHead: true}, amqp.Table{
			"x-queue-type": "quorum", "x-overflow": "drop-head", "x-delivery-limit": int64(9),
			"x-message-ttl": int64(60_000), "x-max-length": int64(7),
		}},
		{"stream", bus.Queue{Kind: bus.Stream, MaxAge: time.Hour, MaxBytes: 200, SegmentBytes: 10}, amqp.Table{
			"x-queue-type": "stream", "x-max-age": "3600s", "x-max-length-bytes": int64(200),
			"x-stream-max-segment-size-bytes": int64(10),
		}},
		{"classic has none, whatever is asked for", bus.Queue{Kind: bus.Classic, DeliveryLimit: 5, TTL: time.Hour,
			DeadLetter: "d"}, nil},
	} {
		if got := arguments(test.queue); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v\nwant %v", test.name, got, test.want)
		}
	}
}
