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

// Whatever happens to sessions, confirms and tasks, in whatever order: no dispatch
// runs twice in one process, none has two verdicts, there are never more handlers
// than slots, every dispatch ends, and in the end the queue is empty.
func TestNever(t *testing.T) {
	what := rapid.SampledFrom([]string{
		"quick", "works", "hangs", "rejects", "panics", "copy", "withdraw", "cut", "away", "withhold", "heal", "wait",
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
	r.runWith(c, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
		worked.add(task.ID)
		defer worked.end()
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
	for _, s := range steps {
		switch s.what {
		case "copy":
			if len(given) > 0 {
				r.give(given[s.which%len(given)])
			}
		case "withdraw":
			if len(given) > 0 {
				p := busPublication(bus.ExchangeControl, "a1", fmt.Sprintf(`{"message_type":"task.cancel","task_id":%q}`, given[s.which%len(given)]))
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
	verdicts := map[messages.TaskID]messages.TaskResult{}
	for _, m := range r.results() {
		first, known := verdicts[m.TaskID]
		if known && (first.Outcome != m.Outcome || !first.Timestamp.Equal(m.TaskResult.Timestamp)) {
			fault("%s: two verdicts, %s and %s", m.TaskID, first.Outcome, m.Outcome)
		}
		verdicts[m.TaskID] = m.TaskResult
	}
	for _, id := range given {
		if n := worked.of(id); n > 1 {
			fault("%s was begun %d times", id, n)
		}
		if _, ended := verdicts[messages.TaskID(id)]; !ended {
			fault("%s never ended", id)
		}
	}
	if worked.most > slots {
		fault("%d handlers at once with %d slots", worked.most, slots)
	}
	if n := len(r.broker.Messages("agent.a1")) + r.broker.Unacked("agent.a1"); n != 0 {
		fault("%d messages are left in the queue", n)
	}
	return faults
}
