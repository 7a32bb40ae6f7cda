package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// ended reports whether Run has returned by now.
func (a *running) ended() bool {
	synctest.Wait()
	return len(a.done) > 0
}

// DrainTimeout is 30 s, and one second more is left to handlers that are told to
// stop.
func TestDrain(t *testing.T) {
	for _, tt := range []struct {
		name     string
		handle   agent.Handler
		returns  time.Duration // of Run, after ctx has ended
		outcomes string
		back     []string
	}{
		{"what runs is finished", work(20 * time.Second), 20 * time.Second, "t succeeded", nil},
		{"what takes longer goes to another agent, and is no failure", work(time.Hour), 30 * time.Second, "t rejected",
			[]string{"t"}},
		{"even a handler that does not return", stubborn(time.Hour), 31 * time.Second, "t rejected", []string{"t"}},
		{"what fails by itself meanwhile has failed", func(context.Context, *agent.Task) (agent.Result, error) {
			time.Sleep(10 * time.Second)
			return agent.Result{}, errors.New("broken")
		}, 10 * time.Second, "t failed", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				a := r.run(1, tt.handle)
				d := dispatch("t")
				d.Timeout = 2 * time.Hour
				r.send(d, nil)
				a.stop()
				synctest.Wait()
				r.expectActive("offline [t]") // at once
				r.give("late")
				r.settled(1, 1) // it takes nothing more
				r.pass(tt.returns - time.Nanosecond)
				if a.ended() {
					t.Fatalf("Run returned before %s", tt.returns)
				}
				r.pass(time.Nanosecond)
				if !a.ended() {
					t.Fatalf("Run has not returned after %s", tt.returns)
				}
				r.expect(tt.outcomes)
				r.settled(1, 0, tt.back...)
				r.pass(2 * time.Hour) // for handlers that outlive Run
				r.expect(tt.outcomes)
			})
		})
	}
}

func TestIdleAgentStopsAtOnce(t *testing.T) {
	inRig(t, func(r *rig) {
		a := r.run(1, work(0))
		a.stop()
		if !a.ended() {
			t.Error("Run has not returned")
		}
		r.expectActive("offline []")
	})
}

// How long an agent takes to stop while its broker is away: what docs/reference/sdk.md says.
func TestStopsWithoutABroker(t *testing.T) {
	for _, tt := range []struct {
		name   string
		given  bool
		handle agent.Handler
		took   time.Duration
	}{
		{"nothing in hand", false, work(0), 0},
		// for the broker's return
		{"a result that cannot be delivered", true, work(2 * time.Second), (30 + 1 + 5) * time.Second},
		{"a handler at work", true, work(10 * time.Second), (30 + 1 + 5) * time.Second}, // its deadline: 10 s
		{"a handler that does not return", true, stubborn(time.Hour), (30 + 1 + 5) * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				a := r.run(1, tt.handle)
				if tt.given {
					r.give("t")
				}
				r.broker.SetOpenError(errors.New("away"))
				r.broker.Cut()
				r.pass(5 * time.Second)
				a.stop()
				begun := time.Now()
				err := <-a.done
				if took := time.Since(begun); err != nil || took != tt.took {
					t.Errorf("Run has returned %v after %s, want nil after %s", err, took, tt.took)
				}
				a.done <- err // for the end of the test
			})
		})
	}
}

// crossing is a broker whose last message crosses the word that no more are wanted.
type crossing struct {
	bus.Bus
	message bus.Publication
}

func (c crossing) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	s, err := c.Bus.Open(ctx, spec)
	return crossingSession{s, c.message}, err
}

type crossingSession struct {
	bus.Session
	message bus.Publication
}

func (s crossingSession) Unsubscribe(ctx context.Context, queue string) (bool, error) {
	if err := s.Publish(s.message); err != nil {
		return false, err
	}
	time.Sleep(time.Millisecond) // in which it is delivered
	return s.Session.Unsubscribe(ctx, queue)
}

// What still comes while the agent is leaving has not begun and goes to others.
func TestDeliveryThatCrossesTheDrain(t *testing.T) {
	inRig(t, func(r *rig) {
		late := dispatch("late")
		c := r.config()
		c.Slots = 2
		c.Bus = crossing{r.broker, bus.Publication{
			Key: "agent.a1", Properties: bus.Properties{MessageID: late.DispatchID},
			Body: messages.AppendDispatch(nil, late, nil),
		}}
		a := r.runWith(c, work(5*time.Second))
		r.give("t")
		a.stop()
		r.pass(5 * time.Second)
		r.expect("late rejected, t succeeded")
		r.settled(0, 0, "late")
		if !a.ended() {
			t.Error("Run has not returned")
		}
	})
}

// Heartbeats go on through the drain: an agent that went silent would be taken for
// dead, and its work given to others.
func TestHeartbeatsThroughTheDrain(t *testing.T) {
	inRig(t, func(r *rig) {
		a := r.run(1, work(9*time.Second))
		r.give("t")
		r.pass(2 * time.Second)
		before := len(r.statuses())
		a.stop()
		r.pass(6 * time.Second) // until 8 s: one at once, one at 5 s
		all := r.statuses()[before:]
		if len(all) != 2 {
			t.Errorf("%d heartbeats, want 2", len(all))
		}
		for _, s := range all {
			if s.Status != messages.Offline || len(s.ActiveTaskIDs) != 1 {
				t.Errorf("heartbeat %s %v", s.Status, s.ActiveTaskIDs)
			}
		}
	})
}

// What waits for a slot when the drain begins has not begun and goes to others.
func TestWaitingDispatchIsGivenBackAtTheDrain(t *testing.T) {
	inRig(t, func(r *rig) {
		a := r.run(1, stubborn(25*time.Second))
		r.give("hung", "t")
		r.pass(11 * time.Second)
		a.stop()
		r.expect("hung failed, t rejected")
		r.settled(0, 0, "t")
		if !a.ended() {
			t.Error("Run waits for a handler that is given up")
		}
		r.pass(time.Minute)
	})
}

// A session that is lost during the drain is replaced for the results' sake.
func TestDrainOutlivesTheSession(t *testing.T) {
	inRig(t, func(r *rig) {
		a := r.run(1, work(9*time.Second))
		r.give("t")
		a.stop()
		r.pass(time.Second)
		r.cut()
		r.pass(9 * time.Second)
		r.expect("t succeeded")
		if !a.ended() {
			t.Error("Run has not returned")
		}
		r.settled(1, 0) // the message is the coordinator's to take back; it knows the result
	})
}

// A broker that never confirms holds an agent up for its patience and no longer:
// 30 s are for handlers, of which none runs; 1 s and 5 s for the results.
func TestDrainIsBounded(t *testing.T) {
	inRig(t, func(r *rig) {
		r.broker.SetConfirm(withhold("task.result"))
		a := r.run(1, work(0))
		r.give("t")
		a.stop()
		r.pass(36*time.Second + 5*time.Second) // and 5 s for the goodbye
		if !a.ended() {
			t.Error("Run has not returned")
		}
		r.expectLog("has not confirmed every result", 1)
		r.settled(1, 0)
	})
}
