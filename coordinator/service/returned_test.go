package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/messages"
)

// A task of just the size that is accepted makes a dispatch that is larger. It
// comes back like any other: it goes to the next agent, and is not parked.
func TestLargestTaskComesBack(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		limit := messages.DefaultLimits().MaxBytes
		body := taskBody("t-1", "build", `,"labels":{"pad":""}`)
		pad := limit - len(body)
		body = strings.Replace(body, `"of":"`, `"of":"`+strings.Repeat("x", pad), 1)
		if len(body) != limit {
			t.Fatalf("the task has %d bytes, want %d", len(body), limit)
		}
		r.publish(bus.QueueAssign, body)
		first, other := "agent.a1", "agent.a2"
		if len(r.in(first)) == 0 {
			first, other = other, first
		}
		if n := len(r.only(first).Body); n <= limit {
			t.Fatalf("the dispatch has %d bytes, want more than %d: the test tests nothing", n, limit)
		}
		r.reject(first)
		r.pass(time.Second)
		if m := r.only(other); attemptID(m.MessageID) != "t-1.2" {
			t.Errorf("second dispatch %s", m.MessageID)
		}
		r.empty(bus.QueueReassign)
		r.empty(bus.QueueDead)
	})
}

// The headers of a first attempt are one short text; the agents that have had the task are named from the
// second attempt on.
func TestHeadersOfADispatch(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		r.task("t-1", "build", "")
		first, other := "agent.a1", "agent.a2"
		if len(r.in(first)) == 0 {
			first, other = other, first
		}
		m := r.only(first)
		if header := messages.TextHeader(m.Headers, messages.HeaderTask); len(m.Headers) != 1 || header == "" ||
			len(header) > 70 {
			t.Errorf("first attempt: headers %v, want only %s of at most 70 bytes", m.Headers, messages.HeaderTask)
		}
		r.reject(first)
		r.pass(time.Second)
		m = r.only(other)
		const want = `"attempt":2,"tried":[`
		if tried := messages.TextHeader(m.Headers, messages.HeaderTried); !strings.Contains(tried, want) ||
			m.fields["attempt"] != 2.0 {
			t.Errorf("second attempt: %s is %q, want it to hold %s", messages.HeaderTried, tried, want)
		}
	})
}

// What comes back and cannot be read is parked, and its producer is told where
// it asked to be told.
func TestProducerIsToldOfAnUnreadableReturn(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "producer", Topology: bus.Topology{
			Mode: bus.Declare, Queues: []bus.Queue{{Name: "my.replies", Kind: bus.Classic}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		const body = `{"message_type":"task.dispatch","task_id":"t-1","correlation_id":"trace-9","priority":9}`
		r.publish(bus.QueueReassign, body, func(p *bus.Properties) {
			p.Headers = map[string]any{messages.HeaderTask: `{"accepted_at":1,"content_hash":"00000000000000ab",` +
				`"reply_to":"my.replies"}`}
		})
		for _, queue := range []string{bus.QueueFailed, "my.replies"} {
			if m := r.only(queue); m.text("task_id") != "t-1" || m.text("correlation_id") != "trace-9" ||
				m.text("reason_code") != "invalid_message" {
				t.Errorf("in %s: %s", queue, m.Body)
			}
		}
		if m := r.only(bus.QueueDead); string(m.Body) != body {
			t.Errorf("parked %s", m.Body)
		}
		r.empty(bus.QueueReassign)
	})
}

func TestReturnedTaskGoesToAnotherAgent(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.heartbeat("a2", 0)
		r.task("t-1", "build", `,"correlation_id":"trace-9"`, func(p *bus.Properties) { p.ReplyTo = "my.replies" })
		for i, want := range []string{"t-1.2", "t-1.3", ""} {
			queue := "agent.a1"
			if len(r.in(queue)) == 0 {
				queue = "agent.a2"
			}
			body := string(r.only(queue).Body)
			r.reject(queue)
			r.pass(8 * time.Second) // the longest back-off: both had it then
			other := map[string]string{"agent.a1": "agent.a2", "agent.a2": "agent.a1"}[queue]
			if i == 2 { // max_retry_attempts: 3
				m := r.only(bus.QueueFailed)
				if m.text("reason_code") != "retries_exhausted" || m.text("correlation_id") != "trace-9" ||
					m.fields["attempts"] != 3.0 {
					t.Errorf("after the third try: %s", m.Body)
				}
				break
			}
			m := r.only(other)
			if attemptID(m.MessageID) != want || m.text("correlation_id") != "trace-9" {
				t.Errorf("the next dispatch is %s, want %s: %s", m.MessageID, want, m.Body)
			}
			payload := body[strings.Index(body, `"payload"`):]
			if !strings.HasSuffix(string(m.Body), payload) {
				t.Errorf("the payload changed on its way back: %s", m.Body)
			}
		}
		r.empty(bus.QueueReassign)
	})
}

// reject refuses the one message of an agent's queue.
func (r *rig) reject(queue string) {
	r.t.Helper()
	rejected := make(chan struct{})
	err := r.outside.Subscribe(context.Background(),
		bus.Subscription{Queue: queue, Prefetch: 1, Handle: func(d bus.Delivery) {
			r.outside.Reject(d.Tag)
			close(rejected)
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	<-rejected
	if err := r.outside.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.connect()
	synctest.Wait()
}

func TestForeignMessageInReassignIsParked(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.publish(bus.QueueReassign, `{"hello":"world"}`)
		if m := r.only(bus.QueueDead); string(m.Body) != `{"hello":"world"}` {
			t.Errorf("parked %s", m.Body)
		}
		r.empty(bus.QueueReassign)
	})
}

// TestReturnsAreSeenBehindOthersThatWait: what comes back and waits, because no agent could have it now or
// because refusals are tried again at a bounded rate, does not keep from view what comes back after it.
func TestReturnsAreSeenBehindOthersThatWait(t *testing.T) {
	const waiting = 6 * intake.LeastReturns
	for name, reason := range map[string]string{"for an agent": "expired", "for the budget": "rejected"} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				back := func(id, taskType, reason string) {
					task := taskNamed(coordinator.TaskID(id), time.Now())
					task.Type, task.ContentHash = taskType, 7
					d := dispatchOf(task, "gone", 1, time.Now())
					d.Queue, d.Timeout = "agent.gone", time.Minute
					r.send(bus.QueueReassign, string(messages.AppendDispatch(nil, d, []byte(`{}`))), func(p *bus.Properties) {
						p.Headers = map[string]any{messages.HeaderTask: messages.EncodeTaskHeader(task),
							messages.HeaderDeathReason: reason}
					})
				}
				a1 := r.worker("a1", true)
				for i := range waiting {
					back(fmt.Sprint("waits-", i), "train", reason) // for a2, which is not there
				}
				back("innocent", "build", "expired")
				r.pass(2 * time.Second)
				if got := a1.has(); !slices.Equal(got, []string{"innocent"}) {
					t.Errorf("a1 has %v, want what came back behind %d others", got, waiting)
				}
			})
		})
	}
}
