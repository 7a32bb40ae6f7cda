package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

// books are a ledger that also has the ends of tasks, as taskbus.events announces
// them: one for each task, whatever happens (S16).
type books struct {
	*ledger // its mutex guards all
	ends    map[string][]ending
	events  map[string]int // by routing key
	bodies  [][]byte
	marks   int
}

// ending is how a task ended: task.completed, or assignment.failed.
type ending struct {
	// What is succeeded, failed or cancelled by its agent's word, else a reason code.
	What     string
	ByAgent  bool
	Agent    string `json:"agent_id"`
	Outcome  string `json:"outcome"`
	Attempt  int    `json:"attempt"`
	Attempts int    `json:"attempts"`
	Dispatch string `json:"dispatch_id"`
	Late     bool   `json:"late"`
	Error    string `json:"error"`
	Code     string `json:"reason_code"`
	Reason   string `json:"reason"`
	Task     string `json:"task_id"`
	Trace    string `json:"correlation_id"`
	Type     string `json:"message_type"`
}

// observer is the queue by which the books hear of events. It lasts: what is
// announced while its reader is away is read later.
const observer = "observer"

// open begins to keep books in a virtual host, before the coordinator starts.
func (r *rig) open() *books {
	r.t.Helper()
	b := &books{ledger: newLedger(), ends: map[string][]ending{}, events: map[string]int{}}
	r.broker.DeclareExchange(r.t, bus.ExchangeEvents, "topic")
	r.broker.DeclareQueue(r.t, observer, nil)
	r.broker.Bind(r.t, bus.ExchangeEvents, observer, "#")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		b.observe(r.t, r.broker, stop)
	}()
	r.t.Cleanup(func() { close(stop); <-done })
	return b
}

// observe reads until the test ends, over as many connections as it takes.
func (b *books) observe(t testing.TB, broker brokertest.Broker, stop <-chan struct{}) {
	for {
		conn, err := amqp.Dial(broker.URL)
		if err == nil {
			b.read(t, conn, stop)
			_ = conn.CloseDeadline(time.Now().Add(patience))
		}
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond): // the broker is away
		}
	}
}

func (b *books) read(t testing.TB, conn *amqp.Connection, stop <-chan struct{}) {
	channel, err := conn.Channel()
	if err != nil {
		return
	}
	events, err := channel.Consume(observer, "", false, false, false, false, nil)
	if err != nil {
		return
	}
	for {
		select {
		case d, open := <-events:
			if !open {
				return
			}
			b.note(t, d)
			_ = d.Ack(false) // if the connection has ended, it comes again, and is known
		case <-stop:
			return
		}
	}
}

// note takes down an event.
func (b *books) note(t testing.TB, d amqp.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.Redelivered && slices.ContainsFunc(b.bodies, func(had []byte) bool { return bytes.Equal(had, d.Body) }) {
		return
	}
	b.bodies = append(b.bodies, d.Body)
	b.events[d.RoutingKey]++
	var e ending
	if d.RoutingKey == mark {
		return
	}
	if err := json.Unmarshal(d.Body, &e); err != nil {
		t.Errorf("the event %s cannot be read: %q", d.RoutingKey, d.Body)
		return
	}
	switch e.Type {
	case "task.completed":
		e.What, e.ByAgent = e.Outcome, true
	case "assignment.failed":
		e.What = e.Code
	default:
		return
	}
	b.ends[e.Task] = append(b.ends[e.Task], e)
}

// mark is the key of the books' own events.
const mark = "test.mark"

// upToDate waits until everything announced so far is in the books.
func (r *rig) upToDate(b *books) {
	r.t.Helper()
	b.marks++
	r.broker.Publish(r.t, bus.ExchangeEvents, mark, amqp.Publishing{Body: fmt.Append(nil, b.marks)})
	eventually(r.t, patience, "the books are up to date", func() (bool, string) {
		n := b.heard(mark)
		return n == b.marks, fmt.Sprintf("%d marks of %d", n, b.marks)
	})
}

// heard counts the events whose key begins so.
func (b *books) heard(key string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, times := range b.events {
		if strings.HasPrefix(k, key) {
			n += times
		}
	}
	return n
}

// end waits for the end of one task.
func (b *books) end(t *testing.T, id string) (e ending) {
	t.Helper()
	eventually(t, patience, id+" ends", func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.ends[id]) == 0 {
			return false, fmt.Sprintf("begun %+v", b.dispatched[id])
		}
		e = b.ends[id][0]
		return true, ""
	})
	if e.Trace != "trace-"+id {
		t.Errorf("%s ended under the trace id %s", id, e.Trace)
	}
	return e
}

// allEnd waits until every acknowledged task has ended.
func (b *books) allEnd(t *testing.T, within time.Duration) {
	t.Helper()
	eventually(t, within, "every acknowledged task ends", func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for id := range b.acknowledged {
			if len(b.ends[id]) == 0 { // one is enough: there may be thousands
				return false, fmt.Sprintf("%d have ended of %d, and %s is open: begun %+v", len(b.ends), len(b.acknowledged), id,
					b.dispatched[id])
			}
		}
		return true, ""
	})
}

// runs waits until a task has been begun so many times, and returns the last agent.
func (b *books) runs(t *testing.T, id string, times int) (last outcome) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("%s is begun (%d)", id, times), func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		all := b.dispatched[id]
		if len(all) < times {
			return false, fmt.Sprintf("begun %+v, ended %+v", all, b.ends[id])
		}
		last = all[times-1]
		return true, ""
	})
	return last
}

// begunBy lists the agents that have begun a task, in order.
func (b *books) begunBy(id string) (agents []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.dispatched[id] {
		agents = append(agents, o.agent)
	}
	return agents
}

// close stops the coordinator and draws the balance: every acknowledged task has
// ended exactly once (S1, S16), as is wanted: `succeeded` unless want says another
// word; nothing unexpected happened, and what was begun was what was sent (S3). In
// the broker nothing is left but the failures and what is parked for them. The
// agents must have been retired, or have nothing in hand.
func (r *rig) close(c *process, b *books, want map[string]string) {
	t := r.t
	t.Helper()
	r.finish(c)
	r.upToDate(b)
	b.mu.Lock()
	failures, parked := 0, 0
	for id := range b.acknowledged {
		word, given := want[id]
		if !given {
			word = "succeeded"
		}
		if ends := b.ends[id]; len(ends) != 1 || ends[0].What != word {
			t.Errorf("%s ended %d times, want once, %s: %+v", id, len(ends), word, ends)
		}
		if word == "succeeded" && len(b.dispatched[id]) == 0 {
			t.Errorf("%s has succeeded, and nobody had begun it", id)
		}
	}
	for id, ends := range b.ends {
		if _, offered := b.offered[id]; !offered {
			t.Errorf("unexpected: %s %+v", id, ends)
		}
		for _, e := range ends {
			if !e.ByAgent {
				failures++
			}
			if e.What == "poisoned" {
				parked++
			}
		}
	}
	for id, all := range b.dispatched {
		for _, o := range all {
			if o.payload != b.offered[id] {
				t.Errorf("%s: %s began another payload than was sent, or what was never sent", id, o.agent)
			}
		}
	}
	agents := slices.Collect(maps.Keys(b.queues()))
	b.mu.Unlock()
	r.empty(agents...)
	r.holds(bus.QueueFailed, failures)
	r.holds(bus.QueueDead, parked)
}

// queues are those of every agent that has begun something. mu is held.
func (b *books) queues() map[string]bool {
	all := map[string]bool{}
	for _, dispatches := range b.dispatched {
		for _, o := range dispatches {
			all["agent."+o.agent] = true
		}
	}
	return all
}
