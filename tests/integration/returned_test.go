package integration

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// trio is three equal agents that must take a task within a second.
const trio = `
agents:
  a1: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1, accept_timeout_seconds: 1}
  a2: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1, accept_timeout_seconds: 1}
  a3: {capabilities: [code], max_concurrent_tasks: 2, health_check_interval: 1, accept_timeout_seconds: 1}
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 10
  stale_agent_threshold_seconds: 60
  max_retry_attempts: 2
`

// Whatever way a dispatch comes back, it goes to agents that have not had it, with
// the next attempt, and after max_retry_attempts to assignment.failed.
func TestReturnedWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, cause string
		// give does to the dispatch what brings it back.
		give func(r *rig, queue string)
	}{
		{"the agent rejects it", "rejected",
			func(r *rig, queue string) { r.takeAnd(queue, func(d amqp.Delivery) error { return d.Reject(false) }) }},
		{"the agent nacks it", "rejected", func(r *rig, queue string) {
			r.takeAnd(queue, func(d amqp.Delivery) error { return d.Nack(false, false) })
		}},
		{"nobody takes it in time", "expired", func(*rig, string) {}},
		{"the agent's channel is lost while it holds it", "expired",
			func(r *rig, queue string) { r.takeAnd(queue, func(amqp.Delivery) error { return nil }) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, trio)
			c := r.start()
			r.online(c, "a1", "a2", "a3")
			m := task("t-1", "build").message()
			m.Headers = amqp.Table{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
			r.publish(bus.QueueAssign, m)

			var had []string
			for attempt := 1; attempt <= 2; attempt++ {
				v := r.awaitAttempt(c, "t-1", attempt)
				for _, before := range had {
					if v == before {
						t.Fatalf("attempt %d went to %s, which had it before", attempt, v)
					}
				}
				had = append(had, v)
				tt.give(r, "agent."+v)
			}
			f := r.failures(1)[0]
			if f.TaskID != "t-1" || f.CorrelationID != "trace-t-1" || f.ReasonCode != "retries_exhausted" || !f.RetryPossible ||
				f.Attempts != 2 {
				t.Errorf("%s", f.amqp.Body)
			}
			for _, part := range append([]string{tt.cause, "2 dispatches came back"}, had...) {
				if !strings.Contains(f.Reason, part) {
					t.Errorf("the reason does not say %q: %s", part, f.Reason)
				}
			}
			if n := c.status().Counters.Returned; n != 2 {
				t.Errorf("%d returned dispatches counted, want 2", n)
			}
			r.empty("agent.a1", "agent.a2", "agent.a3", bus.QueueDead)
			r.finish(c)
		})
	}
}

// awaitAttempt waits until this attempt is dispatched and returns the agent.
func (r *rig) awaitAttempt(c *process, id string, attempt int) string {
	r.t.Helper()
	var agent string
	eventually(r.t, patience, "the next attempt", func() (bool, string) {
		v := c.task(id)
		agent = v.Agent
		return v.Attempt == attempt && v.State == "dispatched", v.State + " to " + v.Agent
	})
	return agent
}

// takeAnd takes the one dispatch of a queue, does something with it, and closes
// the channel.
func (r *rig) takeAnd(queue string, act func(amqp.Delivery) error) {
	r.t.Helper()
	channel, err := r.conn.Channel()
	if err != nil {
		r.t.Fatal(err)
	}
	defer channel.Close()
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	d, ok := <-deliveries
	if !ok {
		r.t.Fatalf("%s was deleted", queue)
	}
	if err := act(d); err != nil {
		r.t.Fatal(err)
	}
}

// What comes back is the producer's task, whole: its payload, priority, trace and
// reply address survive as many returns as there are.
func TestReturnedTaskIsWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, trio, "max_retry_attempts: 2", "max_retry_attempts: 3"))
	c := r.start()
	r.online(c, "a1", "a2", "a3")
	const payload = `{ "n":12345678901234567890 , "s":"\u00fc" }`
	r.publish(bus.QueueAssign, amqp.Publishing{
		Body: []byte(`{"message_type":"task.assign","task_id":"t-1","task_type":"build","payload":` + payload +
			`,"priority":3,"correlation_id":"trace-1","timeout_seconds":77.5,"labels":{"team":"a"}}`),
		Headers: amqp.Table{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	})
	for attempt := 1; attempt <= 3; attempt++ {
		agent := r.awaitAttempt(c, "t-1", attempt)
		r.takeAnd("agent."+agent, func(d amqp.Delivery) error {
			m := readDispatch(t, d)
			if string(m.Payload) != payload || m.Priority != 3 || m.CorrelationID != "trace-1" || m.TimeoutSeconds != 77.5 ||
				m.Attempt != attempt || d.MessageId != m.DispatchID ||
				d.Headers["traceparent"] != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" || maybeDuplicate(d) {
				t.Errorf("attempt %d: %s, headers %v", attempt, d.Body, d.Headers)
			}
			if attempt == 3 {
				return d.Ack(false)
			}
			return d.Reject(false)
		})
	}
	r.empty("agent.a1", "agent.a2", "agent.a3", bus.QueueFailed, bus.QueueDead)
	r.finish(c)
}
