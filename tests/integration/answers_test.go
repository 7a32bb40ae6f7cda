package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// directReplyTo is RabbitMQ's name for answers that need no queue.
const directReplyTo = "amq.rabbitmq.reply-to"

// answer is a final message, of either kind.
type answer struct {
	TaskID     string          `json:"task_id"`
	Outcome    string          `json:"outcome"`
	AgentID    string          `json:"agent_id"`
	ReasonCode string          `json:"reason_code"`
	Output     json.RawMessage `json:"output"`
	// OutputUnknown: it is not kept any more.
	OutputUnknown bool `json:"output_unknown"`
	amqp          amqp.Delivery
}

// answers consumes a queue without acknowledgements, on the connection that tasks are published on: direct reply-to
// must be, and an exclusive queue can be by no other.
func (c *client) answers(queue string) <-chan answer {
	c.t.Helper()
	deliveries, err := c.channel.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	all := make(chan answer, 100)
	go func() {
		for d := range deliveries {
			a := answer{amqp: d}
			if err := json.Unmarshal(d.Body, &a); err != nil {
				c.t.Errorf("an answer that is not JSON: %s", d.Body)
			}
			all <- a
		}
	}()
	return all
}

// next is the next answer.
func next(t *testing.T, answers <-chan answer) answer {
	t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(patience):
		t.Fatalf("no answer within %v", patience)
		panic("unreachable")
	}
}

// asking is a task that names this queue for the answer.
func asking(id, taskType, queue string) amqp.Publishing {
	m := task(id, taskType).message()
	m.ReplyTo = queue
	return m
}

// found is a result with an output.
func (h *hand) found(d dispatch, output string) {
	h.t.Helper()
	body, err := json.Marshal(h.result(string(d.TaskID), d.DispatchID, "succeeded"))
	if err != nil {
		h.t.Fatal(err)
	}
	body = append(body[:len(body)-1], `,"output":`+output+`}`...)
	h.publish(bus.StreamResult, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
	h.ack(d)
}

// Whatever queue a producer names, it gets one final message of each task: the output byte for byte, or why there is
// none.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const output = `{"z" : 12345678901234567890, "text":"\u00fc"}`
	for name, declare := range map[string]func(t *testing.T, c *client) (queue string){
		"durable": func(t *testing.T, c *client) string {
			return declared(t, c, "shop.answers", true, amqp.Table{"x-queue-type": "quorum"})
		},
		"exclusive": func(t *testing.T, c *client) string { return declared(t, c, "", false, nil) },
		"direct":    func(*testing.T, *client) string { return directReplyTo },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fleet)
			c := r.start()
			r.online(c, "a1") // a2 could, too
			a1 := r.hand("a1", 1)
			queue := declare(t, r.client)
			answers := r.answers(queue)
			r.publish(bus.QueueAssign, asking("t-1", "build", queue), asking("t-2", "paint", queue))
			if got := next(t, answers); got.TaskID != "t-2" || got.ReasonCode != "unknown_task_type" ||
				got.amqp.MessageId != "t-2.failed" {
				t.Errorf("of t-2: %s", got.amqp.Body)
			}
			a1.found(a1.take(), output)
			got := next(t, answers)
			if got.TaskID != "t-1" || got.Outcome != "succeeded" || got.AgentID != "a1" || string(got.Output) != output ||
				got.amqp.MessageId != "t-1.completed" || got.amqp.Type != "task.completed" ||
				got.amqp.CorrelationId != "trace-t-1" {
				t.Errorf("of t-1: %s %+v", got.amqp.Body, got.amqp)
			}
			if strings.Contains(c.log.String(), "12345678901234567890") {
				t.Error("the log has the output")
			}
			r.finish(c)
		})
	}
}

func declared(t *testing.T, c *client, name string, durable bool, arguments amqp.Table) string {
	t.Helper()
	q, err := c.channel.QueueDeclare(name, durable, false, !durable, false, arguments)
	if err != nil {
		t.Fatal(err)
	}
	return q.Name
}

// The coordinator is killed while agents work, and before and after they report: each task is answered, under the same
// message id if twice, with its output.
func TestAnswersSurviveKills(t *testing.T) {
	t.Parallel()
	const tasks, kills = 60, 3
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1") // a2 could, too
	a1 := r.hand("a1", tasks)
	a1.beats(func() heartbeat { return beat("a1", 0, 2) })
	queue := declared(t, r.client, "shop.answers", true, nil)
	answers := r.answers(queue)
	seen := map[string]int{}
	take := func(a answer) {
		if want := fmt.Sprintf(`"of %s"`, a.TaskID); a.Outcome != "succeeded" || string(a.Output) != want ||
			a.amqp.MessageId != a.TaskID+".completed" {
			t.Errorf("an answer under %s: %s", a.amqp.MessageId, a.amqp.Body)
		}
		seen[a.TaskID]++
	}
	for i := range tasks {
		id := fmt.Sprint("t-", i)
		r.publish(bus.QueueAssign, asking(id, "build", queue))
		d := a1.take()
		if i%(tasks/kills) == 7 {
			c.kill()
			a1.found(d, fmt.Sprintf("%q", "of "+string(d.TaskID)))
			c = r.start()
			continue
		}
		a1.found(d, fmt.Sprintf("%q", "of "+string(d.TaskID)))
		if i%(tasks/kills) == 13 {
			c.kill()
			c = r.start()
		}
	}
	for len(seen) < tasks {
		take(next(t, answers))
	}
	if repeated := len(answers); repeated > 2*kills {
		t.Errorf("%d answers more than tasks, after %d kills", repeated, 2*kills)
	}
	r.finish(c)
}

// A producer that has died asks again, by publishing the task again with another queue: it is told of what has ended,
// with the output, and of what goes on when it ends, also by the next coordinator.
func TestAskingAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1") // a2 could, too
	a1 := r.hand("a1", 2)
	r.publish(bus.QueueAssign, asking("t-1", "build", "gone"))
	a1.found(a1.take(), `"first"`)
	eventually(t, patience, "t-1 has ended", func() (bool, string) {
		state := c.task("t-1").State
		return state == "succeeded", state
	})
	queue := declared(t, r.client, "", false, nil)
	answers := r.answers(queue)
	again := func(id, want string) {
		t.Helper()
		if got := next(t, answers); got.TaskID != id || string(got.Output) != want || got.AgentID != "a1" {
			t.Errorf("asked again for %s: %s", id, got.amqp.Body)
		}
	}
	r.publish(bus.QueueAssign, asking("t-1", "build", queue))
	again("t-1", `"first"`)

	r.publish(bus.QueueAssign, asking("t-2", "build", "gone"))
	d := a1.take()
	r.publish(bus.QueueAssign, asking("t-2", "build", queue))
	c.awaitStatus("both copies have come", func(s view.Status) bool { return s.Counters.Duplicates == 2 })
	c.kill()
	c = r.start()
	r.online(c, "a1") // a2 could, too
	a1.found(d, `"second"`)
	again("t-2", `"second"`)
	r.publish(bus.QueueAssign, asking("t-1", "build", queue))
	if got := next(t, answers); got.Outcome != "succeeded" || !got.OutputUnknown { // it died with its leader
		t.Errorf("asked again for t-1, of another leader: %s", got.amqp.Body)
	}
	r.finish(c)
}
