package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// While the agent was reconnecting its coordinator took t.1 for lost, and dispatches
// t.2 to it: the task is not begun again beside itself.
func TestSecondDispatchJoinsTheRun(t *testing.T) {
	for _, tt := range []struct {
		name   string
		handle agent.Handler
		play   func(r *rig)
		want   string // the results, "dispatch outcome", in order
		back   []string
	}{
		{"both messages are here: a result for each, the newest first", work(5 * time.Second), func(r *rig) {
			r.giveAttempt("t", 2)
			r.settled(0, 2)
		}, "t.2 succeeded, t.1 succeeded", nil},
		{"three of them", work(5 * time.Second), func(r *rig) {
			r.giveAttempt("t", 2)
			r.giveAttempt("t", 3)
		}, "t.3 succeeded, t.2 succeeded, t.1 succeeded", nil},
		{"copies of either", work(5 * time.Second), func(r *rig) {
			r.giveAttempt("t", 2)
			r.giveAttempt("t", 2)
			r.give("t")
			r.settled(0, 2) // a copy of what is in hand is acknowledged at once
		}, "t.2 succeeded, t.1 succeeded", nil},
		{"it fails", func(context.Context, *agent.Task) (agent.Result, error) {
			time.Sleep(5 * time.Second)
			return agent.Result{}, errors.New("no luck")
		}, func(r *rig) { r.giveAttempt("t", 2) }, "t.2 failed, t.1 failed", nil},
		{"it is given back: every message is, a coordinator knows them apart",
			func(context.Context, *agent.Task) (agent.Result, error) {
				time.Sleep(5 * time.Second)
				return agent.Result{}, agent.Retry(errors.New("out of memory"))
			}, func(r *rig) { r.giveAttempt("t", 2) }, "t.2 rejected, t.1 rejected", []string{"t.2", "t"}},
		{"withdrawn under the first dispatch", work(5 * time.Second), func(r *rig) {
			r.giveAttempt("t", 2)
			r.withdraw(messages.TaskCancel{TaskID: "t", DispatchID: "t.1"})
		}, "t.2 cancelled, t.1 cancelled", nil},
		{"under the second", work(5 * time.Second), func(r *rig) {
			r.giveAttempt("t", 2)
			r.withdraw(messages.TaskCancel{TaskID: "t", DispatchID: "t.2"})
		}, "t.2 cancelled, t.1 cancelled", nil},
		{"under neither", work(5 * time.Second), func(r *rig) {
			r.giveAttempt("t", 2)
			r.withdraw(messages.TaskCancel{TaskID: "t"})
		}, "t.2 cancelled, t.1 cancelled", nil},
		{"under the second, before that came", work(5 * time.Second), func(r *rig) {
			r.withdraw(messages.TaskCancel{TaskID: "t", DispatchID: "t.2"})
			r.giveAttempt("t", 2)
		}, "t.2 cancelled, t.1 cancelled", nil},
		{"a handler that does not return speaks for neither", stubborn(time.Minute), func(r *rig) {
			r.giveAttempt("t", 2)
			r.pass(10 * time.Second)
		}, "t.2 failed, t.1 failed", nil},
		{"a session is lost with the first: it speaks for the second alone", work(5 * time.Second), func(r *rig) {
			r.lose(1)
			r.giveAttempt("t", 2)
			r.pass(reconnect)
		}, "t.2 succeeded", nil},
		{"or with the first two: it speaks for the third alone", work(5 * time.Second), func(r *rig) {
			r.giveAttempt("t", 2)
			r.lose(2)
			r.giveAttempt("t", 3)
			r.pass(reconnect)
		}, "t.3 succeeded", nil},
		{"and with both, which come again", work(5 * time.Second), func(r *rig) {
			r.giveAttempt("t", 2)
			r.cut()
			r.pass(reconnect)
		}, "t.2 succeeded, t.1 succeeded", nil},
		{"it ends while there is no session", work(5 * time.Second), func(r *rig) {
			r.giveAttempt("t", 2)
			r.broker.SetOpenError(errors.New("away"))
			r.broker.Cut()
			r.pass(10 * time.Second)
			r.broker.SetOpenError(nil)
			r.cut()
			r.pass(15 * time.Second)
		}, "t.2 succeeded, t.1 succeeded", nil}, // of the run; and for t.1 when its message comes again
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				var worked calls
				r.run(4, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
					worked.add(task.ID)
					return tt.handle(ctx, task)
				})
				r.give("t")
				r.pass(time.Second)
				tt.play(r)
				r.pass(5 * time.Second)
				var words []string
				for _, m := range r.results() {
					word := fmt.Sprintf("%s %s", m.TaskResult.DispatchID, m.Outcome)
					if !slices.Contains(words, word) { // else for a message that comes again
						words = append(words, word)
					}
				}
				if got := strings.Join(words, ", "); got != tt.want {
					t.Errorf("results %s, want %s", got, tt.want)
				}
				r.settled(0, 0, tt.back...)
				if n := worked.of("t"); n != 1 {
					t.Errorf("%d runs, want 1", n)
				}
				r.expectLog("msg=\"task ", 1) // how it ended
			})
		})
	}
}

// lose ends the session and has the agent's messages gone from the queue, so many: a
// coordinator has taken them out, as those of an agent that it takes for lost.
func (r *rig) lose(messages int) {
	r.t.Helper()
	r.broker.SetOpenError(errors.New("away"))
	r.broker.Cut()
	synctest.Wait()
	r.broker.SetOpenError(nil)
	var err error
	r.outside, err = r.broker.Open(context.Background(),
		bus.SessionSpec{Name: "coordinator", Topology: bus.Standard(bus.Off, bus.ProfileQuorum, nil)})
	if err != nil {
		r.t.Fatal(err)
	}
	taken := make(chan bus.Tag, messages)
	if err := r.outside.Subscribe(context.Background(), bus.Subscription{
		Queue: "agent.a1", Prefetch: messages, Handle: func(d bus.Delivery) { taken <- d.Tag },
	}); err != nil {
		r.t.Fatal(err)
	}
	for range messages {
		r.outside.Ack(<-taken)
	}
	if _, err := r.outside.Unsubscribe(context.Background(), "agent.a1"); err != nil {
		r.t.Fatal(err)
	}
}

// A message that has joined takes a place of the prefetch, and no slot: a heartbeat
// names the task once.
func TestJoinedDispatchTakesNoSlot(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(3, work(20*time.Second))
		d := dispatch("t")
		d.Timeout = time.Minute
		r.send(d, nil)
		r.giveAttempt("t", 2)
		r.give("u", "v")
		r.pass(time.Second)
		r.expectActive("ready [t u]")
		r.settled(1, 3) // t.1, t.2 and u are three; v is left to the broker
		s := r.statuses()
		if m := s[len(s)-1]; m.ActiveTasks != 2 || m.AvailableCapacity != 1 { // 3 slots - 2
			t.Errorf("%d active, %d free, want 2 and 1", m.ActiveTasks, m.AvailableCapacity)
		}
	})
}

// What has no slot yet is joined as well, and goes with its session as a whole.
func TestSecondDispatchJoinsWhatWaits(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(r *rig)
		want string // of t
	}{
		{"one run in the end", func(*rig) {}, "t succeeded, t succeeded"},
		{"withdrawn before it begins", func(r *rig) { r.withdraw(messages.TaskCancel{TaskID: "t", DispatchID: "t.2"}) },
			"t cancelled, t cancelled"},
		{"its session ends", func(r *rig) { r.cut() }, "t succeeded, t succeeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				var worked calls
				r.run(2, func(_ context.Context, task *agent.Task) (agent.Result, error) {
					worked.add(task.ID)
					if task.ID != "t" {
						time.Sleep(30 * time.Second)
					}
					return agent.Result{}, nil
				})
				r.give("hung1", "hung2")
				r.pass(11 * time.Second) // both have failed and not returned: no slot is free
				r.give("t")
				r.giveAttempt("t", 2)
				tt.play(r)
				r.pass(time.Minute)
				r.expect("hung1 failed, hung2 failed, " + tt.want)
				r.settled(0, 0)
				if n := worked.of("t"); n != strings.Count(tt.want, "succeeded")/2 {
					t.Errorf("%d runs", n)
				}
			})
		})
	}
}

// A task that has ended without its handler, which goes on: a new dispatch of it is
// for another agent. One that has ended and is not confirmed yet speaks for both.
func TestSecondDispatchOfWhatHasEnded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		handle agent.Handler
		hold   bool // the confirm of the first result
		play   func(r *rig)
		want   string
		runs   int
		back   []string
	}{
		{"its handler goes on", stubborn(time.Minute), false, func(r *rig) { r.giveAttempt("t", 2) },
			"t failed, t rejected", 1, []string{"t.2"}},
		{"a new life of it", stubborn(time.Minute), false, func(r *rig) { r.give("t") },
			"t failed, t rejected", 1, []string{"t"}},
		{"its handler has returned: it is done again", stubborn(11 * time.Second), false,
			func(r *rig) { r.giveAttempt("t", 2) },
			"t failed, t failed", 2, nil},
		{"it is done, and the broker is yet to confirm it", work(0), true, func(r *rig) { r.giveAttempt("t", 2) },
			"t succeeded, t succeeded", 1, nil},
		{"it is given back, and the broker is yet to confirm it: it is tried again",
			func(context.Context, *agent.Task) (agent.Result, error) {
				return agent.Result{}, agent.Retry(nil)
			}, true, func(r *rig) { r.giveAttempt("t", 2) },
			"t rejected+attempted, t rejected+attempted", 2, []string{"t", "t.2"}},
		{"withdrawn before it came", work(0), true, func(r *rig) {
			r.withdraw(messages.TaskCancel{TaskID: "t", DispatchID: "t.2"})
			r.giveAttempt("t", 2)
		}, "t cancelled, t succeeded", 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				var worked calls
				r.run(2, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
					worked.add(task.ID)
					return tt.handle(ctx, task)
				})
				if tt.hold {
					r.broker.SetConfirm(withhold(bus.StreamResult))
				}
				r.give("t")
				r.pass(12 * time.Second)
				tt.play(r)
				r.pass(12 * time.Second)
				r.broker.SetConfirm(nil)
				r.broker.ReleaseConfirms()
				r.expect(tt.want)
				r.settled(0, 0, tt.back...)
				if n := worked.of("t"); n != tt.runs {
					t.Errorf("%d runs, want %d", n, tt.runs)
				}
			})
		})
	}
}
