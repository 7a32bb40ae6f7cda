package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/tests/support/brokertest"
)

// client is one connection of a producer or of agents. It publishes with
// confirms, one caller at a time.
type client struct {
	t    testing.TB
	conn *amqp.Connection

	mu      sync.Mutex
	channel *amqp.Channel
	returns chan amqp.Return
}

// connect opens a connection; it is closed when the test ends.
func connect(t testing.TB, b brokertest.Broker) *client {
	t.Helper()
	c := &client{t: t, conn: b.Dial(t)}
	t.Cleanup(func() { _ = c.conn.CloseDeadline(time.Now().Add(5 * time.Second)) }) // a fault may have closed it
	var err error
	if c.channel, err = c.conn.Channel(); err != nil {
		t.Fatalf("open a channel: %v", err)
	}
	if err := c.channel.Confirm(false); err != nil {
		t.Fatalf("switch confirms on: %v", err)
	}
	c.returns = c.channel.NotifyReturn(make(chan amqp.Return, 1<<16))
	return c
}

// count is how many of them were confirmed.
func count(confirmed []bool) (n int) {
	for _, ok := range confirmed {
		if ok {
			n++
		}
	}
	return n
}

// tryPublish sends messages to a queue through the default exchange and tells
// which the broker has confirmed. Unlike publish it may be called from any goroutine.
func (c *client) tryPublish(queue string, msgs ...amqp.Publishing) []bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	confirmed := make([]bool, len(msgs))
	waiting := make([]*amqp.DeferredConfirmation, len(msgs))
	for i, m := range msgs {
		w, err := c.channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, m)
		if err != nil {
			break // the connection has ended: nothing more gets through
		}
		waiting[i] = w
	}
	for i, w := range waiting {
		if w != nil {
			ok, err := w.WaitContext(ctx)
			confirmed[i] = ok && err == nil
		}
	}
	return confirmed
}

// publish sends messages to a queue through the default exchange; all must be
// confirmed, and none returned.
func (c *client) publish(queue string, msgs ...amqp.Publishing) {
	c.t.Helper()
	for i, ok := range c.tryPublish(queue, msgs...) {
		if !ok {
			c.t.Fatalf("message %d of %d to %s was not confirmed", i, len(msgs), queue)
		}
	}
	if n := len(c.returns); n > 0 {
		c.t.Fatalf("%d messages to %s reached no queue", n, queue)
	}
}

// request is a task.assign as a producer writes it; empty fields are left out.
type request struct {
	MessageType   string          `json:"message_type"`
	TaskID        string          `json:"task_id"`
	TaskType      string          `json:"task_type"`
	Payload       json.RawMessage `json:"payload"`
	Priority      *int            `json:"priority,omitempty"`
	CorrelationID string          `json:"correlation_id,omitempty"`
	Required      []string        `json:"required_capabilities,omitempty"`
	Strategy      string          `json:"strategy,omitempty"`
	Group         string          `json:"group,omitempty"`
	Timeout       float64         `json:"timeout_seconds,omitempty"`
}

// task is a request with a payload and a trace id that follow from its id.
func task(id, taskType string) request {
	return request{
		MessageType: "task.assign", TaskID: id, TaskType: taskType,
		Payload:       json.RawMessage(fmt.Sprintf(`{"of": %q}`, id)),
		CorrelationID: "trace-" + id,
	}
}

// doing is the task with an order for the agents of this package (see deed).
func (q request) doing(what deed) request {
	q.Payload = fmt.Appendf(nil, `{"of": %q, "do": %q}`, q.TaskID, what)
	return q
}

// within is the task with a time-out.
func (q request) within(d time.Duration) request {
	q.Timeout = d.Seconds()
	return q
}

func (q request) at(p coordinator.Priority) request {
	n := int(p)
	q.Priority = &n
	return q
}

// message is the request as a persistent AMQP message.
func (q request) message() amqp.Publishing {
	body, err := json.Marshal(q)
	if err != nil {
		panic(err) // a fault of the test itself: every field can be marshalled
	}
	return amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: body}
}

// inAMQP are the messages for things to publish.
func inAMQP[T interface{ message() amqp.Publishing }](things []T) []amqp.Publishing {
	msgs := make([]amqp.Publishing, len(things))
	for i, m := range things {
		msgs[i] = m.message()
	}
	return msgs
}

// assign publishes tasks to task.assign.
func (c *client) assign(tasks ...request) {
	c.t.Helper()
	c.publish(bus.QueueAssign, inAMQP(tasks)...)
}

// heartbeat is an agent.status as an agent writes it.
type heartbeat struct {
	MessageType string  `json:"message_type"`
	AgentID     string  `json:"agent_id"`
	Status      string  `json:"status"`
	Load        float64 `json:"current_load"`
	Active      int     `json:"active_tasks"`
	Available   int     `json:"available_capacity"`
	Timestamp   string  `json:"timestamp"`
	// ActiveIDs, if given, are active_task_ids; an empty list is sent as such.
	ActiveIDs []string `json:"active_task_ids,omitzero"`
	// What an agent announces of itself.
	Capabilities []string `json:"capabilities,omitempty"`
	Queue        string   `json:"queue,omitempty"`
	Instance     string   `json:"instance_id,omitempty"`
}

// beat is the heartbeat of an agent that runs active of its slots.
func beat(agent string, active, slots int) heartbeat {
	return heartbeat{
		MessageType: "agent.status", AgentID: agent, Status: "ready",
		Load: float64(active) / float64(slots) / 2, Active: active, Available: slots - active,
		Timestamp: time.Now().UTC().Format(time.RFC3339Nano),
	}
}

func (h heartbeat) message() amqp.Publishing {
	body, err := json.Marshal(h)
	if err != nil {
		panic(err) // a fault of the test itself: every field can be marshalled
	}
	return amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: "application/json", Body: body}
}

// report publishes heartbeats.
func (c *client) report(beats ...heartbeat) {
	c.t.Helper()
	c.publish(bus.StreamStatus, inAMQP(beats)...)
}

// online reports the agents as idle with their configured slots and waits until
// the coordinator knows it.
func (r *rig) online(c *process, agents ...string) {
	r.t.Helper()
	for _, id := range agents {
		r.reported(c, beat(id, 0, c.agent(id).MaxConcurrent))
	}
}

// reported publishes one heartbeat and waits until the coordinator has taken it
// in. Tasks and heartbeats come by different queues: without waiting, a task
// might be looked at first.
func (r *rig) reported(c *process, h heartbeat) {
	r.t.Helper()
	before := c.agent(h.AgentID).LastHeartbeat
	r.report(h)
	c.awaitAgent(h.AgentID, "is heard", func(a view.Agent) bool { return a.LastHeartbeat.After(before) })
}

// dispatch is a task.dispatch as it came out of an agent's queue.
type dispatch struct {
	*messages.TaskDispatch
	amqp amqp.Delivery
}

// readDispatch reads it by the published schema.
func readDispatch(t testing.TB, d amqp.Delivery) dispatch {
	t.Helper()
	m, refusal := newDecoder(t).DecodeTaskDispatch(d.Body)
	if refusal != nil {
		t.Fatalf("an agent got what is no task.dispatch: %s", refusal.Text)
	}
	return dispatch{m, d}
}

// maybeDuplicate tells whether the dispatch is marked.
func maybeDuplicate(d amqp.Delivery) bool { return d.Headers["x-taskbus-maybe-duplicate"] == true }

// failure is an assignment.failed as it came out of its queue.
type failure struct {
	*messages.AssignmentFailed
	amqp amqp.Delivery
}

// readFailure reads it by the published schema.
func readFailure(t testing.TB, d amqp.Delivery) failure {
	t.Helper()
	m, refusal := newDecoder(t).DecodeAssignmentFailed(d.Body)
	if refusal != nil {
		t.Fatalf("assignment.failed holds what is none: %s", refusal.Text)
	}
	return failure{m, d}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
