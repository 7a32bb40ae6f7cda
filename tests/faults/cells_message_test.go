package faults

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// What producers, and other programs, put into the queues.

var messageCells = []cell{
	{name: "malformed messages among the others", short: true, holds: withoutFault,
		play: func(r *rig) { r.oneSession(r.malformed(corpus())) }},
	{name: "huge messages: 1 MiB and a byte, 16 MiB", short: true, holds: withoutFault, play: func(r *rig) {
		r.oneSession(r.malformed(map[string]amqp.Publishing{"1 MiB and a byte": persistent(huge(1<<20 + 1)),
			"16 MiB": persistent(huge(16 << 20))}))
	}},
	{name: "huge messages: 100 MiB", holds: always, play: func(r *rig) {
		// The library holds all of it, and copies it while it grows. On a busy machine an
		// answer behind it may be waited for too long: another session is no fault.
		r.mayTake = 6 * 100 << 20
		r.malformed(map[string]amqp.Publishing{"100 MiB": persistent(huge(100 << 20))})
	}},

	{name: "one id a hundred times at once", short: true, holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(20)
		r.during("copies", func() {
			r.repeat("same", 100)
			c.awaitStatus("99 copies are dropped", func(s view.Status) bool { return s.Counters.Duplicates >= 99 })
		}, func() int { return int(c.status().Counters.Duplicates) })
		r.resumes()
		p.finish()
		r.onceOnly("same")
	}},
	{name: "one id again across a restart", holds: always, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		r.repeat("same", 10)
		r.settled()
		c.kill()
		c = r.serve()
		r.during("copies after a restart", func() {
			r.repeat("same", 10)
			c.awaitStatus("ten copies are dropped", func(s view.Status) bool { return s.Counters.Duplicates >= 10 })
		}, func() int { return int(c.status().Counters.Duplicates) })
		r.resumes()
		r.onceOnly("same")
	}},

	{name: "nobody for a task", holds: withoutFault, play: func(r *rig) {
		r.fates = []fate{{"lost-", "no_eligible_agents"}}
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(20)
		begun := time.Now()
		r.submit(many("lost", "translate", 50)...)
		r.eventually(patience, "L4: each is told to have failed", func() (bool, string) {
			n := 0
			r.book.each(func(e *entry) { n += len(e.failures) })
			return n == 50, fmt.Sprint(n)
		})
		if took := time.Since(begun); took > 10*time.Second {
			r.t.Errorf("L4: a task that nobody can do failed after %v", took)
		}
		r.during("tasks that nobody can do", func() {}, func() int { return int(c.status().Counters.Failed) })
		r.resumes()
		p.finish()
	}},

	{name: "reports by a stranger's name", short: true, holds: withoutFault, play: func(r *rig) {
		// Users belong to the whole broker: their names, which are the agents' ids, must
		// be this cell's own.
		own := func(id string) string { return id + r.broker.VHost[len(r.broker.VHost)-8:] }
		config := strings.Replace(quartet, "agents:", "agents:\n  auth: strict", 1)
		for _, id := range []string{"a1", "a2", "a3", "a4"} {
			config = strings.Replace(config, "  "+id+":", "  "+own(id)+":", 1)
		}
		r.configure(config)
		c := r.serve()
		for _, id := range []string{"a1", "a2", "a3"} {
			as := r.broker.AddUser(r.t, own(id))
			r.broker.SetPermissions(r.t, own(id), ".*", ".*", ".*")
			r.hire(own(id), 5, agentOptions{work: 20 * time.Millisecond, as: as.URL})
		}
		p := r.produce("t", "build", 60, 1_000_000)
		r.inFullSwing(20)
		r.during("forged reports", func() {
			conn := r.broker.Dial(r.t)
			defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
			forger := &agent{r: r, id: own("a4"), slots: 5}
			for range 50 {
				publish(conn, bus.StreamStatus, forger.heartbeat("ready")) // by the admin, unnamed
			}
			c.awaitStatus("S7: each is refused",
				func(s view.Status) bool { return s.Counters.StatusRefused["wrong_sender"] >= 50 })
		}, func() int { return int(c.status().Counters.StatusRefused["wrong_sender"]) })
		if s := state(c.status(), own("a4")); s != "never_seen" {
			r.t.Errorf("S7: after forged reports a4 is %s", s)
		}
		r.resumes()
		p.finish()
	}},
	{name: "reports shuffled and replayed", holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(20)
		r.during("old reports", func() {
			conn := r.broker.Dial(r.t)
			defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
			for i := range 200 {
				// As if it had been full, or offline, minutes ago.
				old := &agent{r: r, id: fmt.Sprint("a", i%4+1), slots: 5,
					skew: -time.Duration(r.chance.Int64N(int64(10*time.Minute))) - 5*time.Second}
				for j := range 5 {
					old.set(func(a *agent) { a.held = map[string]bool{fmt.Sprint("ghost-", j, ".1"): true} })
				}
				publish(conn, bus.StreamStatus, old.heartbeat([]string{"offline", "ready"}[i%2]))
			}
			c.awaitStatus("S9: they are refused",
				func(s view.Status) bool { return s.Counters.StatusRefused["out_of_order"] >= 150 })
		}, func() int { return int(c.status().Counters.StatusRefused["out_of_order"]) })
		for _, a := range c.status().Agents {
			if a.State != "online" {
				r.t.Errorf("S9: after reports from the past %s is %s", a.ID, a.State)
			}
		}
		r.resumes()
		p.finish()
	}},
}

// corpus are messages that no agent may ever see, by what is wrong with them.
func corpus() map[string]amqp.Publishing {
	body := func(more string) []byte {
		return []byte(`{"message_type":"task.assign","task_id":"bad","task_type":"build","payload":{}` + more + `}`)
	}
	all := map[string]amqp.Publishing{}
	for name, b := range map[string][]byte{
		"nothing":            {},
		"null":               []byte("null"),
		"text":               []byte("please assign"),
		"cut off":            body("")[:70],
		"invalid UTF-8":      body(",\"x\":\"\xff\""),
		"10,000 levels":      body(`,"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)),
		"1e9999999":          body(`,"priority":1e9999999`),
		"keys twice":         body(`,"task_id":"other"`),
		"keys in other case": body(`,"Task_ID":"other"`),
		"an id of 255 bytes": bytes.Replace(body(""), []byte(`"bad"`), []byte(`"`+strings.Repeat("x", 255)+`"`), 1),
		"an id of 256 bytes": bytes.Replace(body(""), []byte(`"bad"`), []byte(`"`+strings.Repeat("x", 256)+`"`), 1),
		"100,000 keys":       body(`,"x":{` + manyKeys(100_000) + `}`),
		"no payload":         []byte(`{"message_type":"task.assign","task_id":"bad-2","task_type":"build"}`),
	} {
		all[name] = persistent(b)
	}
	zipped := persistent(body(`,"y":1`))
	zipped.ContentEncoding = "gzip"
	all["claims to be gzip"] = zipped
	return all
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"k%d":0`, i)
	}
	return b.String()
}

// huge is a message of exactly so many bytes.
func huge(size int) []byte {
	head, tail := `{"message_type":"task.assign","task_id":"huge","task_type":"build","payload":{"x":"`, `"}}`
	return append(append([]byte(head), bytes.Repeat([]byte("x"), size-len(head)-len(tail))...), tail...)
}

// malformed mixes messages that must not be seen into the stream. Each of them is parked
// once (S8), and work goes on all the time (L3).
func (r *rig) malformed(all map[string]amqp.Publishing) *process {
	r.t.Helper()
	c := r.serve()
	r.work(4, 5, usual)
	p := r.produce("t", "build", 60, 1_000_000)
	r.inFullSwing(20)
	for _, id := range []string{"bad", "bad-2", "huge", "0"} { // 0 is the message_id of those whose own id cannot be read
		r.book.offer(id, nil) // failures may name it; it is not confirmed, and need not end
	}
	r.fates = []fate{{"bad", "any"}, {"huge", "any"}, {"0", "any"}}
	sums := map[string][32]byte{} // by name: some are large
	for name, m := range all {
		sums[name] = sha256.Sum256(m.Body)
	}
	parked := func() (n int) {
		r.book.mu.Lock()
		defer r.book.mu.Unlock()
		for _, sum := range sums {
			if r.book.dead[sum] > 0 {
				n++
			}
		}
		return n
	}
	r.during("messages that nobody may see", func() {
		conn := r.broker.Dial(r.t)
		defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
		for name, m := range all {
			before := r.book.executed()
			if !publishMessages(conn, bus.QueueAssign, m)[0] {
				r.t.Fatalf("the broker did not take the message: %s", name)
			}
			r.eventually(2*patience, "L3: work goes on behind: "+name, func() (bool, string) {
				return r.book.executed() > before, fmt.Sprint(before)
			})
		}
		r.eventually(3*patience, "S8: each is parked", func() (bool, string) {
			n := parked()
			return n == len(all), fmt.Sprintf("%d of %d", n, len(all))
		})
	}, parked)
	for name, sum := range sums {
		r.book.mu.Lock()
		n := r.book.dead[sum]
		r.book.mu.Unlock()
		if n != 1 {
			r.t.Errorf("S8: %s is in task.dead %d times, want once", name, n)
		}
	}
	r.resumes()
	p.finish()
	return c
}

// repeat offers one task n times from four producers at once.
func (r *rig) repeat(id string, n int) {
	r.t.Helper()
	const producers = 4
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			conn, err := amqp.Dial(r.broker.URL)
			if err != nil {
				r.t.Error("connect as a producer")
				return
			}
			defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
			r.offer(conn, slices.Repeat([]request{task(id, "build")}, n/producers)...)
		})
	}
	wg.Wait()
	if rest := n % producers; rest > 0 {
		r.submit(slices.Repeat([]request{task(id, "build")}, rest)...)
	}
}

// onceOnly asserts that a task was run once, whatever was offered of it (S13).
func (r *rig) onceOnly(id string) {
	r.t.Helper()
	if e := r.book.entry(id); len(e.runs) != 1 || len(e.failures) > 0 {
		r.t.Errorf("S13: %s", &e)
	}
}
