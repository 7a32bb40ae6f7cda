package agent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// step is one thing that happens; which chooses among the tasks given before.
type step struct {
	what  string
	which int
}

// Whatever happens to sessions, confirms and tasks, in whatever order: no task runs
// beside itself, none twice but for a dispatch that asks for it, no dispatch has two
// verdicts, there are never more handlers than slots, every dispatch ends, and in the
// end the queue is empty.
func TestNever(t *testing.T) {
	what := rapid.SampledFrom([]string{
		"quick", "works", "hangs", "rejects", "panics", "copy", "anew", "next", "withdraw", "cut", "away", "withhold", "heal",
		"wait",
	})
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{what.Draw(t, "what"), rapid.IntRange(0, 9).Draw(t, "which")}
	}), 1, 25)
	rapid.Check(t, func(rt *rapid.T) {
		slots, steps := rapid.IntRange(1, 3).Draw(rt, "slots"), steps.Draw(rt, "steps")
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = play(t, slots, steps) })
		for _, fault := range faults {
			rt.Error(fault)
		}
	})
}

// play says what happened that must not.
func play(t *testing.T, slots int, steps []step) (faults []string) {
	r := newRig(t, "agent.a1")
	defer r.close()
	var worked calls
	c := r.config()
	c.Slots, c.Interval = slots, time.Minute
	var beside calls
	r.runWith(c, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
		worked.add(task.ID)
		defer worked.end()
		defer beside.enter(task.ID)()
		switch task.ID[0] {
		case 'q':
			return agent.Result{}, nil
		case 'w':
			return work(3*time.Second)(ctx, task)
		case 'h': // twice its time
			time.Sleep(20 * time.Second)
			return agent.Result{}, nil
		case 'r':
			return agent.Result{}, agent.Reject("no")
		default:
			panic("boom")
		}
	})
	var given []string
	more := map[string]int{}  // dispatches of a task that are no copies, after the first
	anew := map[string]bool{} // tasks that have had a second life under their dispatch id
	for _, s := range steps {
		switch s.what {
		case "copy":
			if len(given) > 0 {
				r.giveAgain(given[s.which%len(given)])
			}
		case "anew":
			if len(given) > 0 {
				id := given[s.which%len(given)]
				more[id]++
				anew[id] = true
				r.give(id)
			}
		case "next":
			if len(given) > 0 {
				id := given[s.which%len(given)]
				more[id]++
				r.giveAttempt(id, more[id]+1)
			}
		case "withdraw":
			if len(given) > 0 {
				p := busPublication(bus.ExchangeControl, "a1", fmt.Sprintf(`{"message_type":"task.cancel","task_id":%q}`,
					given[s.which%len(given)]))
				p.Optional = true // there may be no session to hear it
				r.publish(p)
			}
		case "cut":
			r.cut()
		case "away":
			r.broker.SetOpenError(errors.New("away"))
			r.broker.Cut()
			r.pass(4 * time.Second)
			r.broker.SetOpenError(nil)
			r.cut()
		case "withhold":
			r.broker.SetConfirm(withhold(bus.StreamResult))
		case "heal":
			r.broker.SetConfirm(nil)
			r.broker.ReleaseConfirms()
		case "wait":
			r.pass(2 * time.Second)
		default:
			given = append(given, fmt.Sprint(s.what, len(given)))
			r.give(given[len(given)-1])
		}
		synctest.Wait()
	}
	r.broker.SetConfirm(nil)
	r.cut() // what was withheld is unknown now
	r.pass(10 * time.Minute)

	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	verdicts, ended := map[string]messages.TaskResult{}, map[messages.TaskID]bool{}
	for _, m := range r.results() {
		id := m.TaskResult.DispatchID
		first, known := verdicts[id]
		if known && !anew[string(m.TaskID)] &&
			(first.Outcome != m.Outcome || !first.Timestamp.Equal(m.TaskResult.Timestamp)) {
			fault("%s: two verdicts, %s and %s", id, first.Outcome, m.Outcome)
		}
		verdicts[id], ended[m.TaskID] = m.TaskResult, true
	}
	for _, id := range given {
		if n := worked.of(id); n > 1+more[id] {
			fault("%s was begun %d times, with %d dispatches", id, n, 1+more[id])
		}
		if !ended[messages.TaskID(id)] {
			fault("%s never ended", id)
		}
		for attempt := range more[id] {
			if next := fmt.Sprintf("%s.%d", id, attempt+2); !anew[id] && verdicts[next].Outcome == "" {
				fault("%s never ended", next)
			}
		}
	}
	if beside.most > 1 {
		fault("a task was begun beside itself")
	}
	if worked.most > slots {
		fault("%d handlers at once with %d slots", worked.most, slots)
	}
	if n := len(r.broker.Messages("agent.a1")) + r.broker.Unacked("agent.a1"); n != 0 {
		fault("%d messages are left in the queue", n)
	}
	return faults
}
