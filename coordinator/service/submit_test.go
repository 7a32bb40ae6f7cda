package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/tests/support/membus"
)

// submit is a task over HTTP.
func (r *rig) submit(body, key string) (string, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	id, err := r.service.SubmitTask(ctx, httpapi.Submission{Body: []byte(body), Key: key, TraceParent: "00-a-b-01"})
	r.settle()
	return id, err
}

// A task over HTTP is one like any other: payload byte for byte, priority, an id if it has none.
func TestSubmittedTaskIsDispatched(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		id, err := r.submit(` {"task_type":"build","priority":3,"payload":{"n":12345678901234567890}}`, "")
		if err != nil || !strings.HasPrefix(id, "http-") {
			t.Fatalf("%q, %v", id, err)
		}
		m := r.only("agent.a1")
		if m.text("task_id") != id || m.fields["priority"] != 3.0 || m.Headers["traceparent"] != "00-a-b-01" ||
			!strings.Contains(string(m.Body), `{"n":12345678901234567890}`) {
			t.Errorf("%s %v", m.Body, m.Headers)
		}
		r.empty(bus.QueueAssignHigh)
		if s, known := r.service.TaskStory(context.Background(), id); !known || len(s.Attempts) != 1 ||
			s.Task.State != "dispatched" {
			t.Errorf("its story: %v %+v", known, s)
		}
		if id, err = r.submit(taskBody("t-1", "build", ""), ""); id != "t-1" || err != nil {
			t.Errorf("with an id of its own: %q, %v", id, err)
		}
	})
}

// The same key is the same task, done once; other content under it is told of, and so is other content under an id.
func TestSubmittedTwice(t *testing.T) {
	const task, other = `{"task_type":"build","payload":{}}`, `{"task_type":"build","payload":{"other":1}}`
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		first, err := r.submit(task, "order 7")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := r.submit(task, "order 7"); again != first || err != nil {
			t.Errorf("again: %q, %v; want %q", again, err, first)
		}
		r.only("agent.a1")
		if id, err := r.submit(other, "order 7"); id != first || !errors.Is(err, httpapi.ErrOtherTask) {
			t.Errorf("other content: %q, %v", id, err)
		}
		if id, err := r.submit(task, "order 8"); id == first || err != nil {
			t.Errorf("another key: %q, %v", id, err)
		}
		if id, err := r.submit(taskBody(first, "build", ""), ""); id != first || !errors.Is(err, httpapi.ErrOtherTask) {
			t.Errorf("other content under the id: %q, %v", id, err)
		}
		r.empty(bus.QueueFailed)
	})
}

// A task that failed may come again, with other content, too.
func TestSubmittedAfterItFailed(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		if _, err := r.submit(`{"task_type":"paint","payload":{}}`, "k"); err != nil {
			t.Fatal(err)
		}
		if m := r.only(bus.QueueFailed); m.text("reason_code") != "unknown_task_type" {
			t.Errorf("%s", m.Body)
		}
		r.heartbeat("a1", 0)
		id, err := r.submit(`{"task_type":"build","payload":{}}`, "k")
		if err != nil || r.only("agent.a1").text("task_id") != id {
			t.Errorf("%q, %v", id, err)
		}
	})
}

// What is no task is refused as over RabbitMQ, and nothing is published.
func TestSubmittedNonsense(t *testing.T) {
	for _, c := range []struct{ body, key, want string }{
		{`{"payload":{}}`, "", "task_type"},
		{`{"task_type":"build"}`, "", "payload"},
		{`[]`, "", "object"},
		{``, "", ""},
		{`{"task_type":"build","payload":{},"task_id":"../x"}`, "", "/task_id"},
		{`{"task_type":"build","payload":{},"task_id":"t-1"}`, "k", "Idempotency-Key"},
		{`{"task_type":"build","payload":{},"message_type":"task.cancel"}`, "", "message_type"},
		{`{"task_type":"build","payload":{},"prioritty":3}`, "", "prioritty"},
	} {
		strict := strings.Replace(fleet, "global_settings: {", "global_settings: {strict_messages: true, ", 1)
		inRig(t, strict, func(r *rig) {
			_, err := r.submit(c.body, c.key)
			var bad *httpapi.BadTask
			if !errors.As(err, &bad) || !strings.Contains(bad.Text, c.want) || bad.TooLarge {
				t.Errorf("%s: %v, want %q", c.body, err, c.want)
			}
			r.empty(bus.QueueDead)
			r.empty(bus.QueueFailed)
		})
	}
}

// Without the broker's confirm there is no success: a full queue, a broker that does not answer, none at all.
func TestSubmittedWithoutConfirm(t *testing.T) {
	const task = `{"task_type":"build","payload":{}}`
	for reply, want := range map[membus.Reply]string{membus.Nack: "rejected", membus.Withhold: "confirm"} {
		inRig(t, fleet, func(r *rig) {
			r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
				if p.Key == bus.QueueAssign {
					return reply
				}
				return membus.Answer
			})
			if _, err := r.submit(task, ""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			r.broker.SetConfirm(nil)
			r.broker.ReleaseConfirms()
			synctest.Wait()
		})
	}
	inRig(t, fleet, func(r *rig) {
		r.broker.SetOpenError(errors.New("away"))
		r.broker.Cut()
		synctest.Wait()
		if _, err := r.submit(task, ""); err == nil || !strings.Contains(err.Error(), "session") {
			t.Errorf("without a session: %v", err)
		}
		r.spoilt = true
	})
}

// What an agent found out is there for those that ask for the task.
func TestOutputOfATask(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.worker("a1", false)
		news, stop := r.service.WatchTask("t-1")
		defer stop()
		r.task("t-1", "build", "")
		r.result("a1", "t-1", "succeeded", `,"output":{"answer": 42}`)
		if len(news) != 1 {
			t.Error("nothing is told of t-1")
		}
		if o := r.service.TaskOutput("t-1", "a1"); o == nil || string(o.Value) != `{"answer": 42}` {
			t.Errorf("%+v", o)
		}
		if s, known := r.service.TaskStory(context.Background(), "t-1"); !known || !s.Task.Ended() || s.Task.Agent != "a1" {
			t.Errorf("%v %+v", known, s)
		}
	})
}
