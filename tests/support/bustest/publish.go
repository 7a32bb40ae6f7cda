package bustest

import (
	"bytes"
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
		make([]byte, bus.MaxBody),
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
