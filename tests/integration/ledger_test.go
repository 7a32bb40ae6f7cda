package integration

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// ledger is the books of one test: what producers offered, what the broker
// acknowledged, and what came out. After a drain, balance compares.
type ledger struct {
	mu           sync.Mutex
	offered      map[string][32]byte // payload's SHA-256 by task id
	acknowledged map[string]bool
	dispatched   map[string][]outcome
}

// outcome is one dispatch of one task.
type outcome struct {
	agent, dispatchID string
	payload           [32]byte
	marked            bool
}

func newLedger() *ledger {
	return &ledger{
		offered: map[string][32]byte{}, acknowledged: map[string]bool{},
		dispatched: map[string][]outcome{},
	}
}

// offer publishes tasks and enters them into the books. It tells how many the
// broker has acknowledged.
func (l *ledger) offer(c *client, tasks ...request) (acknowledged int) {
	msgs := make([]amqp.Publishing, len(tasks))
	l.mu.Lock()
	for i, q := range tasks {
		msgs[i] = q.message()
		l.offered[q.TaskID] = payloadHash(q)
	}
	l.mu.Unlock()
	for i, ok := range c.tryPublish(bus.QueueAssign, msgs...) {
		if ok {
			l.mu.Lock()
			l.acknowledged[tasks[i].TaskID] = true
			l.mu.Unlock()
			acknowledged++
		}
	}
	return acknowledged
}

// payloadHash is the SHA-256 of the payload's bytes as they are sent.
func payloadHash(q request) [32]byte {
	var sent struct {
		Payload json.RawMessage `json:"payload"`
	}
	_ = json.Unmarshal(q.message().Body, &sent) // it has just been marshalled
	return sha256.Sum256(sent.Payload)
}

// enter takes down what an agent got. What the broker itself delivers again, because
// the agent's acknowledgement was lost, is no second dispatch.
func (l *ledger) enter(d dispatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := string(d.TaskID)
	if d.amqp.Redelivered && slices.ContainsFunc(l.dispatched[id],
		func(o outcome) bool { return o.dispatchID == d.DispatchID }) {
		return
	}
	l.dispatched[id] = append(l.dispatched[id], outcome{
		agent: string(d.AssignedAgent), dispatchID: d.DispatchID, payload: sha256.Sum256(d.Payload),
		marked: maybeDuplicate(d.amqp),
	})
}

// accounted counts the acknowledged tasks that have come out.
func (l *ledger) accounted() (done, acknowledged int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.acknowledged {
		if len(l.dispatched[id]) > 0 {
			done++
		}
	}
	return done, len(l.acknowledged)
}

// balance is the total-queue check: nothing lost (S1), nothing unexpected and
// every payload as it was (S3), every copy beyond the first marked (S5). Every task
// that is entered can be done: a failure or a dead letter is unexpected, too. It
// tells how many copies there were, and how many tasks came out although their
// producer was never told that they had gone in.
func (r *rig) balance(l *ledger) (duplicated, recovered int) {
	t := r.t
	t.Helper()
	r.empty(bus.QueueFailed, bus.QueueDead)
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.acknowledged {
		if len(l.dispatched[id]) == 0 {
			t.Errorf("lost: %s", id)
		}
	}
	for id, all := range l.dispatched {
		want, offered := l.offered[id]
		if !offered {
			t.Errorf("unexpected: %s", id)
		}
		if !l.acknowledged[id] {
			recovered++
		}
		unmarked := 0
		for _, o := range all {
			if o.payload != want {
				t.Errorf("%s: %s got another payload than was sent", id, o.agent)
			}
			if !o.marked {
				unmarked++
			}
		}
		duplicated += len(all) - 1
		if unmarked > 1 {
			t.Errorf("%s: %d copies without the mark: %+v", id, unmarked, all)
		}
	}
	return duplicated, recovered
}

// work starts an agent on a connection of its own: it takes its dispatches, enters
// them into the ledger, acknowledges them at once, and reports ten times a second
// until the test ends.
func (r *rig) work(l *ledger, id string, slots int) {
	r.t.Helper()
	done, stop := make(chan struct{}), make(chan struct{})
	c := connect(r.t, r.broker)
	channel, err := c.conn.Channel()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := channel.Qos(slots, 0, false); err != nil {
		r.t.Fatal(err)
	}
	deliveries, err := channel.Consume("agent."+id, "", false, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	decoder := newDecoder(r.t)
	go func() {
		defer close(done)
		for d := range deliveries {
			m, refusal := decoder.DecodeTaskDispatch(d.Body)
			if refusal != nil {
				r.t.Errorf("%s got what is no dispatch: %s", id, refusal.Text)
				return
			}
			l.enter(dispatch{m, d})
			if d.Ack(false) != nil {
				return // the connection has ended
			}
		}
	}()
	go func() {
		beats := time.NewTicker(100 * time.Millisecond)
		defer beats.Stop()
		for {
			c.tryPublish(bus.StreamStatus, beat(id, 0, slots).message())
			select {
			case <-beats.C:
			case <-stop:
				return
			}
		}
	}()
	r.t.Cleanup(func() { close(stop); _ = channel.Close(); <-done })
}

// drained waits until everything acknowledged has come out.
func (l *ledger) drained(t *testing.T, within time.Duration) {
	t.Helper()
	eventually(t, within, "every acknowledged task comes out", func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id := range l.acknowledged {
			if len(l.dispatched[id]) == 0 { // one is enough: there may be thousands
				return false, fmt.Sprintf("%d have come out, %d are acknowledged, and %s is missing", len(l.dispatched),
					len(l.acknowledged), id)
			}
		}
		return true, ""
	})
}

// attemptID is a dispatch id without when its task was accepted, which no test can know: the
// task id, a dot and the attempt. What is no dispatch id stays as it is.
func attemptID(id string) string {
	parts := strings.Split(id, ".")
	if len(parts) < 3 {
		return id
	}
	return strings.Join(slices.Delete(parts, len(parts)-2, len(parts)-1), ".")
}
