package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// producerToken is that of producers that have no AMQP.
const producerToken = "canary-producers-0123456789-abcd"

// submit posts a task.assign and returns its id.
func (c *process) submit(body string) string {
	c.t.Helper()
	status, text := c.send(http.MethodPost, "/tasks", producerToken, body)
	var s view.TaskSubmitted
	if err := json.Unmarshal([]byte(text), &s); status != http.StatusAccepted || err != nil {
		c.t.Fatalf("POST /tasks: %d %s", status, text)
	}
	return s.TaskID
}

// A producer without AMQP: its task is with the broker when it is told so, goes to an agent, and its output comes back
// by a request that waits.
func TestTasksOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start("TASKBUS_PRODUCER_TOKEN=" + producerToken)
	r.online(c, "a1")
	a1 := r.hand("a1", 1)
	for _, priority := range []int{1, 3} { // by task.assign, and by task.assign.high
		id := c.submit(fmt.Sprintf(`{"task_type":"build","priority":%d,"payload":{"n":1}}`, priority))
		answered := make(chan view.Task, 1)
		go func() {
			status, text := c.send(http.MethodGet, "/tasks/"+id+"?wait=9s", producerToken, "")
			var ended view.Task
			if err := json.Unmarshal([]byte(text), &ended); status != http.StatusOK || err != nil {
				t.Errorf("GET: %d %s", status, text)
			}
			answered <- ended
		}()
		d := a1.take()
		if string(d.TaskID) != id {
			t.Fatalf("the agent has %s, want %s", d.TaskID, id)
		}
		a1.found(d, `{"answer": 12345678901234567890}`)
		ended := <-answered
		if ended.State != "succeeded" || !strings.Contains(string(ended.Output), "12345678901234567890") {
			t.Errorf("the end: %s with %s", ended.State, ended.Output)
		}
		if _, text := c.get("/tasks/" + id); strings.Contains(text, "12345678901234567890") {
			t.Errorf("without a token: %s", text)
		}
	}
	if status, text := c.send(http.MethodPost, "/tasks", "", `{}`); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, text)
	}
	r.empty(bus.QueueDead)
	r.finish(c)
	if log := c.log.String(); strings.Contains(log, producerToken) || strings.Contains(log, "12345678901234567890") {
		t.Error("the log has the token or the output")
	}
}

// A coordinator that stands by takes tasks as well, and hears of their end by the journal.
func TestTasksOverHTTPAtAStandby(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	leader := r.start()
	standby := r.launch(r.broker.URL, "TASKBUS_PRODUCER_TOKEN="+producerToken)
	standby.awaitState("standby")
	r.online(leader, "a1")
	a1 := r.hand("a1", 1)
	id := standby.submit(`{"task_type":"build","payload":{}}`)
	a1.found(a1.take(), `7`)
	status, text := standby.send(http.MethodGet, "/tasks/"+id+"?wait=9s", producerToken, "")
	if status != http.StatusOK || !strings.Contains(text, `"succeeded"`) {
		t.Errorf("%d %s", status, text)
	}
	r.finish(standby)
	r.finish(leader)
}
