package service

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// ackOnly is a broker session that is never asked anything.
type ackOnly struct{ bus.Session }

func (ackOnly) Ack(bus.Tag) {}

func (ackOnly) Done() <-chan struct{} { return nil }

func (ackOnly) User() string { return "" }

// resultSession reads results without a broker and without a loop that applies them.
func resultSession(tb testing.TB) *session {
	tb.Helper()
	s, err := New(Options{
		Config: parseConfig(tb, fleet), Logger: zerolog.New(io.Discard), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	r := newSession(s)
	r.use(ackOnly{})
	r.results.CaughtUp.Store(true)
	return r
}

// Results come by the ten thousand a second: what reading one costs is bounded.
// What must be kept of it is 4 allocations: task id, dispatch id, trace id, and the
// event; the agent's id is the one before it. Two more are allowed, because under
// the race detector the decoder's pool forgets now and then. Decoding the slow way
// takes dozens.
func TestReadingAResultIsCheap(t *testing.T) {
	r := resultSession(t)
	var bodies [][]byte
	for i := range 1000 {
		bodies = append(bodies, []byte(resultBody("a1", fmt.Sprint("t-", i), "succeeded",
			fmt.Sprintf(`,"dispatch_id":"t-%d.1","duration_ms":12`, i))))
	}
	i := 0
	got := testing.AllocsPerRun(len(bodies)-1, func() {
		r.onResult(bus.Delivery{Queue: bus.StreamResult, Body: bodies[i%len(bodies)]})
		i++
		r.s.loop.inbox = r.s.loop.inbox[:0]
	})
	if got > 4+2 {
		t.Errorf("%v allocations for a result, want 4, or 6 at most", got)
	}
}

func BenchmarkReadResult(b *testing.B) {
	r := resultSession(b)
	body := []byte(resultBody("a1", "t-1", "succeeded", `,"dispatch_id":"t-1.1","duration_ms":12`))
	b.ReportAllocs()
	for b.Loop() {
		r.onResult(bus.Delivery{Queue: bus.StreamResult, Body: body})
		r.s.loop.inbox = r.s.loop.inbox[:0]
	}
}

// What the loop's goroutine does for a task that has ended.
func BenchmarkCompleted(b *testing.B) {
	r := resultSession(b)
	task := taskNamed("t-1", r.s.now())
	c := &coordinator.Completed{Task: task, Attempt: 1, At: r.s.now(), Result: coordinator.Result{
		Task: task.ID, Agent: "a1", Duration: time.Second, Outcome: coordinator.OutcomeSucceeded,
	}}
	b.ReportAllocs()
	var sent []func()
	for b.Loop() {
		r.perform(c)
		sent = r.outbox.Swap(sent[:0])
		r.outbox.Published()
	}
}
