package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/callers"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/schemas"
)

// cancelling is a call of Cancel on its way.
type cancelling struct {
	answer view.Cancellation
	err    error
	took   time.Duration
	done   chan struct{}
}

func (r *rig) cancel(id, reason string) *cancelling {
	c := &cancelling{done: make(chan struct{})}
	begun := time.Now()
	go func() {
		defer close(c.done)
		c.answer, c.err = r.service.Cancel(context.Background(), id, reason)
		c.took = time.Since(begun)
	}()
	synctest.Wait()
	return c
}

// A cancel in each state of a task, and what its caller hears.
func TestCancelInEveryState(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *rig, w *worker) // brings t-1 into the state
		during func(w *worker)         // while the caller waits; may be nil
		want   view.Cancellation
		within time.Duration
		failed string // reason_code of assignment.failed; empty: none
	}{
		"pending": {
			before: func(r *rig, _ *worker) { r.task("first", "build", ""); r.task("t-1", "build", "") },
			want:   view.Cancellation{State: "cancelled", Outcome: "cancelled"},
			failed: "cancelled",
		},
		"running, and its agent stops": {
			before: func(r *rig, _ *worker) { r.task("t-1", "build", "") },
			during: func(w *worker) { time.Sleep(time.Second); w.finish("cancelled", "") },
			want:   view.Cancellation{State: "cancelled", Agent: "a1", Outcome: "cancelled"},
			within: time.Second,
		},
		"running, and its agent ends it first": {
			before: func(r *rig, _ *worker) { r.task("t-1", "build", "") },
			during: func(w *worker) { w.finish("succeeded", "") },
			want:   view.Cancellation{State: "too_late", Agent: "a1", Outcome: "succeeded"},
		},
		"running, and its agent says nothing": {
			before: func(r *rig, _ *worker) { r.task("t-1", "build", "") },
			want:   view.Cancellation{State: "cancel_requested", Agent: "a1"},
			within: callers.AgentWait,
		},
		"ended": {
			before: func(r *rig, w *worker) { r.task("t-1", "build", ""); w.finish("failed", "") },
			want:   view.Cancellation{State: "too_late", Agent: "a1", Outcome: "failed"},
		},
		"unknown": {
			before: func(*rig, *worker) {},
			want:   view.Cancellation{State: "noted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				w := r.worker("a1", true)
				c.before(r, w)
				got := r.cancel("t-1", "not needed")
				if c.during != nil {
					c.during(w)
				}
				<-got.done
				r.settle()
				if got.err != nil {
					t.Fatal(got.err)
				}
				c.want.TaskID = "t-1"
				// The agent's word is all that is known: its work may go on in spite of it.
				if got.answer.Detail == "" || strings.Contains(got.answer.Detail, "stopped") {
					t.Errorf("the sentence for people: %q", got.answer.Detail)
				}
				if got.answer.Detail = ""; got.answer != c.want || got.took < c.within || got.took > c.within+journaling.Pause {
					t.Errorf("after %s %+v\nwant after %s %+v", got.took, got.answer, c.within, c.want)
				}
				var failed string
				for _, m := range r.in(bus.QueueFailed) {
					failed += m.text("reason_code")
				}
				if failed != c.failed {
					t.Errorf("assignment.failed %q, want %q", failed, c.failed)
				}
				wantTold := c.want.Agent != "" && name != "ended"
				if told := w.told(); (len(told) == 1 && told[0].text("task_id") == "t-1" &&
					told[0].text("reason") == "not needed") != wantTold {
					t.Errorf("its agent was told %v, want %v", told, wantTold)
				}
			})
		})
	}
}

// What is not known yet will not be assigned when it comes.
func TestCancelBeforeTheTask(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		<-r.cancel("t-1", "changed my mind").done
		r.task("t-1", "build", "")
		if m := r.only(bus.QueueFailed); m.text("reason_code") != "cancelled" || m.text("reason") != "changed my mind" {
			t.Errorf("assignment.failed %s", m.Body)
		}
		if got := a1.has(); len(got) != 0 {
			t.Errorf("a1 got %v", got)
		}
		if task, _ := r.service.Task(context.Background(), "t-1"); task.State != "cancelled" {
			t.Errorf("t-1 is %s", task.State)
		}
	})
}

// An agent without a control queue cannot be told. The caller hears that at once,
// and the world, too.
func TestCancelThatNobodyHears(t *testing.T) {
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	inRig(t, fleet, func(r *rig) {
		bindAll(r)
		w := r.worker("a1", false)
		r.task("t-1", "build", `,"correlation_id":"trace-1"`)
		got := r.cancel("t-1", "not needed")
		<-got.done
		r.settle()
		if got.answer.State != "cancel_requested" || !strings.Contains(got.answer.Detail, "no control queue") ||
			got.took > journaling.Pause {
			t.Errorf("after %s: %+v, %v", got.took, got.answer, got.err)
		}
		events := r.events(schemas.TaskCancelRequested)
		if len(events) != 1 {
			t.Fatalf("%d events, want 1", len(events))
		}
		e := events[0]
		if err := set.Validate(e.Type, any(e.fields)); err != nil {
			t.Errorf("%v\n%s", err, e.Body)
		}
		if e.RoutingKey != "task.cancel_requested.a1" || e.text("task_id") != "t-1" || e.CorrelationID != "trace-1" ||
			e.text("reason") != "not needed" {
			t.Errorf("event %s under %s", e.Body, e.RoutingKey)
		}
		w.finish("succeeded", "") // it may still do it, and then that counts
		if n := r.status().Counters.Results["succeeded"]; n != 1 {
			t.Errorf("%d results counted", n)
		}
	})
}

// A time-out is sent to the agent, too; where it cannot be reached, no request waits for that.
func TestTimeoutIsNoCancel(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		bindAll(r)
		w := r.worker("a1", false)
		r.task("t-1", "build", `,"timeout_seconds":1`)
		for range 4 {
			w.report()
			r.pass(time.Second)
		}
		r.only(bus.QueueFailed)
		if n := len(r.events(schemas.TaskCancelRequested)); n != 0 {
			t.Errorf("%d task.cancel_requested, want none", n)
		}
	})
}

// The same by message: a request is acknowledged, and its outcome told in the
// usual way.
func TestCancelByMessage(t *testing.T) {
	const cancel = `{"message_type":"task.cancel","task_id":"t-1","reason":"not needed"}`
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("first", "build", "")
		r.task("t-1", "build", "")
		r.publish(bus.QueueRequest, cancel)
		r.empty(bus.QueueRequest)
		if m := r.only(bus.QueueFailed); m.text("task_id") != "t-1" || m.text("reason_code") != "cancelled" {
			t.Errorf("assignment.failed %s", m.Body)
		}
		r.publish(bus.QueueRequest, strings.Replace(cancel, "t-1", "first", 1))
		r.empty(bus.QueueRequest)
		if told := a1.told(); len(told) != 1 || told[0].text("task_id") != "first" {
			t.Errorf("a1 was told %v, want to stop its task", told)
		}
		if n := r.status().Counters.CancelRequests; n != 2 {
			t.Errorf("%d cancels, want 2", n)
		}
		a1.finish("cancelled", "")
	})
}

// With agents.auth: strict a cancel by message wants a sender that the broker vouches
// for, and that is no agent. What is refused changes nothing and is parked.
func TestSenderOfACancelIsChecked(t *testing.T) {
	const cancel = `{"message_type":"task.cancel","task_id":"t-1","reason":"not needed"}`
	for _, c := range []struct {
		mode, user string
		counts     bool
		logged     int // lines about the sender, of two such cancels
	}{
		{"off", "", true, 0}, {"off", "a2", true, 0},
		{"warn", "producer", true, 0}, {"warn", "", true, 1}, {"warn", "a2", true, 1},
		{"strict", "producer", true, 0}, {"strict", "", false, 1}, {"strict", "a2", false, 1},
		{"strict", "x7", false, 1}, // has joined
		{"strict", "x8", true, 0},  // might join, but has not: it is not an agent's user
	} {
		t.Run(c.mode+" "+c.user, func(t *testing.T) {
			inRig(t, strings.Replace(fleet, "agents:\n", "agents:\n  auth: "+c.mode+"\n", 1)+
				"discovery: {enabled: true, agents: [\"x*\"], capabilities: [go]}\n", func(r *rig) {
				as := func(user string) func(*bus.Properties) { return func(p *bus.Properties) { p.UserID = user } }
				r.publish(bus.StreamStatus, fmt.Sprintf(
					`{"message_type":"agent.status","agent_id":"x7","status":"ready","current_load":0,`+
						`"active_tasks":1,"available_capacity":0,"capabilities":["go"],"timestamp":%q}`,
					time.Now().Format(time.RFC3339Nano)), as("x7"))
				r.pass(time.Second)
				r.task("t-1", "build", "") // waits: no agent has a free slot
				r.publish(bus.QueueRequest, cancel, as(c.user))
				r.publish(bus.QueueRequest, cancel, as(c.user))
				r.empty(bus.QueueRequest)
				failed, parked := len(r.in(bus.QueueFailed)), r.in(bus.QueueDead)
				if c.counts && (failed != 1 || len(parked) != 0) || !c.counts && (failed != 0 || len(parked) != 2) {
					t.Errorf("%d failures and %d parked; want it to count: %v", failed, len(parked), c.counts)
				}
				for _, m := range parked {
					if !strings.Contains(messages.TextHeader(m.Headers, messages.HeaderReason), "agents.auth: strict") {
						t.Errorf("parked with %v", m.Headers)
					}
				}
				if n := strings.Count(r.log.String(), "said once for each user"); n != c.logged {
					t.Errorf("%d lines about the sender, want %d:\n%s", n, c.logged, r.log)
				}
			})
		})
	}
}

// A request that cannot be understood is parked. The task that it names is not published as failed: it has
// not.
func TestUnreadableRequestIsParked(t *testing.T) {
	for name, body := range map[string]string{
		"another message type": `{"message_type":"task.pause","task_id":"t-1"}`,
		"a task":               taskBody("t-1", "build", ""),
		"no task id":           `{"message_type":"task.cancel"}`,
		"wrong reason":         `{"message_type":"task.cancel","task_id":"t-1","reason":7}`,
		"not JSON":             `cancel t-1`,
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				a1 := r.worker("a1", true)
				r.task("t-1", "build", "")
				r.publish(bus.QueueRequest, body)
				if m := r.only(bus.QueueDead); string(m.Body) != body || m.Headers[messages.HeaderSourceQueue] != bus.QueueRequest {
					t.Errorf("parked %s with %v", m.Body, m.Headers)
				}
				r.empty(bus.QueueRequest)
				r.empty(bus.QueueFailed)
				if got := fmt.Sprint(a1.has(), a1.told()); got != "[t-1] []" {
					t.Errorf("a1 has, and was told: %s", got)
				}
			})
		})
	}
}

// Without a session nothing can be withdrawn, and an answer says so.
func TestCancelWithoutASession(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.worker("a1", true)
		r.task("first", "build", "")
		r.broker.SetOpenError(bus.ErrAccess)
		r.broker.Cut()
		r.pass(time.Second)
		got := r.cancel("first", "")
		<-got.done
		if got.err == nil || !strings.Contains(got.err.Error(), "connecting") || !strings.Contains(got.err.Error(), "first") {
			t.Errorf("%+v, %v", got.answer, got.err)
		}
		r.broker.SetOpenError(nil)
		r.pass(backoffMax + time.Second)
		r.connect()
	})
}

// A cancel that its session took along was not carried out: the caller hears that
// and is not left to wait.
func TestCancelOverTheEndOfASession(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.worker("a1", true)
		w := r.service.callers.Add("t-1")
		if w == nil {
			t.Fatal("no place for one caller")
		}
		defer w.Remove()
		const ofThePast = 4711
		r.service.loop.post(ofThePast, coordinator.CancelRequested{Task: "t-1", Token: w.Token})
		if _, err := r.service.awaitEngine(&session{number: ofThePast}, w); err == nil {
			t.Error("an answer of an engine that was never asked")
		}
	})
}

// The callers that wait are bounded.
func TestCallersOfCancelAreBounded(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		w := r.worker("a1", true)
		r.task("t-1", "build", "")
		var all []*cancelling
		for range callers.Most + 1 {
			all = append(all, r.cancel("t-1", ""))
		}
		r.pass(callers.AgentWait)
		refused := 0
		for _, c := range all {
			<-c.done
			if c.err != nil {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d of %d were refused, want the one too many", refused, callers.Most+1)
		}
		w.finish("cancelled", "")
		for i := range callers.Most {
			if r.service.callers.Add("") == nil {
				t.Fatalf("%d callers are still known", callers.Most-i)
			}
		}
	})
}
