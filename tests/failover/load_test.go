package failover

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// request is a task.assign as a producer writes it.
type request struct {
	MessageType   string          `json:"message_type"`
	TaskID        string          `json:"task_id"`
	TaskType      string          `json:"task_type"`
	Payload       json.RawMessage `json:"payload"`
	CorrelationID string          `json:"correlation_id"`
	Group         string          `json:"group,omitempty"`
	// Usage as the producer estimates it.
	Usage map[string]int `json:"estimated_usage,omitempty"`
}

// task is a request with a payload and a trace id that follow from its id.
func task(id, kind string) request {
	return request{
		MessageType: "task.assign", TaskID: id, TaskType: kind,
		Payload: json.RawMessage(fmt.Sprintf(`{"of": %q}`, id)), CorrelationID: "trace-" + id,
	}
}

func (q request) message() amqp.Publishing {
	body, err := json.Marshal(q)
	if err != nil {
		panic(err) // a fault of the test itself: every field can be marshalled
	}
	return amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: body}
}

// One of so many tasks is of an unknown type, and fails.
const oneFails = 50

// load is a producer at a steady rate. It connects again for as long as it takes; what
// was not confirmed is not offered again.
type load struct {
	r      *rig
	name   string
	rate   int // tasks a second
	paused atomic.Bool
	number int
	stop   context.CancelFunc
	ended  chan struct{}
}

// fails tells whether a task of a load should fail.
func fails(id string) bool { return strings.HasSuffix(id, "-fails") }

// load begins to offer tasks.
func (r *rig) load(name string, rate int) *load {
	ctx, cancel := context.WithCancel(r.living)
	l := &load{r: r, name: name, rate: rate, stop: cancel, ended: make(chan struct{})}
	r.helpers.Go(func() {
		defer close(l.ended)
		for ctx.Err() == nil {
			l.session(ctx)
			pause(ctx, 50*time.Millisecond)
		}
	})
	return l
}

// finish ends the load; what is under way is confirmed, or not, afterwards.
func (l *load) finish() {
	l.stop()
	<-l.ended
}

func (l *load) session(ctx context.Context) {
	conn, err := amqp.Dial(l.r.url)
	if err != nil {
		return
	}
	defer conn.CloseDeadline(time.Now().Add(patience))
	const portions = 50 // a second
	ticks := time.NewTicker(time.Second / portions)
	defer ticks.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		if l.paused.Load() {
			continue
		}
		portion := make([]request, max(l.rate/portions, 1))
		for i := range portion {
			l.number++
			if l.number%oneFails == 0 {
				portion[i] = task(fmt.Sprintf("%s-%d-fails", l.name, l.number), "nonsense")
			} else {
				portion[i] = task(fmt.Sprintf("%s-%d", l.name, l.number), "build")
			}
		}
		if l.r.offerOver(conn, portion...) < len(portion) {
			return
		}
	}
}

// offer publishes tasks and notes which of them the broker has accepted: all must be.
func (r *rig) offer(tasks ...request) {
	r.t.Helper()
	conn := r.dial()
	defer conn.CloseDeadline(time.Now().Add(patience))
	if n := r.offerOver(conn, tasks...); n != len(tasks) {
		r.t.Fatalf("the broker has accepted %d of %d tasks", n, len(tasks))
	}
}

// offerOver publishes tasks over a connection. It tells how many were confirmed.
func (r *rig) offerOver(conn *amqp.Connection, tasks ...request) (confirmed int) {
	ch, err := conn.Channel()
	if err != nil || ch.Confirm(false) != nil {
		return 0
	}
	defer ch.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	waiting := make([]*amqp.DeferredConfirmation, len(tasks))
	for i, q := range tasks {
		r.book.mu.Lock()
		r.book.of(q.TaskID)
		r.book.mu.Unlock()
		if waiting[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, "", bus.QueueAssign, true, false,
			q.message()); err != nil {
			break // the connection has ended
		}
	}
	for i, w := range waiting {
		if w == nil {
			continue
		}
		if ok, err := w.WaitContext(ctx); ok && err == nil {
			r.book.confirm(tasks[i].TaskID)
			confirmed++
		}
	}
	return confirmed
}
