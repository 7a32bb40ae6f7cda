package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
)

// progress is a report of progress as an agent sends it: through the exchange, by its key.
func (r *rig) progress(agent, task, extra string) {
	r.t.Helper()
	err := r.outside.Publish(bus.Publication{Exchange: bus.ExchangeAgents, Key: bus.QueueProgress + "." + agent,
		Properties: bus.Properties{Type: "task.progress"}, Body: []byte(progressBody(agent, task, extra))})
	if err != nil {
		r.t.Fatal(err)
	}
	r.settle()
}

func progressBody(agent, task, extra string) string {
	return fmt.Sprintf(`{"message_type":"task.progress","task_id":%q,"agent_id":%q,"correlation_id":"c",`+
		`"timestamp":"2026-03-01T12:00:00Z"%s}`, task, agent, extra)
}

// The producer gets the latest of what is reported within 200 ms, with the data as its agent wrote it; listeners get it
// without the data, and the log nothing of it.
func TestProgressReachesItsProducer(t *testing.T) {
	const data = `{"z": 12345678901234567890, "secret":[1,  2]}`
	inRig(t, fleet, func(r *rig) {
		bindAll(r)
		r.producer(0)
		r.worker("a1", false)
		r.task("t-1", "build", `,"correlation_id":"trace-1"`, toMyReplies)
		r.progress("a1", "t-1", `,"percent":10`)
		r.progress("a1", "t-1", `,"percent":42.5,"message":"whispered","data":`+data)
		r.empty("my.replies")
		r.pass(200 * time.Millisecond)
		m := r.only("my.replies")
		if m.Type != "task.progress" || m.CorrelationID != "trace-1" || m.Expiration != time.Minute ||
			m.fields["percent"] != 42.5 || m.text("message") != "whispered" || m.text("agent_id") != "a1" ||
			m.text("correlation_id") != "trace-1" || !strings.Contains(string(m.Body), `"data":`+data) {
			t.Errorf("%+v %s", m.Properties, m.Body)
		}
		events := r.events("task.progress")
		if len(events) != 1 || events[0].fields["percent"] != 42.5 || events[0].text("message") != "whispered" ||
			strings.Contains(string(events[0].Body), "secret") {
			t.Errorf("the events: %v", events)
		}
		if log := fmt.Sprint(r.log); strings.Contains(log, "secret") || strings.Contains(log, "whispered") {
			t.Errorf("the log has it:\n%s", log)
		}
	})
}

// An agent that reports 10,000 times a second, of one task and of many that are not its own, holds up neither the
// result nor the progress of another: of its own task five reports a second go on, and of the others 1,024 in 200 ms
// are looked at.
func TestProgressFloodHoldsNothingUp(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		bindAll(r)
		r.producer(0)
		r.worker("a1", false)
		r.task("t-1", "build", "", toMyReplies)
		r.worker("a2", false)
		r.task("t-2", "build", `,"excluded_agents":["a1"]`)
		for i := range 10_000 {
			task := "t-1"
			if i%2 == 1 {
				task = fmt.Sprint("not-mine-", i)
			}
			err := r.outside.Publish(bus.Publication{Exchange: bus.ExchangeAgents, Key: bus.QueueProgress + ".a1",
				Body: []byte(progressBody("a1", task, fmt.Sprintf(`,"percent":%g`, float64(i)/100)))})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Microsecond)
		}
		r.result("a2", "t-2", "succeeded", "")
		if n := len(r.events("task.completed")); n != 1 {
			t.Errorf("%d ends, want the other agent's at once", n)
		}
		r.pass(time.Second)
		if n := len(r.in("my.replies")); n < 5 || n > 6 {
			t.Errorf("the producer got %d reports of one second", n)
		}
	})
}

// Progress that its agent may not report, or that is not valid, reaches no producer.
func TestProgressThatDoesNotCount(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		bindAll(r)
		r.producer(0)
		r.worker("a1", false)
		r.task("t-1", "build", "", toMyReplies)
		r.progress("a1", "t-1", `,"percent":101`)
		r.progress("a2", "t-1", `,"percent":10`)
		r.progress("a1", "t-2", `,"percent":10`)
		err := r.outside.Publish(bus.Publication{Exchange: bus.ExchangeAgents, Key: bus.QueueProgress + ".a2",
			Body: []byte(progressBody("a1", "t-1", ""))})
		if err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		r.empty("my.replies")
		if n := len(r.events("task.progress")); n != 0 {
			t.Errorf("%d events", n)
		}
		r.result("a1", "t-1", "succeeded", "")
		if m := r.only("my.replies"); m.Type != "task.completed" {
			t.Errorf("%s", m.Body)
		}
	})
}
