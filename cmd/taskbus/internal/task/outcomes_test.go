package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/schemas"
	"taskbus/tests/support/clitest"
	"taskbus/tests/support/membus"
)

// ends has what is published end as its id says: t-ok-N and t-bad-N at an agent, t-none-N without one, others never.
// Each end is told twice, as after a fault.
func ends(t *testing.T, r *clitest.Rig) {
	t.Helper()
	s, err := r.Broker.Open(t.Context(), bus.SessionSpec{Topology: bus.Topology{Mode: bus.Off},
		OnSettled: func(uint64, bus.Outcome) {}})
	if err != nil {
		t.Fatal(err)
	}
	handle := func(d bus.Delivery) {
		s.Ack(d.Tag)
		id := d.MessageID
		completed := `{"message_type":"task.completed","task_id":%q,"correlation_id":"c","agent_id":"a1","outcome":%q,` +
			`"attempt":1,"timestamp":"2026-11-21T09:48:10Z"%s}`
		body, kind := "", schemas.TaskCompleted
		switch strings.Split(id, "-")[1] {
		case "ok":
			body = fmt.Sprintf(completed, id, "succeeded", `,"output":{"n":[1, 2]}`)
		case "bad":
			body = fmt.Sprintf(completed, id, "failed", `,"error":"no such page"`)
		case "none":
			kind = schemas.AssignmentFailed
			body = fmt.Sprintf(`{"message_type":"assignment.failed","task_id":%q,"correlation_id":"c",`+
				`"reason":"all are full","retry_possible":true,"suggested_action":"wait",`+
				`"reason_code":"all_agents_at_capacity","attempts":0,`+
				`"failed_at":"2026-11-21T09:48:10Z"}`, id)
		default:
			return
		}
		for range 2 {
			err := s.Publish(bus.Publication{Key: d.ReplyTo, Optional: true, Body: []byte(body),
				Properties: bus.Properties{Type: kind}})
			if err != nil {
				t.Error(err)
			}
		}
	}
	err = s.Subscribe(t.Context(), bus.Subscription{Queue: bus.QueueAssign, Prefetch: 10, Handle: handle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
}

// The run ends when each task has, with a line for each; it fails if one has failed.
func TestSubmitWaits(t *testing.T) {
	for _, tc := range []struct {
		input []string
		code  int
		out   []string
	}{
		{[]string{"t-ok-1"}, cli.ExitOK, []string{`t-ok-1  succeeded  a1  {"n":[1, 2]}`, "1 line, 0 refused, 1 confirmed"}},
		{[]string{"t-ok-1", "t-bad-2", "t-none-3"}, cli.ExitFailed, []string{`t-ok-1  succeeded  a1  {"n":[1, 2]}`,
			"t-bad-2  failed  a1  no such page", "t-none-3  failed  all_agents_at_capacity: all are full"}},
		{[]string{"t-ok-1", "t-ok-1"}, cli.ExitOK, []string{"t-ok-1  succeeded"}}, // one task, and one end
		{nil, cli.ExitOK, []string{"0 lines"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			withQueues(t, r)
			ends(t, r)
			var lines []string
			for _, id := range tc.input {
				lines = append(lines, task(id))
			}
			r.In = strings.NewReader(strings.Join(lines, "\n"))
			if code := r.Run(t, "submit", "--wait", "-"); code != tc.code {
				t.Errorf("%v: exit code %d, want %d; %s%s", tc.input, code, tc.code, r.Out.String(), r.Err.String())
			}
			for _, want := range tc.out {
				if n := strings.Count(r.Out.String(), want); n != 1 {
					t.Errorf("%v: %q comes %d times in\n%s", tc.input, want, n, r.Out.String())
				}
			}
		})
	}
}

// With -o json each line is a message as it came, and the last is the summary.
func TestSubmitWaitsInJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		withQueues(t, r)
		ends(t, r)
		r.In = strings.NewReader(task("t-ok-1") + "\n" + task("t-bad-2") + "\n")
		if code := r.Run(t, "submit", "--wait", "-o", "json", "-"); code != cli.ExitFailed {
			t.Errorf("exit code %d", code)
		}
		d := json.NewDecoder(strings.NewReader(r.Out.String()))
		var first, second struct {
			TaskID string          `json:"task_id"`
			Output json.RawMessage `json:"output"`
		}
		var sum submissionSummary
		for _, into := range []any{&first, &second, &sum} {
			if err := d.Decode(into); err != nil {
				t.Fatalf("%v in %s", err, r.Out.String())
			}
		}
		if first.TaskID != "t-ok-1" || string(first.Output) != `{"n":[1,2]}` || second.TaskID != "t-bad-2" ||
			sum.Outcomes == nil || *sum.Outcomes != (outcomeSummary{Succeeded: 1, Failed: 1}) {
			t.Errorf("%+v, %+v, %+v", first, second, sum.Outcomes)
		}
	})
}

// What the broker has not taken is not waited for; what never ends is, until a signal, and counts as a fault.
func TestSubmitStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		withQueues(t, r)
		ends(t, r)
		r.Broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.MessageID == "t-never-1" {
				return membus.Nack
			}
			return membus.Answer
		})
		r.In = strings.NewReader(task("t-never-1") + "\n" + task("t-never-2") + "\n" + task("t-ok-3") + "\n")
		go func() {
			synctest.Wait()
			r.Signals <- syscall.SIGINT
		}()
		if code := r.Run(t, "submit", "--wait", "-"); code != cli.ExitFailed {
			t.Errorf("exit code %d", code)
		}
		if text := r.Err.String(); !strings.Contains(text, "stopped by a signal; 1 task without an outcome") ||
			!strings.Contains(text, "line 1: not confirmed") {
			t.Errorf("stderr %s", text)
		}
		if !strings.Contains(r.Out.String(), "t-ok-3  succeeded") {
			t.Errorf("stdout %s", r.Out.String())
		}
	})
}

func TestSubmitWaitsForTasksOnly(t *testing.T) {
	for _, flag := range []string{"--raw", "--validate-only"} {
		if r := newRig(); r.Run(t, "submit", "--wait", flag, "-") != cli.ExitUsage ||
			!strings.Contains(r.Err.String(), "--wait goes with neither") {
			t.Errorf("%s: %s", flag, r.Err.String())
		}
	}
}
