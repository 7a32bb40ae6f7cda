package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
)

// progress is all that has been reported: percent, message and data.
func (r *rig) progress() (all []string) {
	r.t.Helper()
	for _, d := range r.broker.Messages(bus.QueueProgress) {
		m, refusal := r.decoder.DecodeTaskProgress(d.Body)
		if refusal != nil {
			r.t.Fatalf("an invalid task.progress: %s\n%s", refusal.Text, d.Body)
		}
		r.checkWay(d, bus.QueueProgress, m.AgentID)
		percent := "-"
		if m.Percent != nil {
			percent = fmt.Sprint(*m.Percent)
		}
		all = append(all, strings.TrimSpace(fmt.Sprint(m.DispatchID, " ", percent, " ", m.Message, " ", string(m.Data))))
	}
	return all
}

// The first report goes out at once, then the latest of each 200 ms; what is not told when the task ends is not told
// any more: here a report each 50 ms for a second, of which those at 0, 200, 400, … have the rest in between.
func TestProgressIsTheLatest(t *testing.T) {
	inRig(t, func(r *rig) {
		r.run(1, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
			for i := range 20 {
				if err := task.ProgressData(ctx, float64(5*i), "at work", map[string]int{"i": i}); err != nil {
					t.Error(err)
				}
				time.Sleep(50*time.Millisecond - time.Microsecond)
			}
			return agent.Result{}, nil
		})
		r.give("t")
		r.pass(30 * time.Second)
		r.expect("t succeeded")
		want := []string{`t.1 0 at work {"i":0}`, `t.1 20 at work {"i":4}`, `t.1 40 at work {"i":8}`,
			`t.1 60 at work {"i":12}`, `t.1 80 at work {"i":16}`}
		if got := r.progress(); !slices.Equal(got, want) {
			t.Errorf("reported %q\nwant     %q", got, want)
		}
	})
}

// Work that reports has its 10 s anew each time: it ends with its ctx 10 s after the last report. The ctx says so, as
// do those that are made of it.
func TestProgressGivesTime(t *testing.T) {
	inRig(t, func(r *rig) {
		begun := time.Now()
		r.run(1, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
			inner, stop := context.WithCancel(ctx)
			defer stop()
			for range 5 {
				time.Sleep(8 * time.Second)
				if err := task.Progress(ctx, 50, ""); err != nil {
					t.Error(err)
				}
			}
			<-inner.Done()
			if !errors.Is(inner.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(inner), agent.ErrDeadline) {
				t.Errorf("%v, because of %v", inner.Err(), context.Cause(inner))
			}
			if err := task.Progress(ctx, 50, ""); !errors.Is(err, agent.ErrDeadline) {
				t.Errorf("then a report gives %v", err)
			}
			if until, _ := ctx.Deadline(); until.Sub(begun) != 50*time.Second {
				t.Errorf("it ended after %v", until.Sub(begun))
			}
			return agent.Result{}, ctx.Err()
		})
		r.give("t")
		r.pass(50*time.Second - 1) // 5 × 8 s + 10 s
		r.expect("")
		r.pass(1)
		r.expect("t failed")
	})
}

// Where no queue takes a report, the coordinator is older and knows nothing of it: the handler hears of no error, and
// has no more time.
func TestProgressWithAnOlderCoordinator(t *testing.T) {
	inRig(t, func(r *rig) {
		r.broker.DeleteQueue(bus.QueueProgress)
		r.run(1, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
			time.Sleep(8 * time.Second)
			if err := task.Progress(ctx, 50, ""); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		})
		r.give("t")
		r.pass(10 * time.Second)
		r.expect("t failed")
	})
}

// What cannot be told is an error, and what is no number is not told.
func TestProgressThatCannotBeTold(t *testing.T) {
	inRig(t, func(r *rig) {
		var kept *agent.Task
		r.run(1, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
			kept = task
			for _, data := range []any{[]int{1}, "text", make(chan int), map[string]string{"a": strings.Repeat("x", 4096)}} {
				if task.ProgressData(ctx, 1, "", data) == nil {
					t.Errorf("data of type %T is taken", data)
				}
			}
			if err := task.Progress(ctx, math.NaN(), strings.Repeat("ä", 600)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			if err := task.Progress(ctx, 200, ""); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			return agent.Result{}, nil
		})
		r.give("t")
		r.pass(30 * time.Second)
		got := r.progress()
		if len(got) != 2 || !strings.HasPrefix(got[0], "t.1 - ää") || got[1] != "t.1 100" {
			t.Errorf("reported %q", got)
		}
		if kept.Progress(context.Background(), 1, "") == nil {
			t.Error("a task that has ended goes on")
		}
	})
}
