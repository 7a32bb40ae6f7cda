package bustest

import (
	"fmt"
	"time"
)

func streamCases() []testCase {
	return []testCase{
		{name: "every reader reads everything", run: streamReadByAll},
		{name: "From reads the past, again and again", run: streamPast},
		{name: "without From only what comes next", run: streamNext},
		{name: "acknowledging moves the credit", run: streamCredit},
	}
}

func streamReadByAll(r *rig) {
	a, b := r.open(declare(stream("s"))), r.open(declare(stream("s")))
	for _, body := range []string{"1", "2", "3"} {
		a.store("s", body)
	}
	inA, inB := a.readFrom("s", 10, time.Minute), b.readFrom("s", 10, time.Minute)
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
	for range 2 {
		c := r.open(declare(stream("s")))
		for _, d := range c.readFrom("s", 10, time.Minute).bodies("1", "2") {
			if d.Queue != "s" || d.RoutingKey != "s" {
				r.t.Errorf("delivered from queue %q with key %q, want s and s", d.Queue, d.RoutingKey)
			}
			c.Ack(d.Tag) // removes nothing: the second round reads the same
		}
		c.close()
	}
}

// When Subscribe returns the reader may not stand yet, so the case goes on
// publishing until the first message is read.
func streamNext(r *rig) {
	c := r.open(declare(stream("s")))
	c.store("s", "past")
	in := c.readFrom("s", 10, 0)
	eventually(r.t, "the reader to get a new message", func() bool {
		c.store("s", "new")
		return len(in.got) > 0
	})
	if d := in.next(); string(d.Body) != "new" {
		r.t.Errorf("read %q, want only what came after Subscribe", d.Body)
	}
}

func streamCredit(r *rig) {
	const prefetch, n = 2, 30
	c := r.open(declare(stream("s")))
	for i := range n {
		c.store("s", fmt.Sprint(i))
	}
	in := c.readFrom("s", prefetch, time.Minute)
	for i := range n {
		d := in.bodies(fmt.Sprint(i))[0]
		c.Ack(d.Tag)
	}
}
