package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/tests/support/membus"
)

// reconnect is longer than the first pause between two sessions (at most 250 ms).
const reconnect = 300 * time.Millisecond

// cut ends all sessions, the coordinator's among them, and opens that one again.
func (r *rig) cut() {
	r.t.Helper()
	r.broker.Cut()
	synctest.Wait()
	var err error
	r.outside, err = r.broker.Open(context.Background(),
		bus.SessionSpec{Name: "coordinator", Topology: bus.Standard(bus.Off, bus.ProfileQuorum, nil)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.readRequests()
}

// A session that is lost never interrupts the work, and no dispatch runs twice.
func TestLostSession(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(r *rig)
		want string // the results that reached the stream; how many of each, see below
	}{
		{"while the handler runs: it goes on, its result comes in the next session", func(r *rig) {
			r.give("t")
			r.pass(time.Second)
			r.cut()
			r.pass(4 * time.Second)
		}, "t succeeded"},
		{"many times while it runs", func(r *rig) {
			r.give("t")
			for range 4 {
				r.pass(time.Second)
				r.cut()
			}
			r.pass(time.Minute)
		}, "t succeeded"},
		{"while the broker is away for longer than the work takes", func(r *rig) {
			r.give("t")
			r.broker.SetOpenError(errors.New("away"))
			r.broker.Cut()
			r.pass(time.Minute)
			r.broker.SetOpenError(nil)
			r.pass(15 * time.Second)
		}, "t succeeded"},
		{"the result never arrived: it is sent again", func(r *rig) {
			r.broker.SetConfirm(answer(bus.StreamResult, membus.Lose))
			r.give("t")
			r.pass(5 * time.Second)
			r.broker.SetConfirm(nil)
			r.cut()
			r.pass(reconnect)
		}, "t succeeded"},
		{"the result arrived, its confirm did not: sent again, the coordinator sees a copy", func(r *rig) {
			r.broker.SetConfirm(withhold(bus.StreamResult))
			r.give("t")
			r.pass(5 * time.Second)
			r.broker.SetConfirm(nil)
			r.cut()
			r.pass(reconnect)
		}, "t succeeded"},
		{"a coordinator that knows nothing of the result dispatches it again: it is told, without work", func(r *rig) {
			r.give("t")
			r.pass(5 * time.Second)
			r.giveAgain("t")
			r.giveAgain("t")
		}, "t succeeded"},
		{"two copies in one session: one run, one of them acknowledged at once", func(r *rig) {
			r.give("t", "t")
			r.settled(0, 1)
			r.pass(5 * time.Second)
		}, "t succeeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				var worked calls
				r.run(2, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
					worked.add(task.ID)
					return work(4*time.Second)(ctx, task)
				})
				tt.play(r)
				// Whether the message comes again before or after the confirm, and so whether
				// its result is sent once more, is chance. What it says is not.
				all := r.bodies("t.1")
				if slices.Sort(all); len(slices.Compact(all)) != 1 {
					t.Errorf("results %q, want one and copies of it", all)
				}
				if got, _, _ := strings.Cut(r.outcomes(), ","); got != tt.want {
					t.Errorf("result %s, want %s", got, tt.want)
				}
				r.settled(0, 0)
				if n := worked.of("t"); n != 1 {
					t.Errorf("the handler was called %d times, want once", n)
				}
				r.expectLog("task succeeded", 1) // however often its result was sent
			})
		})
	}
}

// Of two copies of a dispatch that is given back one goes: the task must not be
// doubled by it.
func TestOfTwoCopiesOneIsGivenBack(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(2, func(context.Context, *agent.Task) (agent.Result, error) {
			time.Sleep(time.Second)
			return agent.Result{}, agent.Reject("no")
		})
		r.give("t", "t")
		r.pass(time.Second)
		r.settled(0, 0, "t")
	})
}

// Copies of what is in hand take no place of the prefetch from other tasks.
func TestCopiesTakeNoRoom(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(2, work(20*time.Second))
		r.give("t", "t", "t", "u")
		r.pass(time.Second)
		r.expectActive("ready [t u]")
		r.settled(0, 2)
	})
}

// What waits behind a hung handler when the session is lost comes again: nothing
// begins on the word of a session that is over.
func TestWaitingDispatchIsForgottenWithItsSession(t *testing.T) {
	inRig(t, func(r *rig) {
		var worked calls
		r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
			worked.add(task.ID)
			if task.ID == "hung" {
				time.Sleep(time.Minute)
			}
			return agent.Result{}, nil
		})
		r.give("hung", "t")
		r.pass(11 * time.Second) // hung has failed; t waits
		r.broker.SetOpenError(errors.New("away"))
		r.broker.Cut()
		r.pass(2 * time.Minute) // hung has returned meanwhile
		if worked.of("t") != 0 {
			t.Error("it began without a session")
		}
		r.broker.SetOpenError(nil)
		r.pass(16 * time.Second)
		r.expect("hung failed, t succeeded")
		if worked.of("t") != 1 {
			t.Errorf("%d runs, want 1", worked.of("t"))
		}
	})
}

// A result is on its way once in a session, however it comes to be sent: here by a
// retry that was due when the session was new.
func TestResultIsSentOnceInASession(t *testing.T) {
	inRig(t, func(r *rig) {
		r.broker.SetConfirm(unroutable(bus.StreamResult))
		r.run(1, work(0))
		r.give("t")
		r.broker.SetConfirm(withhold(bus.StreamResult))
		r.cut()
		r.pass(5 * time.Second)
		r.expect("t succeeded")
	})
}

// What a process may have begun before it died is marked for the next.
func TestRedeliveredTaskMayBeADuplicate(t *testing.T) {
	inRig(t, func(r *rig) {
		r.give("t")
		taken := make(chan struct{}, 1)
		died, err := r.broker.Open(context.Background(), bus.SessionSpec{Topology: bus.Topology{Mode: bus.Off}})
		if err != nil {
			t.Fatal(err)
		}
		err = died.Subscribe(context.Background(),
			bus.Subscription{Queue: "agent.a1", Prefetch: 1, Handle: func(bus.Delivery) { taken <- struct{}{} }})
		if err != nil {
			t.Fatal(err)
		}
		<-taken
		if err := died.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.run(1, func(_ context.Context, task *agent.Task) (agent.Result, error) {
			if task.MaybeDuplicate != (task.ID == "t") {
				t.Errorf("%s: MaybeDuplicate is %v", task.ID, task.MaybeDuplicate)
			}
			return agent.Result{}, nil
		})
		r.give("u")
		r.expect("t succeeded, u succeeded")
	})
}

// firstLine is a log that ends the agent with its first line.
type firstLine struct {
	slog.Handler
	stop context.CancelFunc
}

func (f firstLine) Handle(ctx context.Context, line slog.Record) error {
	defer f.stop()
	return f.Handler.Handle(ctx, line)
}
func (f firstLine) WithAttrs(attrs []slog.Attr) slog.Handler {
	return firstLine{f.Handler.WithAttrs(attrs), f.stop}
}

// Before anything is tried, the log says with which broker, and no secret.
func TestSaysAtOnceWhatIsTried(t *testing.T) {
	var log lockedBuffer
	ctx, stop := context.WithCancel(context.Background())
	err := agent.Run(ctx, agent.Config{
		ID: "a1", URL: "amqp://user:canary-password@127.0.0.1:1/team?cacertfile=canary-file",
		Logger: slog.New(firstLine{slog.NewTextHandler(&log, nil), stop}),
	}, work(0))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(log.String(), "\n")
	if !strings.Contains(first, `msg="connecting to the broker" agent_id=a1 broker=amqp://127.0.0.1:1/team`) {
		t.Errorf("the first line is %s", first)
	}
	if strings.Contains(log.String(), "canary") {
		t.Errorf("the log has parts of the URL that must stay secret:\n%s", log.String())
	}
}

// door is a broker that counts connections.
type door struct {
	bus.Bus
	knocks *atomic.Int64
}

func (d door) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	d.knocks.Add(1)
	return d.Bus.Open(ctx, spec)
}

// A refused password is not tried a second time without the control queue: brokers
// take seconds for each, log it, and may lock the account.
func TestRefusedLoginIsOneTry(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		knocks int64 // before the first pause
	}{
		{"a wrong password", bus.ErrLogin, 1},
		{"no permission, perhaps for the control queue alone", bus.ErrAccess, 2},
		{"away", errors.New("connection refused"), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.broker.SetOpenError(tt.err)
				var knocks atomic.Int64
				c := r.config()
				c.Bus = door{r.broker, &knocks}
				r.runWith(c, work(0)) // until it waits
				if n := knocks.Load(); n != tt.knocks {
					t.Errorf("%d tries, want %d", n, tt.knocks)
				}
				r.expectLog("another try follows", 1)
			})
		})
	}
}

// Back-off: 250 ms doubling to 15 s, with full jitter. In 10 minutes that makes
// about 600 / 7.5 = 80 tries; 30 to 160 leaves chance its room.
func TestReconnectsForEver(t *testing.T) {
	inRig(t, func(r *rig) {
		r.broker.SetOpenError(fmt.Errorf("wrong password: %w", errors.New("refused")))
		r.run(1, work(0))
		r.pass(10 * time.Minute)
		if n := countLog(r, "another try follows"); n < 30 || n > 160 {
			t.Errorf("%d tries in 10 minutes, want 30 to 160", n)
		}
		r.broker.SetOpenError(nil)
		r.give("t")
		r.pass(15 * time.Second)
		r.expect("t succeeded")
	})
}

// Only a session that lasted (30 s) has the pauses begin at 250 ms again.
func TestBackoffStartsAnewAfterALongSession(t *testing.T) {
	inRig(t, func(r *rig) {
		r.broker.SetOpenError(errors.New("away"))
		r.run(1, work(0))
		r.pass(5 * time.Minute) // pauses of up to 15 s by now
		r.broker.SetOpenError(nil)
		r.pass(15*time.Second + 30*time.Second)
		r.cut()
		r.pass(reconnect)
		r.give("t")
		r.expect("t succeeded")
	})
}
