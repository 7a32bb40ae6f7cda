package bustest

import (
	"fmt"
	"strings"
	"time"

	"taskbus/coordinator/bus"
)

func streamCases() []testCase {
	return []testCase{
		{name: "every reader reads everything", run: streamReadByAll},
		{name: "From reads the past, again and again", run: streamPast},
		{name: "without From only what comes next", run: streamNext},
		{name: "Ago leaves out what is older", run: streamAgo},
		{name: "Since begins at a time by the broker's clock", run: streamSince},
		{name: "Last begins at the end of what there is", run: streamLast},
		{name: "Last of an empty stream is what comes next", run: streamLastOfNothing},
		{name: "At begins with the message at that offset", run: streamAt},
		{name: "At beyond the end reads nothing until it is reached", run: streamBeyondEnd},
		{name: "a position before what is kept begins with the first that is", run: streamTrimmed},
		{name: "offsets grow and are the same for all; a queue has none", run: streamOffsets},
		{name: "acknowledging moves the credit", run: streamCredit},
		{name: "Depth says in the end what there is, and never more", run: streamDepth},
	}
}

// counted stores n messages, whose bodies count from 0.
func (c *client) counted(queue string, n int) {
	c.t.Helper()
	for i := range n {
		c.store(queue, fmt.Sprint(i))
	}
}

func streamReadByAll(r *rig) {
	a, b := r.open(declare(stream("s"))), r.open(declare(stream("s")))
	for _, body := range []string{"1", "2", "3"} {
		a.store("s", body)
	}
	inA, inB := a.readFrom("s", 10, bus.Ago(time.Minute)), b.readFrom("s", 10, bus.First())
	inA.bodies("1", "2", "3")
	inB.bodies("1", "2", "3")
	b.store("s", "4")
	inA.bodies("4")
	inB.bodies("4")
}

func streamPast(r *rig) {
	writer := r.open(declare(stream("s")))
	writer.store("s", "1")
	writer.store("s", "2")
	for _, from := range []bus.Position{bus.Ago(time.Minute), bus.Ago(time.Minute), bus.First(), bus.At(0)} {
		c := r.open(declare(stream("s")))
		for _, d := range c.readFrom("s", 10, from).bodies("1", "2") {
			if d.Queue != "s" || d.RoutingKey != "s" {
				r.t.Errorf("delivered from queue %q with key %q, want s and s", d.Queue, d.RoutingKey)
			}
			c.Ack(d.Tag) // removes nothing: the next round reads the same
		}
		c.close()
	}
}

// When Subscribe returns the reader may not stand yet, so the case goes on
// publishing until the first message is read.
func streamNext(r *rig) {
	c := r.open(declare(stream("s")))
	c.store("s", "past")
	in := c.readFrom("s", 10, bus.Position{})
	eventually(r.t, "the reader to get a new message", func() bool {
		c.store("s", "new")
		return len(in.got) > 0
	})
	if d := in.next(); string(d.Body) != "new" {
		r.t.Errorf("read %q, want only what came after Subscribe", d.Body)
	}
}

// What was published before the time is left out, also if nothing is left then.
func streamAgo(r *rig) {
	c := r.open(declare(stream("s")))
	c.store("s", "past")
	time.Sleep(3 * time.Second) // it takes whole seconds
	in := c.readFrom("s", 10, bus.Ago(time.Second))
	eventually(r.t, "the reader to get a new message", func() bool { // see streamNext
		c.store("s", "new")
		return len(in.got) > 0
	})
	if d := in.next(); string(d.Body) != "new" {
		r.t.Errorf("read %q, want only what is a second old", d.Body)
	}
}

// What was stored before the time is left out, also if nothing is left then, and what was stored later
// is read. The broker of these tests has the clock of this machine.
func streamSince(r *rig) {
	c := r.open(declare(stream("s")))
	c.store("s", "past")
	stored := time.Now()
	in := c.readFrom("s", 10, bus.Since(stored.Add(3*time.Second)))
	eventually(r.t, "the reader to get a new message", func() bool { // see streamNext
		c.store("s", "new")
		return len(in.got) > 0
	})
	if d := in.next(); string(d.Body) != "new" {
		r.t.Errorf("read %q, want only what is stored from then on", d.Body)
	}
	for _, since := range []time.Time{stored.Add(-3 * time.Second), stored.Add(-40 * 24 * time.Hour), {}} {
		c := r.open(bus.Topology{Mode: bus.Off})
		if d := c.readFrom("s", 10, bus.Since(since)).next(); string(d.Body) != "past" {
			r.t.Errorf("since %v: read %q, want what was stored later", since, d.Body)
		}
	}
}

// A broker may keep messages together and begin with the first of them.
func streamLast(r *rig) {
	const n = 200
	c := r.open(declare(stream("s")))
	c.counted("s", n)
	in := c.readFrom("s", n, bus.Last())
	first := in.next()
	for d := first; string(d.Body) != fmt.Sprint(n-1); {
		next := in.next()
		if next.Offset <= d.Offset {
			r.t.Fatalf("offset %d follows %d", next.Offset, d.Offset)
		}
		d = next
	}
	if string(first.Body) == "0" {
		r.t.Errorf("all %d messages were read, want the last", n)
	}
	c.store("s", "news")
	in.bodies("news")
}

func streamLastOfNothing(r *rig) {
	c := r.open(declare(stream("s")))
	in := c.readFrom("s", 10, bus.Last())
	eventually(r.t, "the reader to get a new message", func() bool {
		c.store("s", "new")
		return len(in.got) > 0
	})
	in.bodies("new")
}

func streamAt(r *rig) {
	const n = 50
	c := r.open(declare(stream("s")))
	c.counted("s", n)
	all := c.readFrom("s", n, bus.First()).take(n)
	for _, i := range []int{0, 1, n / 2, n - 1} {
		d := c.readFrom("s", n, bus.At(all[i].Offset)).bodies(fmt.Sprint(i))[0]
		if d.Offset != all[i].Offset {
			r.t.Errorf("message %d is at offset %d, then at %d", i, all[i].Offset, d.Offset)
		}
	}
}

func streamBeyondEnd(r *rig) {
	const n, beyond, more = 5, 3, 8
	c := r.open(declare(stream("s")))
	c.counted("s", n)
	end := c.readFrom("s", n, bus.First()).take(n)[n-1].Offset
	in := c.readFrom("s", 100, bus.At(end+1+beyond))
	behind := c.readFrom("s", 100, bus.First()) // has read what the other must not
	for i := range more {
		c.store("s", fmt.Sprint(n+i))
	}
	// The broker may number more than messages, so which is the first is told by
	// its offset.
	for _, d := range behind.take(n + more) {
		if d.Offset < end+1+beyond {
			continue
		}
		if got := in.next(); got.Offset != d.Offset || string(got.Body) != string(d.Body) {
			r.t.Fatalf("read %q at %d, want %q at %d", got.Body, got.Offset, d.Body, d.Offset)
		}
	}
	if extra := len(in.got); extra != 0 {
		r.t.Errorf("%d messages were read too many", extra)
	}
}

// The stream is declared so small that a broker with retention of its own forgets
// most of what is published.
func streamTrimmed(r *rig) {
	const n = 100
	small := bus.Queue{Name: "s", Kind: bus.Stream, MaxBytes: 10_000, SegmentBytes: 2_000}
	c := r.open(declare(small))
	body := func(i int) string { return fmt.Sprint(i) + strings.Repeat(".", 500) }
	for i := range n {
		c.store("s", body(i))
	}
	r.harness.Trim(r.t, r.bus, "s")
	var first bus.Delivery
	eventually(r.t, "the first messages to be forgotten", func() bool {
		reader := r.open(declare())
		defer reader.close()
		first = reader.readFrom("s", 1, bus.First()).next()
		return string(first.Body) != body(0)
	})
	for _, from := range []bus.Position{bus.At(0), bus.Ago(time.Hour), bus.At(first.Offset)} {
		in := c.readFrom("s", n, from)
		d := in.next()
		if d.Offset < first.Offset {
			r.t.Errorf("from %+v: begins at %d, although %d was the first", from, d.Offset, first.Offset)
		}
		for string(d.Body) != body(n-1) {
			next := in.next()
			if next.Offset <= d.Offset {
				r.t.Fatalf("offset %d follows %d", next.Offset, d.Offset)
			}
			d = next
		}
	}
}

func streamOffsets(r *rig) {
	const n = 20
	c := r.open(declare(stream("s"), quorum("q")))
	c.counted("s", n)
	one, other := c.readFrom("s", n, bus.First()).take(n),
		r.open(declare(stream("s"))).readFrom("s", n, bus.Ago(time.Minute)).take(n)
	for i := range n {
		if one[i].Offset != other[i].Offset || i > 0 && one[i].Offset <= one[i-1].Offset {
			r.t.Errorf("message %d is at %d and at %d, the one before at %d", i, one[i].Offset, other[i].Offset,
				one[max(i-1, 0)].Offset)
		}
	}
	if one[0].Offset < 0 {
		r.t.Errorf("offset %d of a message in a stream", one[0].Offset)
	}
	// What it says of itself does not count: here it was copied out of a stream.
	p := text("q", "copied")
	p.Headers = map[string]any{"x-stream-offset": int64(7)}
	c.storePub(p)
	if d := c.read("q", 1).next(); d.Offset != -1 {
		r.t.Errorf("offset %d of a message in a queue, want -1", d.Offset)
	}
}

func streamCredit(r *rig) {
	const prefetch, n = 2, 30
	c := r.open(declare(stream("s")))
	c.counted("s", n)
	in := c.readFrom("s", prefetch, bus.First())
	for i := range n {
		d := in.bodies(fmt.Sprint(i))[0]
		c.Ack(d.Tag)
	}
}

func streamDepth(r *rig) {
	const n = 20
	c := r.open(declare(stream("s")))
	c.counted("s", n)
	eventually(r.t, "the broker to have counted", func() bool {
		depth, err := c.Depth(r.ctx(), "s")
		if err != nil || depth.Ready > n || depth.Consumers != 0 {
			r.t.Fatalf("Depth = %+v, %v; want at most %d, and no consumer", depth, err, n)
		}
		return depth.Ready == n
	})
}
