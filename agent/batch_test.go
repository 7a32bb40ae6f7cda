package agent_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent"
	"taskbus/messages"
)

// runBatches starts the agent a1 with a batch handler.
func (r *rig) runBatches(slots int, handle agent.BatchHandler) *running {
	r.t.Helper()
	c := r.config()
	c.Slots = slots
	ctx, stop := context.WithCancel(context.Background())
	a := &running{stop: stop, done: make(chan error, 1)}
	go func() { a.done <- agent.RunBatches(ctx, c, handle) }()
	r.agents = append(r.agents, a)
	synctest.Wait()
	return a
}

// giveOf publishes some of the dispatches of a batch that has so many.
func (r *rig) giveOf(batch string, size int, tasks ...string) {
	r.t.Helper()
	for _, task := range tasks {
		d := dispatch(task)
		d.BatchID, d.BatchSize = batch, size
		r.send(d, nil)
	}
}

// giveBatch publishes all dispatches of a batch.
func (r *rig) giveBatch(tasks ...string) { r.giveOf(tasks[0]+".1", len(tasks), tasks...) }

// seen notes the batches that a handler gets, and when.
type seen struct {
	mu    sync.Mutex
	begun time.Time
	list  []string
}

func (s *seen) note(batch []*agent.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, len(batch))
	for i, m := range batch {
		ids[i] = m.ID
	}
	s.list = append(s.list, fmt.Sprint(time.Since(s.begun), " ", ids))
}

func (s *seen) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.list, want) {
		t.Errorf("batches %q, want %q", s.list, want)
	}
}

// noting is a batch handler that takes so long and has done everything then.
func noting(s *seen, took time.Duration) agent.BatchHandler {
	s.begun = time.Now()
	return func(ctx context.Context, batch []*agent.Member) error {
		s.note(batch)
		select {
		case <-time.After(took):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestBatchArrivesAsOneSlice(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		r.runBatches(10, noting(&s, time.Second))
		tasks := strings.Fields("t0 t1 t2 t3 t4 t5 t6 t7 t8 t9")
		r.giveBatch(tasks...)
		s.expect(t, "0s [t0 t1 t2 t3 t4 t5 t6 t7 t8 t9]")
		r.pass(time.Second)
		r.expect(strings.Join(tasks, " succeeded, ") + " succeeded")
		r.settled(0, 0)
		for _, m := range r.results() {
			if m.DurationMS != 1000 || m.DispatchID != string(m.TaskID)+".1" || m.TaskResult.CorrelationID != "trace-"+
				string(m.TaskID) {
				t.Errorf("%+v", m.TaskResult)
			}
		}
	})
}

// What is missing is waited for until 100 ms after the latest arrival; what comes
// after that is a batch of its own.
func TestBatchOfWhichSomeAreMissing(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		r.runBatches(4, noting(&s, time.Second))
		r.giveOf("t1.1", 3, "t1")
		r.pass(80 * time.Millisecond)
		r.giveOf("t1.1", 3, "t2")
		r.pass(100*time.Millisecond - 1)
		s.expect(t)
		r.pass(1)
		s.expect(t, "180ms [t1 t2]") // 80 + 100 ms
		r.giveOf("t1.1", 3, "t3")
		r.pass(100 * time.Millisecond)
		s.expect(t, "180ms [t1 t2]", "280ms [t3]")
	})
}

// An agent has fewer slots than the coordinator believes: more than these cannot come
// before some have ended.
func TestBatchLargerThanTheSlots(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		r.runBatches(2, noting(&s, time.Second))
		r.giveBatch("t1", "t2", "t3")
		s.expect(t, "0s [t1 t2]")
		r.pass(1100 * time.Millisecond)
		s.expect(t, "0s [t1 t2]", "1.1s [t3]")
	})
}

func TestTaskAloneIsABatchOfOne(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		r.runBatches(2, noting(&s, time.Second))
		r.give("t1", "t2", "t3")
		s.expect(t, "0s [t1]", "0s [t2]")
		r.pass(time.Second)
		s.expect(t, "0s [t1]", "0s [t2]", "1s [t3]")
		r.pass(time.Second)
		r.expect("t1 succeeded, t2 succeeded, t3 succeeded")
	})
}

func TestPlainHandlerGetsMembersOneByOne(t *testing.T) {
	inRig(t, func(r *rig) {
		var mu sync.Mutex
		var got []string
		r.run(3, func(_ context.Context, task *agent.Task) (agent.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(task.ID, " ", task.BatchID, " ", task.BatchSize))
			return agent.Result{}, nil
		})
		r.giveOf("t1.1", 3, "t1", "t2") // the third never comes
		if want := []string{"t1 t1.1 3", "t2 t1.1 3"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		r.expect("t1 succeeded, t2 succeeded")
	})
}

// unreadable is an error whose text cannot be had.
type unreadable struct{}

func (*unreadable) Error() string { panic("no text") }

// What a task is given counts; what the handler returns is for the others.
func TestOutcomesOfABatch(t *testing.T) {
	some := func(batch []*agent.Member) {
		batch[0].Finish(agent.Result{Usage: &agent.Usage{Requests: 2}}, nil)
		batch[0].Finish(agent.Result{}, errors.New("too late: the first call counts"))
		batch[1].Finish(agent.Result{}, errors.New("an empty input"))
		batch[2].Finish(agent.Result{}, agent.Reject("no such model"))
	}
	const own = "t1 succeeded, t2 failed, t3 rejected, "
	for _, tt := range []struct {
		name string
		ends func(batch []*agent.Member) error
		want string
		back []string
	}{
		{"nil: the others have succeeded", func([]*agent.Member) error { return nil }, own + "t4 succeeded, t5 succeeded",
			[]string{"t3"}},
		{"an error fails the others", func([]*agent.Member) error { return errors.New("no luck") },
			own + "t4 failed, t5 failed", []string{"t3"}},
		{"to give up gives the others back", func([]*agent.Member) error { return agent.Retry(errors.New("out of memory")) },
			own + "t4 rejected+attempted, t5 rejected+attempted", []string{"t3", "t4", "t5"}},
		{"so does a panic", func([]*agent.Member) error { panic("no luck") },
			own + "t4 rejected+attempted, t5 rejected+attempted", []string{"t3", "t4", "t5"}},
		{"and an error that cannot be read", func([]*agent.Member) error { return (*unreadable)(nil) },
			own + "t4 rejected+attempted, t5 rejected+attempted", []string{"t3", "t4", "t5"}},
		{"and the end of its goroutine", func([]*agent.Member) error { runtime.Goexit(); return nil },
			own + "t4 rejected+attempted, t5 rejected+attempted", []string{"t3", "t4", "t5"}},
		{"an error of one that cannot be read is that one's", func(batch []*agent.Member) error {
			batch[3].Finish(agent.Result{}, (*unreadable)(nil))
			return nil
		}, own + "t4 rejected+attempted, t5 succeeded", []string{"t3", "t4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				r.runBatches(5, func(_ context.Context, batch []*agent.Member) error {
					some(batch)
					return tt.ends(batch)
				})
				r.giveBatch("t1", "t2", "t3", "t4", "t5")
				r.expect(tt.want)
				r.settled(0, 0, tt.back...)
				if u := r.results()[0].Usage; u == nil || u.Requests != 2 {
					t.Errorf("the usage of t1 is %+v", u)
				}
			})
		})
	}
}

// A task that has its outcome is told of at once, and its slot is another's while the
// handler goes on with the rest.
func TestFinishFreesTheSlot(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		s.begun = time.Now()
		r.runBatches(2, func(_ context.Context, batch []*agent.Member) error {
			s.note(batch)
			time.Sleep(time.Second)
			batch[0].Finish(agent.Result{}, nil)
			if batch[0].Context().Err() == nil {
				t.Error("the Context of a task that has ended has not")
			}
			time.Sleep(4 * time.Second)
			return nil
		})
		r.giveBatch("t1", "t2")
		r.give("t3")
		r.pass(2500 * time.Millisecond) // t3 has been listed after a second
		r.expect("t1 succeeded, t3 succeeded")
		s.expect(t, "0s [t1 t2]", "1s [t3]")
		r.pass(10 * time.Second)
		r.expect("t1 succeeded, t2 succeeded, t3 succeeded")
	})
}

// To withdraw one task of a batch ends its Context alone; the ctx of the batch ends
// when none is left.
func TestWithdrawOneOfABatch(t *testing.T) {
	inRig(t, func(r *rig) {
		ended := make(chan string, 4)
		r.runBatches(2, func(ctx context.Context, batch []*agent.Member) error {
			<-batch[1].Context().Done()
			ended <- fmt.Sprint(context.Cause(batch[1].Context()), ", ", batch[0].Context().Err(), ", ", ctx.Err())
			batch[1].Finish(agent.Result{}, context.Cause(batch[1].Context()))
			<-ctx.Done()
			ended <- context.Cause(ctx).Error()
			return ctx.Err()
		})
		r.giveBatch("t1", "t2")
		r.withdraw(messages.TaskCancel{TaskID: "t2", Reason: "over"})
		if got, want := <-ended, "the task was withdrawn: over, <nil>, <nil>"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		r.expect("t2 cancelled")
		r.pass(10 * time.Second) // the deadline of t1
		if got, want := <-ended, agent.ErrDeadline.Error(); got != want {
			t.Errorf("the batch's ctx ended for %q, want %q", got, want)
		}
		r.expect("t1 failed, t2 cancelled")
		r.settled(0, 0)
	})
}

// A handler that does not return is not waited for, task by task; each keeps its slot.
func TestBatchHandlerThatDoesNotReturn(t *testing.T) {
	inRig(t, func(r *rig) {
		r.runBatches(3, func(_ context.Context, batch []*agent.Member) error {
			if len(batch) == 2 {
				time.Sleep(time.Hour)
			}
			return nil
		})
		r.giveBatch("t1", "t2")
		r.pass(9 * time.Second)
		r.withdraw(messages.TaskCancel{TaskID: "t2"})
		r.pass(1500 * time.Millisecond) // 10 s and the grace of half a second
		r.expect("t1 failed")
		r.pass(3500 * time.Millisecond) // 5 s after it was withdrawn
		r.expect("t1 failed, t2 cancelled")
		r.giveBatch("t3", "t4") // there is one slot
		r.pass(time.Second)
		r.expect("t1 failed, t2 cancelled, t3 succeeded, t4 succeeded")
		r.pass(10 * time.Second)
		r.expectActive("ready [t1 t2]")
	})
}

func TestWithdrawWhileABatchIsCollected(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		r.runBatches(3, noting(&s, time.Second))
		r.giveOf("t1.1", 3, "t1", "t2")
		r.withdraw(messages.TaskCancel{TaskID: "t1"})
		r.expect("t1 cancelled")
		r.giveOf("t1.1", 3, "t3") // all have come
		s.expect(t, "0s [t2 t3]")
	})
}

// What the broker delivers again after a lost session is collected anew.
func TestSessionLostWhileABatchIsCollected(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		r.runBatches(3, noting(&s, 0))
		r.giveOf("t1.1", 3, "t1", "t2")
		r.cut()
		r.giveOf("t1.1", 3, "t3")
		r.pass(time.Minute)
		if len(s.list) != 1 || !strings.HasSuffix(s.list[0], " [t1 t2 t3]") {
			t.Errorf("batches %q, want one of three", s.list)
		}
		r.expect("t1 succeeded, t2 succeeded, t3 succeeded")
		r.settled(0, 0)
	})
}

// One of the batch is delivered again when it has run: its result goes out again, and
// the others are not waited for.
func TestCopyOfOneOfABatch(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		r.runBatches(2, noting(&s, time.Second))
		r.giveBatch("t1", "t2")
		r.pass(500 * time.Millisecond)
		r.cut() // in mid-work: the broker delivers both again
		r.pass(time.Minute)
		r.expect("t1 succeeded, t2 succeeded")
		d := dispatch("t2")
		d.BatchID, d.BatchSize = "t1.1", 2
		r.send(d, map[string]any{"x-taskbus-maybe-duplicate": true})
		r.expect("t1 succeeded, t2 succeeded, t2 succeeded")
		r.settled(0, 0)
		s.expect(t, "0s [t1 t2]")
	})
}

func TestDrainOfABatch(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		a := r.runBatches(4, noting(&s, time.Second))
		r.giveBatch("t1", "t2")
		r.giveOf("t3.1", 3, "t3")
		a.stop()
		synctest.Wait()
		r.expect("t3 rejected") // it had not begun
		r.pass(time.Second)
		r.expect("t1 succeeded, t2 succeeded, t3 rejected")
		r.settled(0, 0, "t3")
	})
}

// The deadline of one is over before its batch is complete.
func TestDeadlineWhileABatchIsCollected(t *testing.T) {
	inRig(t, func(r *rig) {
		var s seen
		r.runBatches(3, noting(&s, 0))
		d := dispatch("t1")
		d.Task.Deadline, d.BatchID, d.BatchSize = time.Now().Add(50*time.Millisecond), "t1.1", 3
		r.send(d, nil)
		r.giveOf("t1.1", 3, "t2")
		r.pass(100 * time.Millisecond)
		s.expect(t, "100ms [t2]")
		r.expect("t1 rejected, t2 succeeded")
	})
}

func TestRunBatchesNeedsAHandler(t *testing.T) {
	err := agent.RunBatches(t.Context(), agent.Config{ID: "a1", URL: "amqp://u:p@h/"}, nil)
	if err == nil || !strings.Contains(err.Error(),
		"agent.RunBatches: the configuration cannot be used: there is no Handler") {
		t.Errorf("got %v", err)
	}
}
