package bustest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"taskbus/coordinator/bus"
)

// What is not published as it is, or not at all.

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
	r.open(bus.Topology{Mode: bus.Declare, Exchanges: []bus.Exchange{{Name: "x", Kind: bus.Topic}}})
	c := r.open(declare(quorum("q")))
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
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
		"body above its limit":     func(p *bus.Publication) { p.Body = make([]byte, bus.MaxBody+1) },
		"expiration too long":      func(p *bus.Publication) { p.Expiration = bus.MaxExpiration + time.Millisecond },
		"headers above a frame":    header("h", strings.Repeat("x", bus.FrameMax)),
		"headers without end":      header("h", cyclic),
		"further keys, no list":    header("CC", "q"),
		"strange further key":      header("BCC", []any{"q", int64(1)}),
		"unknown exchange":         func(p *bus.Publication) { p.Exchange = "x" }, // there is one, not in the topology
		"another's user id":        func(p *bus.Publication) { p.UserID = c.User() + "x" },
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
