package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/messages"
)

// Every task here has 10 s, and half a second of grace beyond.
func TestDeadline(t *testing.T) {
	for _, tt := range []struct {
		name     string
		handle   agent.Handler
		deadline time.Duration // of the task, from now; 0: none
		at       time.Duration // when the result is there, and a moment before it is not
		want     string
		text     string
	}{
		{"a handler that heeds its ctx", work(time.Hour), 0, 10 * time.Second,
			"t failed", "ran out of time after 10s: context deadline exceeded"},
		{"the task's own deadline, if earlier", work(time.Hour), 4 * time.Second, 4 * time.Second,
			"t failed", "ran out of time after 4s"},
		{"the time-out, if earlier", work(time.Hour), 40 * time.Second, 10 * time.Second,
			"t failed", "ran out of time after 10s"},
		{"one that comes late, but in time for the grace, has done it", stubborn(10*time.Second + 499*time.Millisecond), 0,
			10*time.Second + 499*time.Millisecond,
			"t succeeded", ""},
		{"one that does not return is not waited for", stubborn(time.Minute), 0, 10*time.Second + 500*time.Millisecond,
			"t failed", "ran out of time after 10.5s: the handler has not returned"},
		{"to ask for a retry then is too late", func(ctx context.Context, _ *agent.Task) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, agent.Retry(errors.New("half done"))
		}, 0, 10 * time.Second, "t failed", "ran out of time after 10s: half done"},
		{"a deadline that is over when the task comes", work(time.Hour), -time.Second, time.Nanosecond,
			"t rejected", "before it could begin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.run(1, tt.handle)
				d := dispatch("t")
				if tt.deadline != 0 {
					d.Task.Deadline = d.At.Add(tt.deadline)
				}
				r.send(d, nil)
				if tt.at > time.Nanosecond {
					r.pass(tt.at - time.Nanosecond)
					r.expect("")
				}
				r.pass(time.Nanosecond)
				r.expect(tt.want)
				if got := r.results()[0].Error; !strings.Contains(got, tt.text) {
					t.Errorf("error %q, want one with %q", got, tt.text)
				}
				r.pass(2 * time.Minute)
				if n := len(r.results()); n != 1 {
					t.Errorf("%d results in the end, want 1", n)
				}
			})
		})
	}
}

// The cause of the end of a handler's ctx.
func TestCauses(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(r *rig, a *running)
		want error
	}{
		{"deadline", func(r *rig, _ *running) { r.pass(10 * time.Second) }, agent.ErrDeadline},
		{"withdrawn", func(r *rig, _ *running) { r.withdraw(messages.TaskCancel{TaskID: "t"}) }, agent.ErrCancelled},
		{"stopping", func(r *rig, a *running) { a.stop(); r.pass(30 * time.Second) }, agent.ErrStopping},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				cause := make(chan error, 1)
				a := r.run(1, func(ctx context.Context, _ *agent.Task) (agent.Result, error) {
					<-ctx.Done()
					cause <- context.Cause(ctx)
					return agent.Result{}, ctx.Err()
				})
				d := dispatch("t")
				if tt.want == agent.ErrStopping {
					d.Timeout = time.Hour // longer than DrainTimeout, 30 s
				}
				r.send(d, nil)
				tt.end(r, a)
				if got := <-cause; !errors.Is(got, tt.want) {
					t.Errorf("cause %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// A handler that does not return has its slot, whatever its result says; what comes
// meanwhile waits.
func TestHungHandlerKeepsItsSlot(t *testing.T) {
	inRig(t, func(r *rig) {
		free := make(chan struct{})
		r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
			if task.ID == "hung" {
				<-free
			} else {
				time.Sleep(100 * time.Millisecond)
			}
			return agent.Result{}, nil
		})
		r.give("hung", "next")
		r.pass(10*time.Second + 500*time.Millisecond)
		r.expect("hung failed")
		r.settled(0, 1) // next has been delivered, and waits
		r.pass(250 * time.Millisecond)
		// Told after the result, which frees the slot for the coordinator.
		r.expectActive("ready [hung]")
		all := r.statuses()
		if last := all[len(all)-1].AgentStatus.Timestamp; last.Before(r.results()[0].TaskResult.Timestamp) {
			t.Errorf("no heartbeat since the result; the latest is of %v", last)
		}
		r.pass(time.Minute)
		r.expect("hung failed")
		close(free)
		r.pass(50 * time.Millisecond)
		r.expectActive("ready [next]") // told at once: the slot is no longer hung's
		r.pass(50 * time.Millisecond)
		r.expect("hung failed, next succeeded")
		r.settled(0, 0)
		r.expectLog("does not return although its time is over", 1)
		r.expectLog("has returned at last", 1)
	})
}

// A task whose deadline passes while it waits behind a hung handler goes back.
func TestDeadlinePassesWhileWaiting(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(1, stubborn(time.Minute))
		r.give("hung")
		d := dispatch("t")
		d.Task.Deadline = d.At.Add(30 * time.Second)
		r.send(d, nil)
		r.pass(time.Minute)
		r.expect("hung failed, t rejected")
		r.settled(0, 0, "t")
	})
}

func TestWithdraw(t *testing.T) {
	cancelT := messages.TaskCancel{TaskID: "t", DispatchID: "t.1", Reason: "the incident is over",
		CorrelationID: "trace-t"}
	byTask := messages.TaskCancel{TaskID: "t"}
	for _, tt := range []struct {
		name   string
		handle agent.Handler
		play   func(r *rig)
		want   string
	}{
		{"a running task: at once", work(5 * time.Second), func(r *rig) {
			r.give("t")
			r.withdraw(cancelT)
		}, "t cancelled"},
		{"named by its task alone", work(5 * time.Second), func(r *rig) {
			r.give("t")
			r.withdraw(byTask)
		}, "t cancelled"},
		{"another one is left alone", work(5 * time.Second), func(r *rig) {
			r.give("t", "u")
			r.withdraw(cancelT)
			r.pass(5 * time.Second)
		}, "t cancelled, u succeeded"},
		{"another attempt of the task is left alone", work(5 * time.Second), func(r *rig) {
			r.give("t")
			r.withdraw(messages.TaskCancel{TaskID: "t", DispatchID: "t.2"})
			r.pass(5 * time.Second)
		}, "t succeeded"},
		{"work that is done in spite of it is done", stubborn(time.Second), func(r *rig) {
			r.give("t")
			r.withdraw(cancelT)
			r.pass(time.Second)
		}, "t succeeded"},
		{"a handler that does not return: after 5 s", stubborn(8 * time.Second), func(r *rig) {
			r.give("t")
			r.withdraw(cancelT)
			r.pass(5*time.Second - time.Nanosecond)
			r.expect("")
			r.pass(time.Nanosecond)
		}, "t cancelled"},
		{"before it comes: it never begins", work(0), func(r *rig) {
			r.withdraw(cancelT)
			r.pass(59 * time.Minute)
			r.give("t")
		}, "t cancelled"},
		{"before it comes, named by its task", work(0), func(r *rig) {
			r.withdraw(byTask)
			r.give("t")
		}, "t cancelled"},
		{"a task that is submitted again afterwards is another", work(0), func(r *rig) {
			r.withdraw(byTask)
			r.give("t")
			again := dispatch("t")
			again.DispatchID, again.Attempt = "t.2", 2
			r.send(again, nil)
		}, "t cancelled, t succeeded"},
		{"submitted again after it was stopped in mid-work, too", work(5 * time.Second), func(r *rig) {
			r.give("t")
			r.withdraw(byTask)
			again := dispatch("t")
			again.DispatchID, again.Attempt = "t.2", 2
			r.send(again, nil)
			r.pass(5 * time.Second)
		}, "t cancelled, t succeeded"},
		{"is not remembered for ever", work(0), func(r *rig) {
			r.withdraw(byTask)
			r.pass(time.Hour)
			r.give("t")
		}, "t succeeded"},
		{"when it has ended: nothing", work(0), func(r *rig) {
			r.give("t")
			r.withdraw(cancelT)
		}, "t succeeded"},
		{"twice is once", work(5 * time.Second), func(r *rig) {
			r.give("t")
			r.withdraw(cancelT)
			r.withdraw(cancelT)
		}, "t cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.run(2, tt.handle)
				tt.play(r)
				r.expect(tt.want)
				r.pass(time.Minute)
				r.expect(tt.want)
				r.settled(0, 0) // withdrawn work is acknowledged, never given back
				m := r.results()[0]
				text := strings.TrimPrefix(m.Error, "the handler has not returned: ")
				if m.Outcome == messages.Cancelled && !strings.HasPrefix(text, "the task was withdrawn") {
					t.Errorf("error %q", m.Error)
				}
			})
		})
	}
}

// That a task counts as cancelled does not mean that its work has ended: after the
// 5 s that a handler has to return, the result says that it has not. With the longest
// reason that a cancel can bear that is still to be seen.
func TestResultSaysThatTheHandlerHasNotReturned(t *testing.T) {
	longest := strings.Repeat("r", 2048)
	for _, tt := range []struct {
		name   string
		handle agent.Handler
		reason string
		after  time.Duration
		want   string // the error begins with it
	}{
		{"it returns", work(time.Minute), "why", 0, "the task was withdrawn: why"},
		{"it returns within the grace", stubborn(4 * time.Second), "why", 4 * time.Second, ""}, // with success
		{"it does not", stubborn(time.Minute), "why", 5 * time.Second,
			"the handler has not returned: the task was withdrawn: why"},
		{"it does not, for no reason given", stubborn(time.Minute), "", 5 * time.Second,
			"the handler has not returned: the task was withdrawn"},
		{"it does not, for the longest reason", stubborn(time.Minute), longest, 5 * time.Second,
			"the handler has not returned: the task was withdrawn: rrrr"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.run(1, tt.handle)
				r.give("t")
				r.withdraw(messages.TaskCancel{TaskID: "t", Reason: tt.reason})
				r.pass(tt.after)
				m := r.results()
				if len(m) != 1 || !strings.HasPrefix(m[0].Error, tt.want) ||
					(tt.want == "") != (m[0].Outcome == messages.Succeeded) {
					t.Errorf("results %+v, want one that says %q", m, tt.want)
				}
			})
		})
	}
}

// What waits for a slot is withdrawn without having begun.
func TestWithdrawWhileWaiting(t *testing.T) {
	inRig(t, func(r *rig) {
		var worked calls
		r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
			worked.add(task.ID)
			time.Sleep(time.Minute)
			return agent.Result{}, nil
		})
		r.give("hung", "t")
		r.pass(11 * time.Second)
		r.withdraw(messages.TaskCancel{TaskID: "t"})
		r.expect("hung failed, t cancelled")
		r.pass(time.Minute)
		if worked.of("t") != 0 {
			t.Error("it was worked on")
		}
	})
}

// The control queue takes what is no task.cancel without harm.
func TestControlMessagesThatCannotBeRead(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(1, work(time.Second))
		r.give("t")
		for _, body := range []string{``, `{}`, `{"message_type":"task.available","task_id":"t"}`,
			`{"message_type":"task.cancel","task_id":7}`} {
			r.publish(busPublication("taskbus.control", "a1", body))
		}
		r.pass(time.Second)
		r.expect("t succeeded")
		r.expectLog("a control message cannot be read", 4)
		if n := r.broker.Unacked("agent.a1.control"); n != 0 {
			t.Errorf("%d control messages are held", n)
		}
	})
}
