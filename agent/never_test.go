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

// Whatever happens to sessions, confirms, and tasks, in whatever order: no dispatch
// runs twice in one process, none is acknowledged before its result is confirmed,
// each ends with one verdict, and in the end the queue is empty.
func TestNever(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) { neverIn(t, rt) })
	})
}

func neverIn(t *testing.T, rt *rapid.T) {
	r := newRig(t, "agent.a1")
	var worked calls
	slots := rapid.IntRange(1, 3).Draw(rt, "slots")
	c := r.config()
	c.Slots, c.Interval = slots, time.Minute
	a := r.runWith(c, func(ctx context.Context, task *agent.Task) (agent.Result, error) {
		worked.add(task.ID)
		defer worked.end()
		switch task.ID[0] {
		case 'q': // quick
			return agent.Result{}, nil
		case 'w': // works for 3 s
			return work(3*time.Second)(ctx, task)
		case 'h': // hangs for 20 s
			time.Sleep(20 * time.Second)
			return agent.Result{}, nil
		case 'r':
			return agent.Result{}, agent.Reject("no")
		default:
			panic("boom")
		}
	})
	var given []string
	some := func() string { return given[rapid.IntRange(0, len(given)-1).Draw(rt, "which")] }
	for _, step := range rapid.SliceOfN(rapid.SampledFrom([]string{"q", "w", "h", "r", "p", "copy", "withdraw", "cut", "away", "withhold", "heal", "wait"}), 1, 25).Draw(rt, "steps") {
		switch step {
		case "q", "w", "h", "r", "p":
			id := fmt.Sprint(step, len(given)+1)
			given = append(given, id)
			r.give(id)
		case "copy":
			if len(given) > 0 {
				r.give(some())
			}
		case "withdraw":
			if len(given) > 0 {
				p := busPublication(bus.ExchangeControl, "a1", fmt.Sprintf(`{"message_type":"task.cancel","task_id":%q}`, some()))
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
		}
		synctest.Wait()
	}
	r.broker.SetConfirm(nil)
	r.cut() // what was withheld is unknown now
	r.pass(10 * time.Minute)

	verdicts := map[messages.TaskID]messages.TaskResult{}
	for _, m := range r.results() {
		first, known := verdicts[m.TaskID]
		if known && (first.Outcome != m.Outcome || !first.Timestamp.Equal(m.TaskResult.Timestamp)) {
			rt.Errorf("%s: two verdicts, %s and %s", m.TaskID, first.Outcome, m.Outcome)
		}
		verdicts[m.TaskID] = m.TaskResult
	}
	for _, id := range given {
		if n := worked.of(id); n > 1 {
			rt.Errorf("%s was begun %d times", id, n)
		}
		if _, ended := verdicts[messages.TaskID(id)]; !ended {
			rt.Errorf("%s never ended", id)
		}
	}
	if worked.most > slots {
		rt.Errorf("%d handlers at once with %d slots", worked.most, slots)
	}
	if n := len(r.broker.Messages("agent.a1")) + r.broker.Unacked("agent.a1"); n != 0 {
		rt.Errorf("%d messages are left in the queue", n)
	}
	a.stop()
	if err := <-a.done; err != nil {
		rt.Error(err)
	}
	_ = r.outside.Close(context.Background())
}
