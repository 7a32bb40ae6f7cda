package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// deadLetter is a task that RabbitMQ has given up, as it lies in task.dead.
func deadLetter(id string) amqp.Publishing {
	return amqp.Publishing{
		Body:    []byte(body(id, "")),
		Headers: amqp.Table{"x-first-death-reason": "delivery_limit", "x-first-death-queue": bus.QueueAssign},
	}
}

// What lies in task.dead is seen, sent again and dropped by command.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	r := newRig(t, tireless(t))
	c := r.start(withToken)
	r.online(c, "a1")
	r.publish(bus.QueueAssign, amqp.Publishing{MessageId: "m-1", Body: []byte("{")})
	r.publish(bus.QueueDead, deadLetter("t-1"))
	var l view.DeadList
	eventually(t, patience, "both are in task.dead", func() (bool, string) {
		out, errors, _ := c.command(adminToken, "dead", "ls", "-o", "json")
		l = view.DeadList{}
		_ = json.Unmarshal([]byte(out), &l) // what is no list has no messages
		return l.Matched == 2, out + errors
	})
	if out, errors, code := c.command("", "dead", "ls"); code != 1 || out != "" ||
		!strings.Contains(errors, "TASKBUS_ADMIN_TOKEN") {
		t.Errorf("without the token: exit code %d, %s%s", code, out, errors)
	}
	if out, errors, code := c.command(adminToken, "dead", "show", "t-1"); code != 0 ||
		!strings.Contains(out, "delivery_limit") || strings.Contains(out, "payload") {
		t.Errorf("shown, exit code %d: %s%s", code, out, errors)
	}
	if out, errors, code := c.command(adminToken, "dead", "resend", "t-1"); code != 0 || out != "1 message sent again\n" {
		t.Errorf("sent again, exit code %d: %s%s", code, out, errors)
	}
	if d := r.dispatches("a1", 1)[0]; d.TaskID != "t-1" {
		t.Errorf("a1 got %s", d.TaskID)
	}
	if f := r.failures(1)[0]; f.TaskID != "m-1" {
		t.Errorf("the producer of the message that is no JSON hears of %s", f.TaskID)
	}
	if out, errors, code := c.command(adminToken, "dead", "drop", "--reason", "invalid_message", "--yes"); code != 0 ||
		out != "1 message dropped\n" {
		t.Errorf("dropped, exit code %d: %s%s", code, out, errors)
	}
	eventually(t, patience, "task.dead is empty", func() (bool, string) {
		out, _, _ := c.command(adminToken, "dead", "ls")
		return out == "nothing is in task.dead\n", out
	})
}

// SIGKILL of the coordinator in the middle of a resend loses nothing: what had not been confirmed, or not been
// acknowledged, is in task.dead still.
func TestCoordinatorKilledWhileItSendsAgain(t *testing.T) {
	t.Parallel()
	// No agent is online: what is sent again waits.
	r := newRig(t, replaced(t, tireless(t), "assignment_timeout_seconds: 1\n", "assignment_timeout_seconds: 60\n"))
	c := r.start(withToken)
	const tasks = 400
	letters := make([]amqp.Publishing, tasks)
	for i := range letters {
		letters[i] = deadLetter(fmt.Sprint("t-", i))
	}
	r.publish(bus.QueueDead, letters...)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd := c.commandOf(adminToken, "dead", "resend", "--all", "--yes")
		_ = cmd.Run() // its coordinator dies
	}()
	eventually(t, patience, "some were sent again", func() (bool, string) {
		n := c.metric(`taskbus_messages_received_total{queue="task.assign"}`)
		return n > 0, fmt.Sprint(n)
	})
	c.end(syscall.SIGKILL)
	<-ended
	seen, copies := map[string]int{}, 0
	eventually(t, patience, "all of them are there", func() (bool, string) {
		clear(seen)
		for _, queue := range []string{bus.QueueDead, bus.QueueAssign} {
			r.peek(queue, func(body []byte, _ map[string]any) {
				var m struct {
					ID string `json:"task_id"`
				}
				if err := json.Unmarshal(body, &m); err != nil {
					t.Errorf("%s has %s", queue, body)
				}
				seen[m.ID]++
			})
		}
		return len(seen) == tasks, fmt.Sprintf("%d of %d", len(seen), tasks)
	})
	for id, n := range seen {
		if n > 2 {
			t.Errorf("%s is there %d times", id, n)
		}
		copies += n - 1
	}
	t.Logf("%d of %d are there twice", copies, tasks)
}
