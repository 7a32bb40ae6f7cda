package bustest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"taskbus/coordinator/bus"
)

func publishCases() []testCase {
	return []testCase{
		{name: "confirms come in order, once for each token", run: confirmsInOrder},
		{name: "many publishers at once", run: manyPublishers},
		{name: "the window bounds what is unsettled", run: windowBounds},
		{name: "bodies arrive as they were sent", run: bodiesRoundTrip},
		{name: "properties arrive as they were sent", run: propertiesRoundTrip},
		{name: "a user id arrives as it was sent", run: userID},
		{name: "expiration is rounded down to milliseconds", run: expirationRounding},
		{name: "mandatory to a missing queue is unroutable", run: unroutable},
		{name: "a full queue rejects", run: fullQueueRejects},
		{name: "a full queue with DropHead drops its oldest", run: fullQueueDropsHead},
		{name: "what cannot be encoded harms nobody", run: encodingErrors},
		{name: "strings of 255 bytes are sent", run: longestStrings},
	}
}

func confirmsInOrder(r *rig) {
	c := r.open(declare(quorum("q")))
	const n = 200
	for i := range n {
		c.send(text("q", fmt.Sprint(i)))
	}
	for i := range n {
		if s := c.settled(); s.outcome != bus.Confirmed || s.token != c.published[i] {
			r.t.Fatalf("settlement %d is %+v, want token %d confirmed", i, s, c.published[i])
		}
	}
	in := c.read("q", n)
	for i := range n {
		if d := in.next(); string(d.Body) != fmt.Sprint(i) {
			r.t.Fatalf("delivery %d is %q: the order of publishing was lost", i, d.Body)
		}
	}
}

func manyPublishers(r *rig) {
	const publishers, each = 4, 50
	var mu sync.Mutex
	seen := map[uint64]int{}                    // settlements by token
	last := [publishers]uint64{}                // latest token settled of each publisher
	all := make(chan struct{}, publishers*each) // one for each settlement
	s, err := r.bus.Open(r.ctx(), bus.SessionSpec{
		Name: "bustest", Topology: declare(quorum("q")), Window: 8,
		OnSettled: func(token uint64, outcome bus.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			who := token / 1_000
			if token <= last[who] || outcome != bus.Confirmed {
				r.t.Errorf("token %d settled as %v after token %d", token, outcome, last[who])
			}
			last[who] = token
			seen[token]++
			all <- struct{}{}
		},
	})
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	defer func() { _ = s.Close(r.ctx()) }()
	var wg sync.WaitGroup
	for who := range publishers {
		wg.Go(func() {
			for i := range each {
				p := text("q", "x")
				p.Token = uint64(who*1_000 + i + 1)
				if err := s.Publish(p); err != nil {
					r.t.Errorf("Publish: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for range publishers * each {
		receive(r.t, "every publication to be settled", all)
	}
	if len(seen) != publishers*each {
		r.t.Errorf("%d different tokens settled, want %d × %d = %d", len(seen), publishers, each, publishers*each)
	}
}

// A publication counts as unsettled until OnSettled has been called for it, so
// the slot may not be given away before that.
func windowBounds(r *rig) {
	const window, n = 4, 300
	var mu sync.Mutex
	accepted, settled := 0, 0
	done := make(chan struct{})
	s, err := r.bus.Open(r.ctx(), bus.SessionSpec{
		Name: "bustest", Topology: declare(quorum("q")), Window: window,
		OnSettled: func(uint64, bus.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			if settled++; settled == n {
				close(done)
			}
		},
	})
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	defer func() { _ = s.Close(r.ctx()) }()
	for range n {
		if err := s.Publish(text("q", "x")); err != nil {
			r.t.Fatalf("Publish: %v", err)
		}
		mu.Lock()
		accepted++
		if unsettled := accepted - settled; unsettled > window {
			r.t.Errorf("%d publications are unsettled, the window is %d", unsettled, window)
		}
		mu.Unlock()
	}
	receive(r.t, "the last publication to be settled", done)
}

func bodiesRoundTrip(r *rig) {
	c := r.open(declare(quorum("q")))
	in := c.read("q", 10)
	bodies := [][]byte{
		nil,
		{0},
		[]byte("{\"a\": \"\u00fc\"}\n"),
		bytes.Repeat([]byte("0123456789abcdef"), 300_000/16), // more than one AMQP frame of 128 KiB
	}
	for i, want := range bodies {
		c.storePub(bus.Publication{Key: "q", Body: want})
		d := in.next()
		if !bytes.Equal(d.Body, want) {
			r.t.Errorf("body %d: got %d bytes, want the %d bytes sent", i, len(d.Body), len(want))
		}
		c.Ack(d.Tag)
	}
}

func propertiesRoundTrip(r *rig) {
	c := r.open(declare(quorum("q")))
	in := c.read("q", 10)
	// AMQP carries whole seconds: the nanoseconds are lost on the way.
	at := time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)
	sent := bus.Properties{
		ContentType: "application/json", ContentEncoding: "utf-8", Type: "task.dispatch",
		MessageID: "t1.1", CorrelationID: "trace-1", ReplyTo: "answers", AppID: "taskbus",
		Expiration: time.Hour, Timestamp: at,
		Headers: map[string]any{
			"string": "s", "empty": "", "int": int64(-1 << 40), "yes": true, "no": false,
			"bytes": []byte{0, 255}, "time": at.Truncate(time.Second),
			"list":  []any{"a", int64(2), true},
			"table": map[string]any{"in": map[string]any{"deep": "x"}},
		},
	}
	c.storePub(bus.Publication{Key: "q", Properties: sent, Body: []byte("{}")})
	c.store("q", "bare")

	d := in.next()
	got, want := d.Properties, sent
	if !got.Timestamp.Equal(at.Truncate(time.Second)) {
		r.t.Errorf("timestamp %v, want %v at the granularity of a second", got.Timestamp, at)
	}
	checkHeaders(r, got.Headers, want.Headers)
	got.Timestamp, want.Timestamp = time.Time{}, time.Time{}
	got.Headers, want.Headers = nil, nil
	if !reflect.DeepEqual(got, want) {
		r.t.Errorf("properties\n got %+v\nwant %+v", got, want)
	}
	if d.Queue != "q" || d.Exchange != "" || d.RoutingKey != "q" || d.Redelivered {
		r.t.Errorf("delivery of queue %q, exchange %q, key %q, redelivered %v; want q, \"\", q, false",
			d.Queue, d.Exchange, d.RoutingKey, d.Redelivered)
	}

	bare := in.next().Properties
	if !bare.Timestamp.IsZero() {
		r.t.Errorf("a message without a timestamp arrived with %v", bare.Timestamp)
	}
	checkHeaders(r, bare.Headers, nil)
	bare.Headers = nil
	if !reflect.DeepEqual(bare, bus.Properties{}) {
		r.t.Errorf("a message without properties arrived with %+v", bare)
	}
}

func userID(r *rig) {
	c := r.open(declare(quorum("q")))
	if c.User() == "" {
		r.t.Fatal("User is empty: the harness must give its sessions a name")
	}
	c.storePub(bus.Publication{Key: "q", Properties: bus.Properties{UserID: c.User()}})
	if got := c.read("q", 1).next().UserID; got != c.User() {
		r.t.Errorf("user id %q, want %q", got, c.User())
	}
}

// checkHeaders compares headers; a broker may add its own, whose names begin
// with "x-".
func checkHeaders(r *rig, got, want map[string]any) {
	r.t.Helper()
	for name, w := range want {
		g := got[name]
		if wt, isTime := w.(time.Time); isTime {
			if gt, ok := g.(time.Time); !ok || !gt.Equal(wt) {
				r.t.Errorf("header %q is %#v, want %#v", name, g, w)
			}
		} else if !reflect.DeepEqual(g, w) {
			r.t.Errorf("header %q is %#v, want %#v", name, g, w)
		}
	}
	for name, g := range got {
		if _, sent := want[name]; !sent && !strings.HasPrefix(name, "x-") {
			r.t.Errorf("header %q = %#v was never sent", name, g)
		}
	}
}

func expirationRounding(r *rig) {
	c := r.open(declare(quorum("q")))
	in := c.read("q", 10)
	for _, test := range []struct{ sent, want time.Duration }{
		{90_123*time.Millisecond + 999*time.Microsecond, 90_123 * time.Millisecond},
		{time.Minute, time.Minute},
		{0, 0},
	} {
		p := text("q", "x")
		p.Expiration = test.sent
		c.storePub(p)
		if got := in.next().Expiration; got != test.want {
			r.t.Errorf("expiration %v arrived as %v, want %v", test.sent, got, test.want)
		}
	}
}

func unroutable(r *rig) {
	c := r.open(declare(quorum("q")))
	c.send(text("q", "before"))
	c.send(text("missing", "lost"))
	c.send(text("q", "after"))
	for i, want := range []bus.Outcome{bus.Confirmed, bus.Unroutable, bus.Confirmed} {
		if s := c.settled(); s.token != c.published[i] || s.outcome != want {
			r.t.Errorf("settlement %d is %+v, want token %d %v", i, s, c.published[i], want)
		}
	}
	c.read("q", 10).bodies("before", "after")
}

// A quorum queue may take a few more than its limit before it refuses, so the
// case goes on until the first refusal.
func fullQueueRejects(r *rig) {
	const limit, tries = 3, 100
	q := quorum("q")
	q.MaxLength = limit
	c := r.open(declare(q))
	taken := 0
	for ; taken < tries; taken++ {
		got := c.outcome(text("q", fmt.Sprint(taken)))
		if got == bus.Rejected {
			break
		}
		if got != bus.Confirmed {
			r.t.Fatalf("publication %d is %v, want confirmed or rejected", taken, got)
		}
	}
	if taken < limit || taken == tries {
		r.t.Fatalf("the queue took %d messages, want at least its limit of %d and then a refusal", taken, limit)
	}
	in := c.read("q", tries)
	for i, d := range in.take(taken) {
		if string(d.Body) != fmt.Sprint(i) {
			r.t.Fatalf("delivery %d is %q: the refused message or another is there", i, d.Body)
		}
		c.Ack(d.Tag)
	}
	eventually(r.t, "the emptied queue to take a message again", func() bool {
		return c.outcome(text("q", "again")) == bus.Confirmed
	})
}

func fullQueueDropsHead(r *rig) {
	q := quorum("q")
	q.MaxLength, q.DropHead = 2, true
	c := r.open(declare(q))
	for _, body := range []string{"1", "2", "3", "4", "5"} {
		c.store("q", body)
	}
	c.waitDepth("q", bus.Depth{Ready: 2})
	c.read("q", 10).bodies("4", "5")
}

func encodingErrors(r *rig) {
	c := r.open(declare(quorum("q")))
	long := strings.Repeat("é", 128) // 256 bytes in 128 characters
	header := func(name string, value any) func(*bus.Publication) {
		return func(p *bus.Publication) { p.Headers = map[string]any{name: value} }
	}
	for name, spoil := range map[string]func(*bus.Publication){
		"message id":               func(p *bus.Publication) { p.MessageID = long },
		"correlation id":           func(p *bus.Publication) { p.CorrelationID = long },
		"reply-to":                 func(p *bus.Publication) { p.ReplyTo = long },
		"type":                     func(p *bus.Publication) { p.Type = long },
		"app id":                   func(p *bus.Publication) { p.AppID = long },
		"user id":                  func(p *bus.Publication) { p.UserID = long },
		"content type":             func(p *bus.Publication) { p.ContentType = long },
		"content encoding":         func(p *bus.Publication) { p.ContentEncoding = long },
		"routing key":              func(p *bus.Publication) { p.Key = long },
		"exchange":                 func(p *bus.Publication) { p.Exchange = long },
		"header name":              header(long, "x"),
		"nested header name":       header("table", map[string]any{long: "x"}),
		"header name in a list":    header("list", []any{map[string]any{long: "x"}}),
		"nil header":               header("nil", nil),
		"header of a strange type": header("strange", struct{}{}),
		"strange type in a list":   header("list", []any{struct{}{}}),
	} {
		p := text("q", "never sent")
		spoil(&p)
		var want *bus.EncodingError
		if err := c.Publish(p); !errors.As(err, &want) {
			r.t.Errorf("%s: Publish gives %v, want an *EncodingError", name, err)
		}
	}
	c.store("q", "sent")
	c.read("q", 10).bodies("sent")
	c.waitDepth("q", bus.Depth{Ready: 0, Consumers: 1})
}

func longestStrings(r *rig) {
	longest := strings.Repeat("x", 255)
	// A direct exchange, because the name of a queue itself is limited further.
	c := r.open(bus.Topology{
		Mode:      bus.Declare,
		Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Direct}},
		Queues:    []bus.Queue{quorum("q")},
		Bindings:  []bus.Binding{{Exchange: "x", Queue: "q", Key: longest}},
	})
	in := c.read("q", 1)
	sent := bus.Properties{
		ContentType: longest, ContentEncoding: longest, Type: longest, MessageID: longest,
		CorrelationID: longest, ReplyTo: longest, AppID: longest,
		Headers: map[string]any{longest: longest},
	}
	c.storePub(bus.Publication{Exchange: "x", Key: longest, Properties: sent})
	d := in.next()
	if d.MessageID != longest || d.RoutingKey != longest || d.Headers[longest] != longest {
		r.t.Errorf("a string of 255 bytes did not survive: %+v", d)
	}
}
