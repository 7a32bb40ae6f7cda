package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// What a handler says, and what becomes of the task.
func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handle  func() error
		outcome string
		text    string // in the result's error
		back    bool   // the message is rejected, not acknowledged
	}{
		{"nil: it is done", func() error { return nil },
			"t succeeded", "", false},
		{"an error: it has failed, for good", func() error { return errors.New("the input is empty") },
			"t failed", "the input is empty", false},
		{"an error without a text gets one", func() error { return errors.New("") },
			"t failed", "without a text", false},
		{"Reject: another agent should, nothing was begun", func() error { return agent.Reject("no such model here") },
			"t rejected", "no such model here", true},
		{"Retry: another agent should, it was begun", func() error { return agent.Retry(errors.New("out of memory")) },
			"t rejected+attempted", "out of memory", true},
		{"what wraps them counts as they do",
			func() error { return fmt.Errorf("load weights: %w", agent.Retry(errors.New("disk full"))) },
			"t rejected+attempted", "load weights: disk full", true},
		{"Reject and Retry without words have some", func() error { return errors.Join(agent.Reject(""), agent.Retry(nil)) },
			"t rejected", "the agent refuses this task", true},
		{"a panic: as Retry", func() error { panic("index out of range") },
			"t rejected+attempted", "the handler panicked: index out of range", true},
		{"a goroutine that ends itself: as Retry", func() error { runtime.Goexit(); return nil },
			"t rejected+attempted", "ended its goroutine", true},
		{"control characters and length are tamed", func() error { return errors.New("a\x00b" + strings.Repeat("x", 5000)) },
			"t failed", "a bxx", false},
		{"64 MB of it as well", func() error { return errors.New(strings.Repeat("ä", 32<<20)) },
			"t failed", "ää", false},
		{"what is no UTF-8 becomes some", func() error { return errors.New("a\xff\xfeb\xc3") },
			"t failed", "a\ufffd\ufffdb\ufffd", false},
		{"a nil pointer in an error panics when it is read: as a panic of the handler",
			func() error { var e *broken; return e },
			"t rejected+attempted", "it returned an error, a *agent_test.broken, that cannot be read: runtime error", true},
		{"an error that wraps one", func() error { var e *broken; return fmt.Errorf("load: %w", &wrapped{e}) },
			"t failed", "load: wrapped", false},
		{"an error whose Unwrap panics", func() error { return &broken{unwrap: func() error { panic("no end") }} },
			"t rejected+attempted", "cannot be read: no end", true},
		{"an error that panics with itself", func() error { return selfish{} },
			"t rejected+attempted", "cannot be read: a agent_test.selfish, which cannot be printed", true},
		{"a panic with what cannot be printed", func() error { panic(selfish{}) },
			"t rejected+attempted", "the handler panicked: a agent_test.selfish, which cannot be printed", true},
		{"an error that ends the goroutine", func() error { return quitter{} },
			"t rejected+attempted", "ended its goroutine", true},
		{"a panic with it", func() error { panic(quitter{}) },
			"t rejected+attempted", "ended its goroutine", true},
		{"to speak of a withdrawal does not make one", func() error { return agent.ErrCancelled },
			"t failed", "withdrawn", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.run(1, func(context.Context, *agent.Task) (agent.Result, error) { return agent.Result{}, tt.handle() })
				r.give("t")
				r.expect(tt.outcome)
				if got := r.results()[0].Error; !strings.Contains(got, tt.text) || tt.text == "" && got != "" ||
					len(got) > messages.MaxText {
					t.Errorf("error %q, want one with %q", got, tt.text)
				}
				if tt.back {
					r.settled(0, 0, "t")
				} else {
					r.settled(0, 0)
				}
				r.give("next") // the slot is free, and the agent alive
				if n := len(r.results()); n != 2 {
					t.Errorf("%d results after the next task, want 2", n)
				}
			})
		})
	}
}

// RetryAfter is Retry that says for how long not to come again.
func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		want  float64 // retry_after_ms
	}{
		{0, 0}, {-time.Second, 0}, {20 * time.Second, 20_000}, {1500 * time.Microsecond, 1},
		{48 * time.Hour, 24 * 60 * 60_000}, // a day is what the schema admits
	} {
		inRig(t, func(r *rig) {
			r.run(1, func(context.Context, *agent.Task) (agent.Result, error) {
				return agent.Result{}, fmt.Errorf("ask: %w", agent.RetryAfter(errors.New("429"), tt.after))
			})
			r.give("t")
			r.expect("t rejected+attempted")
			if got := r.results()[0]; got.RetryAfterMS != tt.want || got.Error != "ask: 429" {
				t.Errorf("%v: retry_after_ms %v, error %q; want %v", tt.after, got.RetryAfterMS, got.Error, tt.want)
			}
		})
	}
}

// broken is an error that cannot be read when it is a nil pointer.
type broken struct{ unwrap func() error }

func (e *broken) Error() string { return fmt.Sprint("broken", e.unwrap != nil) }
func (e *broken) Unwrap() error { return e.unwrap() }

// wrapped is an error that can be read; what it wraps cannot, and need not.
type wrapped struct{ error }

func (*wrapped) Error() string { return "wrapped" }

// selfish is an error that panics with itself.
type selfish struct{}

func (e selfish) Error() string { panic(e) }

// quitter is an error that ends the goroutine that reads it.
type quitter struct{}

func (quitter) Error() string { runtime.Goexit(); return "" }

// quoting is an error that panics with what it is about.
type quoting struct{ payload string }

func (q quoting) Error() string { panic("cannot say " + q.payload) }

// The stack of a panic is for the log alone, and what it says for the result: it may
// quote the payload, and so may the arguments of the calls.
func TestPanicIsLoggedByItsTypeAndPlace(t *testing.T) {
	const canary = "canary-payload"
	for _, tt := range []struct {
		name   string
		handle agent.Handler
		logged []string
	}{
		{"a text", func(context.Context, *agent.Task) (agent.Result, error) {
			panic(canary)
		}, []string{"panic_type=string"}},
		{"an error", func(context.Context, *agent.Task) (agent.Result, error) {
			panic(fmt.Errorf("parse %s", canary))
		}, []string{"panic_type=*fmt.wrapError", "panic_type=*errors.errorString", "panic_type=*fmt.fmtError"}},
		{"an error that panics when it is read", func(context.Context, *agent.Task) (agent.Result, error) {
			return agent.Result{}, quoting{canary}
		}, []string{"a agent_test.quoting, that cannot be read"}},
		{"after the deadline of 10 s, within the 0.5 s that it is waited for",
			func(context.Context, *agent.Task) (agent.Result, error) {
				time.Sleep(10*time.Second + 100*time.Millisecond)
				panic(canary)
			}, []string{"panic_type=string"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.run(1, tt.handle)
				r.give("t")
				r.pass(11 * time.Second)
				if text := r.results()[0].Error; !strings.Contains(text, canary) || strings.Contains(text, ".go") {
					t.Errorf("the result says %q, want the panic's words and not its stack", text)
				}
				log := r.log.String()
				if !slices.ContainsFunc(tt.logged, func(words string) bool { return strings.Contains(log, words) }) {
					t.Errorf("the log has none of %q:\n%s", tt.logged, log)
				}
				if strings.Contains(log, canary) || strings.Contains(log, "0x") {
					t.Errorf("the log has the panic's words, or arguments:\n%s", log)
				}
				r.expectLog("agent/outcome_test.go:", 1) // the innermost call, at the head of the stack
				r.expectLog(`stack="taskbus/agent_test.`, 1)
			})
		})
	}
}

func TestResultSaysWhoseItIs(t *testing.T) {
	inRig(t, func(r *rig) {
		usage := agent.Usage{Requests: 2, InputTokens: 1200, OutputTokens: 80, CostUSD: 0.013, Provider: "acme", Model: "m-1"}
		r.run(1, func(context.Context, *agent.Task) (agent.Result, error) {
			time.Sleep(250 * time.Millisecond)
			return agent.Result{Usage: &usage}, errors.New("wrong answer") // it has cost something all the same
		})
		d := dispatch("t")
		d.Attempt, d.DispatchID = 3, "t.3"
		r.send(d, nil)
		r.pass(time.Second)
		got := r.results()[0]
		if want := (messages.TaskResult{
			TaskID: "t", AgentID: "a1", Outcome: messages.Failed, CorrelationID: "trace-t", DispatchID: "t.3", Attempt: 3,
			DurationMS: 250, Error: "wrong answer", Usage: &usage, Timestamp: d.At.Add(250 * time.Millisecond).UTC(),
		}); !reflect.DeepEqual(got.TaskResult, want) {
			t.Errorf("got  %+v\nwant %+v", got.TaskResult, want)
		}
		p := got.Properties
		if p.Type != "task.result" || p.MessageID != "t.3" || p.CorrelationID != "trace-t" || p.UserID != "a1" ||
			p.ContentType != "application/json" || p.Timestamp.IsZero() {
			t.Errorf("properties %+v", p)
		}
	})
}

// A result that its schema refuses would leave the task without an end.
func TestUsageIsMadeToFit(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(1, func(context.Context, *agent.Task) (agent.Result, error) {
			return agent.Result{Usage: &agent.Usage{
				Requests: math.NaN(), InputTokens: -1, OutputTokens: math.Inf(1), CostUSD: 1e-310,
				Provider: "ac\x00me", Model: strings.Repeat("é", 200),
			}}, nil
		})
		r.give("t")
		u := r.results()[0].Usage
		if want := (agent.Usage{OutputTokens: 1e15, Provider: "ac me", Model: u.Model}); *u != want ||
			!strings.HasSuffix(u.Model, "…") {
			t.Errorf("got %+v", *u)
		}
	})
}

// What the coordinator sends is what the handler sees.
func TestTask(t *testing.T) {
	inRig(t, func(r *rig) {
		type key struct{}
		got := make(chan *agent.Task, 1)
		var until time.Time
		ctx := context.WithValue(context.Background(), key{}, "of the caller")
		done := make(chan error)
		ctx, stop := context.WithCancel(ctx)
		go func() {
			done <- agent.Run(ctx, r.config(), func(ctx context.Context, task *agent.Task) (agent.Result, error) {
				if ctx.Value(key{}) != "of the caller" {
					t.Error("the handler's ctx lacks the values of Run's")
				}
				until, _ = ctx.Deadline()
				got <- task
				return agent.Result{}, nil
			})
		}()
		d := dispatch("t")
		d.Task.Deadline = d.At.Add(8 * time.Second)
		d.Decision = &coordinator.Decision{Strategy: "round_robin", Agent: "a1", Fleet: 3, Eligible: 2}
		r.send(d, map[string]any{"traceparent": "00-abc-def-01", "tracestate": "k=v", "x-taskbus-maybe-duplicate": true,
			"baggage": int64(1)})
		want := &agent.Task{
			ID: "t", Type: "sum", Payload: []byte(`{"n": 1}`), Priority: 2, Carried: messages.Carried{CorrelationID: "trace-t"},
			TraceParent: "00-abc-def-01", TraceState: "k=v", DispatchID: "t.1", Attempt: 1,
			AssignedAt: d.At.UTC(), Timeout: 10 * time.Second, Deadline: d.Task.Deadline.UTC(), MaybeDuplicate: true,
			Explanation: "a1 by round_robin, best of 2 eligible among 3 agents",
		}
		task := <-got
		if task.Mute(); !reflect.DeepEqual(task, want) {
			t.Errorf("got  %+v\nwant %+v", task, want)
		}
		if want := d.At.Add(8 * time.Second); !until.Equal(want) { // 8 s < 10 s
			t.Errorf("ctx ends at %v, want the task's deadline %v", until, want)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Messages that are not for this agent to work on go back, with a result where
// their task can be named.
func TestMessagesThatAreNoWork(t *testing.T) {
	other := dispatch("t")
	other.Agent = "b2"
	forOther := string(messages.AppendDispatch(nil, other, nil))
	for _, tt := range []struct {
		name, body, id string
		want           string
	}{
		{"another agent's", forOther, "t.1", "t rejected"},
		{"against the schema, its task legible", `{"message_type":"task.dispatch","task_id":"t","correlation_id":"c"}`, "t.1",
			"t rejected"},
		{"without a trace id", `{"task_id":"t"}`, "t.1", "t rejected"},
		{"no task to be named", `{"message_type":"task.dispatch"}`, "t.1", ""},
		{"no JSON", `hello`, "t.1", ""},
		{"empty", ``, "t.1", ""},
		{"a message id that is no id", `{"task_id":"t"}`, "not an id", "t rejected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				var worked calls
				r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
					worked.add(task.ID)
					return agent.Result{}, nil
				})
				r.publish(bus.Publication{Key: "agent.a1", Properties: bus.Properties{MessageID: tt.id}, Body: []byte(tt.body)})
				r.expect(tt.want)
				r.settled(0, 0, strings.TrimSuffix(tt.id, ".1"))
				if worked.of("t") != 0 {
					t.Error("the handler was called")
				}
				if got := r.results(); len(got) == 1 && (got[0].AgentID != "a1" || got[0].Error == "") {
					t.Errorf("%+v", got[0])
				}
				r.expectLog("gave a message back", 1)
			})
		})
	}
}

// Handlers begin at once, and never more than there are slots.
func TestSlots(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(3, work(time.Second))
		r.give("a", "b", "c", "d", "e")
		r.settled(2, 3) // the broker keeps what is too much
		r.pass(time.Second)
		r.expect("a succeeded, b succeeded, c succeeded")
		r.settled(0, 2)
		r.pass(time.Second)
		if n := len(r.results()); n != 5 {
			t.Errorf("%d results after 2 s with 3 slots, want 5", n)
		}
	})
}

// An acknowledgement before the confirm would lose the outcome with the broker.
func TestAcknowledgedOnlyAfterTheConfirm(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		back []string
	}{
		{"acknowledged", nil, nil},
		{"rejected", agent.Reject("no"), []string{"t"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.broker.SetConfirm(withhold(bus.StreamResult))
				r.run(1, func(context.Context, *agent.Task) (agent.Result, error) { return agent.Result{}, tt.err })
				r.give("t")
				r.pass(time.Minute)
				r.settled(0, 1)
				if n := len(r.results()); n != 1 {
					t.Errorf("%d results on their way, want 1", n)
				}
				r.broker.SetConfirm(nil)
				r.broker.ReleaseConfirms()
				r.settled(0, 0, tt.back...)
			})
		})
	}
}

// A broker that does not take a result is asked again, and the task kept.
func TestResultThatIsNotTaken(t *testing.T) {
	inRig(t, func(r *rig) {
		r.broker.SetConfirm(unroutable(bus.StreamResult))
		r.run(1, work(0))
		r.give("t")
		r.pass(10*time.Second + 500*time.Millisecond)
		r.settled(0, 1)
		r.expectLog("the broker does not take what this agent reports", 1)
		r.broker.SetConfirm(nil)
		r.pass(time.Second) // retryRefused
		r.expect("t succeeded")
		r.settled(0, 0)
	})
}
