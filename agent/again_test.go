package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// bodies are the results as published under a dispatch id.
func (r *rig) bodies(dispatchID string) (all []string) {
	synctest.Wait()
	for _, d := range r.broker.Messages(bus.StreamResult) {
		if d.MessageID == dispatchID {
			all = append(all, string(d.Body))
		}
	}
	return all
}

// A coordinator that was killed may have heard of the result, the next has not: it
// dispatches the task again, marked, and is told what the first was told, word for
// word. The copy is settled as the first was, and only after the broker has confirmed.
func TestCopyOfWhatHasEnded(t *testing.T) {
	usage := &agent.Usage{Requests: 1, InputTokens: 12, Provider: "acme", Model: "m-1"}
	for _, tt := range []struct {
		name string
		err  error
		want string
		back []string // given back: the first, and the copy
	}{
		{"succeeded", nil, "t succeeded", nil},
		{"failed", errors.New("the input is empty"), "t failed", nil},
		{"rejected", agent.Reject("no such model"), "t rejected", []string{"t", "t"}},
		{"given up", agent.Retry(errors.New("out of memory")), "t rejected+attempted", []string{"t", "t"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				var worked calls
				r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
					worked.add(task.ID)
					time.Sleep(time.Second)
					return agent.Result{Usage: usage}, tt.err
				})
				r.give("t")
				r.pass(time.Minute)
				r.expect(tt.want)
				r.broker.SetConfirm(withhold(bus.StreamResult))
				r.giveAgain("t")
				r.settled(0, 1, tt.back[:len(tt.back)/2]...)
				r.broker.SetConfirm(nil)
				r.broker.ReleaseConfirms()
				r.settled(0, 0, tt.back...)
				r.expect(tt.want + ", " + tt.want)
				if all := r.bodies("t.1"); len(all) != 2 || all[0] != all[1] {
					t.Errorf("the results differ:\n%s", strings.Join(all, "\n"))
				}
				if n := worked.of("t"); n != 1 {
					t.Errorf("%d runs, want 1", n)
				}
			})
		})
	}
}

func TestCopyOfWhatWasWithdrawn(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(r *rig)
	}{
		{"in mid-work", func(r *rig) {
			r.give("t")
			r.withdraw(messages.TaskCancel{TaskID: "t", Reason: "over"})
		}},
		{"before it came", func(r *rig) {
			r.withdraw(messages.TaskCancel{TaskID: "t", Reason: "over"})
			r.give("t")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.run(1, work(5*time.Second))
				tt.play(r)
				r.pass(time.Minute)
				r.expect("t cancelled")
				r.giveAgain("t")
				r.expect("t cancelled, t cancelled")
				r.settled(0, 0)
				if text := r.results()[1].Error; !strings.Contains(text, "over") {
					t.Errorf("error %q lacks the reason", text)
				}
			})
		})
	}
}

// A producer submits a task once more after a coordinator's restart: its dispatches
// count from 1 again. Nothing marks it as a copy, and it is none.
func TestNewLifeOfATask(t *testing.T) {
	inRig(t, func(r *rig) {
		var worked calls
		r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
			worked.add(task.ID)
			if worked.of("t") == 1 {
				return agent.Result{}, errors.New("no luck")
			}
			return agent.Result{}, nil
		})
		r.give("t")
		r.expect("t failed")
		r.give("t")
		r.expect("t failed, t succeeded")
		r.giveAgain("t") // of the new life
		r.expect("t failed, t succeeded, t succeeded")
		r.settled(0, 0)
		if n := worked.of("t"); n != 2 {
			t.Errorf("%d runs, want 2", n)
		}
	})
}

// The new life waits for a slot when the session is lost. What the broker then
// delivers again is a copy of that, not of the life before.
func TestNewLifeIsNotTakenForTheOldOneLater(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
			switch {
			case task.ID == "hung":
				time.Sleep(time.Minute)
			case !task.MaybeDuplicate:
				return agent.Result{}, errors.New("no luck")
			}
			return agent.Result{}, nil
		})
		r.give("t")
		r.expect("t failed")
		r.give("hung", "t")
		r.pass(11 * time.Second) // hung has failed, but not returned; t waits
		r.cut()
		r.pass(2 * time.Minute)
		r.expect("hung failed, t failed, t succeeded")
		r.settled(0, 0)
	})
}

// unsendable is a broker to which what succeeded cannot be said, or nothing at all.
type unsendable struct {
	bus.Bus
	word string
}

func (u unsendable) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	s, err := u.Bus.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return unsendableSession{s, u.word}, nil
}

type unsendableSession struct {
	bus.Session
	word string
}

func (s unsendableSession) Publish(p bus.Publication) error {
	if p.Type == bus.StreamResult && strings.Contains(string(p.Body), s.word) {
		return &bus.EncodingError{Reason: "no frame is large enough"}
	}
	return s.Session.Publish(p)
}

// A result that can never be sent ends its task all the same.
func TestResultThatCannotBeSent(t *testing.T) {
	for _, tt := range []struct {
		name, word string
		want       string
		back       []string
	}{
		{"it has failed, and says why", `"outcome":"succeeded"`, "t failed", nil},
		{"when not even that can be said, it goes to another agent", `"outcome"`, "", []string{"t"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				c := r.config()
				c.Bus = unsendable{r.broker, tt.word}
				r.runWith(c, work(time.Second))
				r.give("t")
				r.pass(time.Second)
				r.expect(tt.want)
				r.settled(0, 0, tt.back...)
				for _, m := range r.results() {
					if want := "its result (succeeded) cannot be sent: "; !strings.HasPrefix(m.Error, want) || m.DurationMS != 1000 {
						t.Errorf("error %q after %v ms, want %q and 1000", m.Error, m.DurationMS, want)
					}
				}
			})
		})
	}
}

// A task id is used again. What is answered with an earlier result is a copy of the dispatch that
// had it, and nothing else, even where its id is the same.
func TestIDUsedAgain(t *testing.T) {
	marked := map[string]any{"x-taskbus-maybe-duplicate": true}
	for _, tt := range []struct {
		name    string
		later   time.Duration
		edit    func(d, first *coordinator.Dispatch)
		headers map[string]any
		runs    int
	}{
		{"sent again, marked", time.Minute, nil, marked, 1},
		{"the very message, two days later", 48 * time.Hour, func(d, first *coordinator.Dispatch) { d.At = first.At }, marked,
			1},
		{"marked, two days later", 48 * time.Hour, nil, marked, 2},
		{"another life, marked", time.Minute, func(d, _ *coordinator.Dispatch) { d.DispatchID = "t.mwq85dhr.1" }, marked, 2},
		{"for another purpose, marked", time.Minute, func(d, _ *coordinator.Dispatch) { d.Task.CorrelationID = "another" },
			marked,
			2},
		{"not marked", time.Minute, nil, nil, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				var worked calls
				r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
					worked.add(task.ID)
					return agent.Result{}, nil
				})
				first := dispatch("t")
				r.send(first, nil)
				r.expect("t succeeded")
				r.pass(tt.later)
				d := dispatch("t")
				if tt.edit != nil {
					tt.edit(d, first)
				}
				r.send(d, tt.headers)
				r.expect("t succeeded, t succeeded")
				if n := worked.of("t"); n != tt.runs {
					t.Errorf("%d runs, want %d", n, tt.runs)
				}
			})
		})
	}
}

// A task that is submitted anew while the handler of its former life goes on is not answered with
// that one's result: it goes to another agent.
func TestIDUsedAgainWhileItRuns(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(2, work(time.Hour))
		d := dispatch("t")
		d.DispatchID = "t.mwq85dhr.1"
		r.send(d, nil)
		r.pass(time.Second)
		d = dispatch("t")
		d.DispatchID = "t.mwq85dhs.1"
		r.send(d, nil)
		r.pass(time.Second)
		r.expect("t rejected")
	})
}
