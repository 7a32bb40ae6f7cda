package integration

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// reportsOf are so many reports of progress of a dispatch, the last of 100 percent.
func (h *hand) reportsOf(d dispatch, n int) []amqp.Publishing {
	all := make([]amqp.Publishing, n)
	for i := range all {
		all[i] = amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil,
			`{"message_type":"task.progress","task_id":%q,"agent_id":%q,"dispatch_id":%q,"correlation_id":"c",`+
				`"timestamp":%q,"percent":%g,"data":{"n": %d}}`, d.TaskID, h.id, d.DispatchID,
			time.Now().UTC().Format(time.RFC3339Nano), float64(i+1)/float64(n)*100, i)}
	}
	return all
}

// A task that takes four times its time-out of 2 s goes on as long as its agent reports progress, which its producer
// gets by direct reply-to before its end. One that reports none has failed by then.
func TestProgressKeepsATaskGoing(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1") // a2 could, too
	a1 := r.hand("a1", 2)
	answers := r.answers(directReplyTo)
	for _, id := range []string{"t-1", "t-2"} {
		m := task(id, "build").within(2 * time.Second).message()
		m.ReplyTo = directReplyTo
		r.publish(bus.QueueAssign, m)
	}
	works, hangs := a1.take(), a1.take()
	failed, told := false, 0
	count := func(a answer) {
		switch {
		case a.amqp.Type == bus.QueueProgress && a.TaskID == string(works.TaskID):
			told++
		case a.ReasonCode == "task_timeout" && a.TaskID == string(hangs.TaskID):
			failed = true
		default:
			t.Errorf("an answer of type %s: %s", a.amqp.Type, a.amqp.Body)
		}
	}
	for range 8 {
		running := beat("a1", 2, 2)
		running.ActiveIDs = []string{string(works.TaskID), string(hangs.TaskID)}
		a1.report(running)
		a1.publish(bus.QueueProgress, a1.reportsOf(works, 10)...)
		time.Sleep(time.Second)
		for len(answers) > 0 {
			count(<-answers)
		}
	}
	if !failed || told < 8 || told > 8*3 { // ten at once are one report, or fall into two windows
		t.Errorf("the task without progress has failed: %v; the other was told of %d times", failed, told)
	}
	a1.complete(works)
	for {
		if a := next(t, answers); a.amqp.Type != bus.QueueProgress {
			if a.TaskID != string(works.TaskID) || a.Outcome != "succeeded" {
				t.Errorf("the end: %s", a.amqp.Body)
			}
			break
		}
	}
	a1.ack(hangs)
}

// While one agent floods the coordinator with 50,000 reports, as fast as the broker takes them, another's tasks are
// assigned and end at once, and its own task ends afterwards.
func TestProgressFlood(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1", "a2")
	a1, a2 := r.hand("a1", 1), r.hand("a2", 1)
	mad := task("mad", "build")
	mad.Required = []string{"go"} // a1 alone
	r.assign(mad)
	d := a1.take()
	flooded := make(chan int)
	go func() {
		sent := 0
		for range 50 {
			for _, ok := range a1.tryPublish(bus.QueueProgress, a1.reportsOf(d, 1000)...) {
				if ok {
					sent++
				}
			}
		}
		flooded <- sent
	}()
	slowest, done := time.Duration(0), 0
	for sent := 0; sent == 0; {
		select {
		case sent = <-flooded:
			if sent < 40_000 {
				t.Errorf("%d reports were taken", sent)
			}
		default:
			begun := time.Now()
			r.assign(task(fmt.Sprint("t-", done), "train")) // a2 alone
			a2.complete(a2.take())
			slowest, done = max(slowest, time.Since(begun)), done+1
		}
	}
	if done == 0 || slowest > patience/2 {
		t.Errorf("%d tasks were done meanwhile, the slowest in %v", done, slowest)
	}
	t.Logf("%d tasks done meanwhile, the slowest in %v", done, slowest)
	a1.complete(d)
	r.finish(c)
}
