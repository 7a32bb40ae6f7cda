package task

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// deadSource is a coordinator with messages in task.dead.
type deadSource struct {
	clitest.FixedSource
	all *[]view.DeadMessage
}

func newDeadSource() deadSource {
	return deadSource{all: &[]view.DeadMessage{
		{Key: "00000000000000a1", ReasonCode: "invalid_message", Reason: "/priority: must be <= 3 but found 9",
			SourceQueue: "task.assign", ResendTo: "task.assign", MessageType: "task.assign", TaskID: "t-1",
			TaskType: "translate", AppID: "shop", Bytes: 120, Timestamp: clitest.Noon},
		{Key: "00000000000000b2", ReasonCode: "poisoned", Reason: "it failed on 3 different agents",
			SourceQueue: "task.reassign", ResendTo: "task.assign", MessageType: "task.dispatch", TaskID: "t-2",
			TaskType: "translate", Bytes: 300, Timestamp: clitest.Noon},
		{Key: "00000000000000c3", ReasonCode: "invalid_message", Reason: "not valid JSON", SourceQueue: "agent.x",
			ResendNot: "it is neither a task nor a request", Bytes: 7},
	}}
}

func (s deadSource) DeadLetters(_ context.Context, f view.DeadFilter) (l view.DeadList, err error) {
	l.Scanned = len(*s.all)
	for _, m := range *s.all {
		if (f.Reason == "" || f.Reason == m.ReasonCode) && (f.Type == "" || f.Type == m.TaskType) &&
			(f.ID == "" || f.ID == m.TaskID || f.ID == m.Key) {
			if l.Matched++; l.Matched <= f.Limit {
				l.Messages = append(l.Messages, m)
			}
		}
	}
	return l, nil
}

func (s deadSource) DeadLetter(_ context.Context, key string, body bool) (view.DeadMessage, bool, error) {
	for _, m := range *s.all {
		if m.Key == key {
			if body {
				m.Body = `{"payload":{"secret":1}}`
			}
			return m, true, nil
		}
	}
	return view.DeadMessage{}, false, nil
}

func (s deadSource) ResendDead(ctx context.Context, keys []string) (done view.DeadDone, err error) {
	for _, key := range keys {
		m, found, _ := s.DeadLetter(ctx, key, false)
		if !found {
			return done, errors.New("unknown key")
		}
		if m.ResendTo == "" {
			done.Kept = append(done.Kept, view.DeadKept{Key: key, Why: m.ResendNot})
			continue
		}
		done.Done = append(done.Done, key)
		*s.all = slices.DeleteFunc(*s.all, func(m view.DeadMessage) bool { return m.Key == key })
	}
	return done, nil
}

func (s deadSource) DropDead(_ context.Context, keys []string) (view.DeadDone, error) {
	*s.all = slices.DeleteFunc(*s.all, func(m view.DeadMessage) bool { return slices.Contains(keys, m.Key) })
	return view.DeadDone{Done: keys}, nil
}

func TestDead(t *testing.T) {
	for _, tc := range []struct {
		args, in string
		code     int
		out, err string // parts of them
		left     int    // in task.dead
	}{
		{"dead ls", "", cli.ExitOK, "00000000000000b2  poisoned", "", 3},
		{"dead ls --limit 1", "", cli.ExitOK, "2 more (--limit)", "", 3},
		{"dead ls --reason expired", "", cli.ExitOK, "none of the 3 messages in task.dead is selected", "", 3},
		{"dead ls --limit 0", "", cli.ExitUsage, "", "--limit must be", 3},
		{"dead show t-1", "", cli.ExitOK, "reason          invalid_message: /priority: must be <= 3 but found 9\n", "", 3},
		{"dead show 00000000000000b2 --payload", "", cli.ExitOK, "{\"payload\":{\"secret\":1}}\n", "", 3},
		{"dead show t-9", "", cli.ExitFailed, "", "nothing of \"t-9\" is in task.dead", 3},
		{"dead resend", "", cli.ExitUsage, "", "say which", 3},
		{"dead resend t-1 --all", "", cli.ExitUsage, "", "not both", 3},
		{"dead resend t-1", "", cli.ExitOK, "1 message sent again\n", "", 2},
		{"dead resend --type translate", "", cli.ExitUsage, "", "give --yes", 3},
		{"dead resend --type translate", "n\n", cli.ExitFailed, "", "nothing was done", 3},
		{"dead resend --type translate", "y\n", cli.ExitOK, "2 messages sent again\n", "resend 2 messages? [y/N]", 1},
		{"dead resend --reason poisoned", "", cli.ExitOK, "1 message sent again\n", "", 2}, // one is not asked about
		{"dead resend --all --yes", "", cli.ExitFailed,
			"00000000000000c3 stays in task.dead: it is neither a task nor a request\n", "", 1},
		{"dead drop t-1 t-9 --yes", "", cli.ExitFailed, "", "Nothing was done", 3},
		{"dead drop --all --yes", "", cli.ExitOK, "3 messages dropped\n", "", 0},
		{"dead drop 00000000000000c3 -o json", "", cli.ExitOK, `"kept": []`, "", 2},
	} {
		t.Run(tc.args+" "+tc.in, func(t *testing.T) {
			r, source := newRig(), newDeadSource()
			r.StartCoordinator(t, source)
			r.Env["TASKBUS_ADMIN_TOKEN"] = clitest.AdminToken
			r.In = strings.NewReader(tc.in)
			code := r.Run(t, strings.Fields(tc.args)...)
			if code != tc.code || !strings.Contains(r.Out.String(), tc.out) || !strings.Contains(r.Err.String(), tc.err) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d, %q, %q", code, r.Out.String(), r.Err.String(), tc.code,
					tc.out, tc.err)
			}
			if len(*source.all) != tc.left {
				t.Errorf("%d messages are left, want %d", len(*source.all), tc.left)
			}
			if !strings.Contains(tc.args, "--payload") && strings.Contains(r.Out.String(), "secret") {
				t.Error("the payload was shown")
			}
		})
	}
}
