package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// request is a task.assign; empty fields are left out.
type request struct {
	MessageType   string          `json:"message_type"`
	TaskID        string          `json:"task_id"`
	TaskType      string          `json:"task_type"`
	Payload       json.RawMessage `json:"payload"`
	CorrelationID string          `json:"correlation_id"`
	Group         string          `json:"group,omitempty"`
}

func task(id, kind string) request {
	return request{
		MessageType: "task.assign", TaskID: id, TaskType: kind, CorrelationID: "trace-" + id,
		Payload: json.RawMessage(fmt.Sprintf(`{"of": %q, "pad": "%s"}`, id, strings.Repeat("x", len(id)*7%200))),
	}
}

func (q request) body() []byte {
	body, err := json.Marshal(q)
	if err != nil {
		panic(err) // a fault of the test itself: every field can be marshalled
	}
	return body
}

// sentPayload is the payload as it stands in the body: json.Marshal compacts it.
func (q request) sentPayload() json.RawMessage {
	var sent struct {
		Payload json.RawMessage `json:"payload"`
	}
	_ = json.Unmarshal(q.body(), &sent) // it has just been marshalled
	return sent.Payload
}

// producer offers tasks at a steady rate until it is told to stop. It connects again
// for as long as it takes; what was not confirmed is not offered again.
type producer struct {
	r      *rig
	name   string
	kind   string
	rate   int // tasks a second
	most   int // tasks in all
	stop   context.CancelFunc
	ended  chan struct{}
	number int
}

// produce starts a producer; tasks are called name-0, name-1, …
func (r *rig) produce(name, kind string, rate, most int) *producer {
	ctx, cancel := context.WithCancel(r.stopping)
	p := &producer{r: r, name: name, kind: kind, rate: rate, most: most, stop: cancel, ended: make(chan struct{})}
	r.producers = append(r.producers, p)
	r.helpers.Go(func() {
		defer close(p.ended)
		for ctx.Err() == nil && p.number < p.most {
			p.session(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return p
}

// finish stops it and waits.
func (p *producer) finish() {
	p.stop()
	<-p.ended
}

func (p *producer) session(ctx context.Context) {
	conn, err := amqp.Dial(p.r.broker.URL)
	if err != nil {
		return
	}
	defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
	const portions = 20 // a second
	ticks := time.NewTicker(time.Second / portions)
	defer ticks.Stop()
	for p.number < p.most {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		portion := make([]request, min(max(p.rate/portions, 1), p.most-p.number))
		for i := range portion {
			portion[i] = task(fmt.Sprintf("%s-%d", p.name, p.number), p.kind)
			p.number++
		}
		if p.r.offer(conn, portion...) < len(portion) {
			return
		}
	}
}

// offer publishes tasks over a connection and notes them, and which the broker has
// confirmed. It tells how many.
func (r *rig) offer(conn *amqp.Connection, tasks ...request) (confirmed int) {
	replyTo := r.answerTo()
	for _, q := range tasks {
		r.book.offer(q.TaskID, q.sentPayload())
	}
	msgs := make([]amqp.Publishing, len(tasks))
	for i, q := range tasks {
		msgs[i] = persistent(q.body())
		msgs[i].ReplyTo = replyTo
	}
	for i, ok := range publishMessages(conn, bus.QueueAssign, msgs...) {
		if ok {
			r.book.confirm(tasks[i].TaskID)
			confirmed++
		}
	}
	return confirmed
}

// submit offers tasks over a connection of its own; the broker must take all.
func (r *rig) submit(tasks ...request) {
	r.t.Helper()
	conn := r.broker.Dial(r.t)
	defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
	if n := r.offer(conn, tasks...); n != len(tasks) {
		r.t.Fatalf("the broker took %d of %d tasks", n, len(tasks))
	}
}

// many are n tasks of one kind.
func many(name, kind string, n int) []request {
	all := make([]request, n)
	for i := range all {
		all[i] = task(fmt.Sprintf("%s-%d", name, i), kind)
	}
	return all
}

// publish sends bodies to a queue and tells which were confirmed and routed.
func publish(conn *amqp.Connection, queue string, bodies ...[]byte) []bool {
	msgs := make([]amqp.Publishing, len(bodies))
	for i, b := range bodies {
		msgs[i] = persistent(b)
	}
	return publishMessages(conn, queue, msgs...)
}

func publishMessages(conn *amqp.Connection, queue string, msgs ...amqp.Publishing) []bool {
	confirmed := make([]bool, len(msgs))
	ch, err := conn.Channel()
	if err != nil || ch.Confirm(false) != nil {
		return confirmed
	}
	defer ch.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	returns := ch.NotifyReturn(make(chan amqp.Return, len(msgs)))
	waiting := make([]*amqp.DeferredConfirmation, len(msgs))
	for i, m := range msgs {
		m.MessageId = fmt.Sprint(i)
		if waiting[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, m); err != nil {
			break
		}
	}
	for i, w := range waiting {
		if w != nil {
			ok, err := w.WaitContext(ctx)
			confirmed[i] = ok && err == nil
		}
	}
	for len(returns) > 0 {
		var i int
		if _, err := fmt.Sscan((<-returns).MessageId, &i); err == nil {
			confirmed[i] = false
		}
	}
	return confirmed
}
