package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/metrics"
	"taskbus/coordinator/view"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// A result frees the slot at once: the next task goes out without a heartbeat.
func TestResultFreesTheSlot(t *testing.T) {
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	inRig(t, fleet, func(r *rig) {
		bindAll(r)
		a1 := r.worker("a1", true)
		r.task("t-1", "build", `,"correlation_id":"trace-1"`, func(p *bus.Properties) {
			p.Headers = map[string]any{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
		})
		r.task("t-2", "build", "")
		if got := a1.has(); len(got) != 1 {
			t.Fatalf("a1 has %v, want one task: it has one slot", got)
		}
		a1.finish("succeeded", `,"duration_ms":1500,"usage":{"requests":2}`)
		if got := fmt.Sprint(a1.has()); got != "[t-2]" {
			t.Fatalf("a1 has %s, want t-2 as soon as t-1 has ended", got)
		}

		events := r.events("task.completed")
		if len(events) != 1 {
			t.Fatalf("%d task.completed, want 1", len(events))
		}
		e := events[0]
		if err := set.Validate(e.Type, any(e.fields)); err != nil {
			t.Errorf("%v\n%s", err, e.Body)
		}
		if e.RoutingKey != "task.completed.a1" || e.CorrelationID != "trace-1" || e.text("outcome") != "succeeded" ||
			attemptID(e.text("dispatch_id")) != "t-1.1" || e.fields["duration_ms"] != 1500.0 || e.Headers["traceparent"] == nil {
			t.Errorf("event %s: key %s, properties %+v", e.Body, e.RoutingKey, e.Properties)
		}
		task, _ := r.service.Task(context.Background(), "t-1")
		if task.State != "succeeded" || task.WorkMS != 1500 || task.CompletedAt.IsZero() || task.Agent != "a1" {
			t.Errorf("t-1 in /tasks: %+v", task)
		}
		if st := r.status(); st.Counters.Results["succeeded"] != 1 || st.Pending.Leased != 1 {
			t.Errorf("counters %v, %d leased; want 1 succeeded and t-2 leased", st.Counters.Results, st.Pending.Leased)
		}
		if !strings.Contains(r.log.String(), `"trace_id":"trace-1","task_id":"t-1","agent_id":"a1","outcome":"succeeded"`) {
			t.Errorf("no line for the end of t-1 in\n%s", r.log)
		}
	})
}

// One result counts; what repeats it changes nothing, however often.
func TestAThousandCopiesOfAResult(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		bindAll(r)
		a1 := r.worker("a1", true)
		r.task("t-1", "build", "")
		body := resultBody("a1", "t-1", "succeeded", `,"dispatch_id":"t-1.1"`)
		for range 1000 {
			if err := r.outside.Publish(bus.Publication{Key: bus.StreamResult, Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
		r.settle()
		c := r.status().Counters
		if c.Results["succeeded"] != 1 || c.ResultsRefused["duplicate"] != 999 || len(r.events("task.completed")) != 1 {
			t.Errorf("%v counted, %v refused, %d events; want 1, 999 duplicates, 1", c.Results, c.ResultsRefused,
				len(r.events("task.completed")))
		}
		a1.session.Ack(a1.take().Tag)
	})
}

// Results from another sender than the agent, or that cannot be read.
func TestResultsThatChangeNothing(t *testing.T) {
	for name, c := range map[string]struct {
		body, refusal string
	}{
		"of an unknown task":       {resultBody("a1", "t-9", "succeeded", ""), "unknown"},
		"of the wrong agent":       {resultBody("a2", "t-1", "succeeded", ""), "wrong_agent"},
		"of a future attempt":      {resultBody("a1", "t-1", "succeeded", `,"dispatch_id":"t-1.7"`), "wrong_agent"},
		"with a negative duration": {resultBody("a1", "t-1", "succeeded", `,"duration_ms":-1`), "invalid"},
		"with an unknown outcome":  {resultBody("a1", "t-1", "perfect", ""), "invalid"},
		"not JSON":                 {`{"task_id":`, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.worker("a1", true)
				r.task("t-1", "build", "")
				r.publish(bus.StreamResult, c.body)
				got := r.status().Counters
				if got.ResultsRefused[c.refusal] != 1 || got.Results["succeeded"] != 0 {
					t.Errorf("refused %v, counted %v; want one %s", got.ResultsRefused, got.Results, c.refusal)
				}
				if task, _ := r.service.Task(context.Background(), "t-1"); task.State != "dispatched" {
					t.Errorf("t-1 is %s", task.State)
				}
			})
		})
	}
}

// With agents.auth: strict only the agent's own user speaks for it.
func TestSenderOfAResultIsChecked(t *testing.T) {
	asA1 := func(p *bus.Properties) { p.UserID = "a1" }
	for _, c := range []struct {
		mode, user string
		counts     bool
	}{{"off", "", true}, {"warn", "mallory", true}, {"strict", "mallory", false}, {"strict", "", false},
		{"strict", "a1", true}} {
		t.Run(c.mode+" "+c.user, func(t *testing.T) {
			inRig(t, strings.Replace(fleet, "agents:\n", "agents:\n  auth: "+c.mode+"\n", 1), func(r *rig) {
				r.publish(bus.StreamStatus, fmt.Sprintf(
					`{"message_type":"agent.status","agent_id":"a1","status":"ready","current_load":0,"active_tasks":0,`+
						`"available_capacity":1,"timestamp":%q}`,
					time.Now().Format(time.RFC3339Nano)), asA1)
				r.task("t-1", "build", "")
				r.result("a1", "t-1", "succeeded", "", func(p *bus.Properties) { p.UserID = c.user })
				got := r.status().Counters
				if counts := got.Results["succeeded"] == 1; counts != c.counts ||
					got.ResultsRefused["wrong_sender"] != uint64(metrics.Bool(!c.counts)) {
					t.Errorf("counted %v, refused %v; want it to count: %v", got.Results, got.ResultsRefused, c.counts)
				}
			})
		})
	}
}

// A result by a key that ends in another id than the agent's is not used, whatever agents.auth says: with
// the permissions of deploy/ the broker lets a2 publish by its own keys alone. By its own key, and without
// any, the agent's result counts as before.
func TestKeyOfAnotherAgent(t *testing.T) {
	status := func(relayed string) string {
		return fmt.Sprintf(
			`{"message_type":"agent.status","agent_id":"a1","status":"ready","current_load":0,"active_tasks":0,`+
				`"available_capacity":1,"timestamp":%q%s}`,
			time.Now().Format(time.RFC3339Nano), relayed)
	}
	for _, mode := range []string{"off", "warn", "strict"} {
		for _, c := range []struct {
			what, key string
			body      func() string
			counts    bool
		}{
			{"a heartbeat", "agent.status.a1", func() string { return status("") }, true},
			{"a heartbeat", "agent.status.a2", func() string { return status("") }, false},
			{"a relayed heartbeat", "agent.status.a2", func() string { return status(`,"relayed":true`) }, false},
			{"a result", "task.result.a1", func() string { return resultBody("a1", "t-1", "succeeded", "") }, true},
			{"a result", "task.result.a2", func() string { return resultBody("a1", "t-1", "succeeded", "") }, false},
		} {
			t.Run(fmt.Sprint(mode, ", ", c.what, " by ", c.key), func(t *testing.T) {
				inRig(t, strings.Replace(fleet, "agents:\n", "agents:\n  auth: "+mode+"\n", 1), func(r *rig) {
					result := strings.HasPrefix(c.key, "task.result")
					if result {
						r.publish(bus.StreamStatus, status(""), func(p *bus.Properties) { p.UserID = "a1" })
						r.task("t-1", "build", "")
					}
					r.request(c.key, "a1", "", c.body()) // a1's connection, or one that the broker does not check
					got := r.status()
					seen := got.Counters.Results["succeeded"] == 1
					if !result {
						seen = slices.ContainsFunc(got.Agents, func(a view.Agent) bool { return a.ID == "a1" && a.State == "online" })
					}
					if seen != c.counts {
						t.Errorf("it counts: %v, want %v; log:\n%s", seen, c.counts, r.log)
					}
					if told := strings.Count(r.log.String(), "by a routing key that ends in another id"); told != int(
						metrics.Bool(!c.counts)) {
						t.Errorf("%d lines about the key; log:\n%s", told, r.log)
					}
				})
			})
		}
	}
}

// What an agent says while no session stands is read in the next one, however
// long that takes: task.result is read from where this process stopped.
func TestResultsOfALostSessionAreRead(t *testing.T) {
	for _, away := range []time.Duration{10 * time.Second, 10 * time.Minute} { // stale_agent_threshold is 120 s
		t.Run(away.String(), func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				bindAll(r)
				r.worker("a1", true)
				r.task("t-1", "build", "")
				r.broker.SetOpenError(bus.ErrAccess)
				r.broker.Cut()
				r.broker.SetOpenError(nil)
				r.connect() // the coordinator is in its pause
				body := resultBody("a1", "t-1", "succeeded", "")
				r.publish(bus.StreamResult, body)
				r.broker.SetOpenError(bus.ErrAccess)
				r.pass(away)
				r.broker.SetOpenError(nil)
				r.pass(backoffMax + time.Second)
				if got := r.status().Counters.Results["succeeded"]; got != 1 {
					t.Errorf("%d results counted, want the one of t-1; log:\n%s", got, r.log)
				}
				// Read again in every session to come, it is no news.
				r.broker.Cut()
				r.pass(backoffMax + time.Second)
				r.connect()
				c := r.status().Counters
				if c.Results["succeeded"] != 1 || c.ResultsRefused["duplicate"] != 0 || len(r.events("task.completed")) != 1 {
					t.Errorf("read again: %v counted, %v refused", c.Results, c.ResultsRefused)
				}
			})
		})
	}
}

// An agent may be faster than the broker's confirm of its dispatch. When the
// session ends in between, the broker delivers the task again: it is known to have
// ended, and goes to no agent.
func TestResultBeforeTheConfirm(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		bindAll(r)
		a1 := r.worker("a1", true)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == schemas.TaskDispatch {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("t-1", "build", "")
		a1.finish("succeeded", "")
		if n := len(r.in(bus.QueueAssign)) + r.broker.Unacked(bus.QueueAssign); n != 1 {
			t.Fatalf("%d tasks in task.assign, want t-1: its dispatch is not confirmed", n)
		}
		r.pass(2 * snapshotLook) // until the journal says that the end is announced
		r.broker.SetConfirm(nil)
		r.broker.Cut()
		r.pass(backoffMax + time.Second)
		r.connect()
		r.empty(bus.QueueAssign)
		r.empty("agent.a1")
		if n := len(r.events(schemas.TaskCompleted)); n != 1 {
			t.Errorf("%d task.completed, want 1", n)
		}
		if task, _ := r.service.Task(context.Background(), "t-1"); task.State != "succeeded" {
			t.Errorf("t-1 is %s", task.State)
		}
	})
}

func TestTasksOfAState(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("good", "build", "")
		a1.finish("succeeded", "")
		r.task("bad", "build", "")
		a1.finish("failed", `,"error":"no such file"`)
		for state, want := range map[string]string{"succeeded": "good", "failed": "bad"} {
			list := r.service.Tasks(context.Background(), view.TaskFilter{State: state})
			if len(list) != 1 || list[0].ID != want {
				t.Errorf("%s: %+v, want %s", state, list, want)
			}
		}
		if bad, _ := r.service.Task(context.Background(), "bad"); bad.Error != "no such file" || bad.ReasonCode != "" {
			t.Errorf("bad: %+v", bad)
		}
		if strings.Contains(r.log.String(), "no such file") {
			t.Error("the agent's words are in the log: they may quote the payload")
		}
	})
}
