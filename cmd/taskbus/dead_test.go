package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator/httpapi"
)

// deadSource is a coordinator with messages in task.dead.
type deadSource struct {
	fixedSource
	all *[]httpapi.DeadMessage
}

func newDeadSource() deadSource {
	return deadSource{all: &[]httpapi.DeadMessage{
		{Key: "00000000000000a1", ReasonCode: "invalid_message", Reason: "/priority: must be <= 3 but found 9",
			SourceQueue: "task.assign", ResendTo: "task.assign", MessageType: "task.assign", TaskID: "t-1",
			TaskType: "translate", AppID: "shop", Bytes: 120, Timestamp: noon},
		{Key: "00000000000000b2", ReasonCode: "poisoned", Reason: "it failed on 3 different agents",
			SourceQueue: "task.reassign", ResendTo: "task.assign", MessageType: "task.dispatch", TaskID: "t-2",
			TaskType: "translate", Bytes: 300, Timestamp: noon},
		{Key: "00000000000000c3", ReasonCode: "invalid_message", Reason: "not valid JSON", SourceQueue: "agent.x",
			ResendNot: "it is neither a task nor a request", Bytes: 7},
	}}
}

func (s deadSource) DeadLetters(_ context.Context, f httpapi.DeadFilter) (l httpapi.DeadList, err error) {
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

func (s deadSource) DeadLetter(_ context.Context, key string, body bool) (httpapi.DeadMessage, bool, error) {
	for _, m := range *s.all {
		if m.Key == key {
			if body {
				m.Body = `{"payload":{"secret":1}}`
			}
			return m, true, nil
		}
	}
	return httpapi.DeadMessage{}, false, nil
}

func (s deadSource) ResendDead(ctx context.Context, keys []string) (done httpapi.DeadDone, err error) {
	for _, key := range keys {
		m, found, _ := s.DeadLetter(ctx, key, false)
		if !found {
			return done, errors.New("unknown key")
		}
		if m.ResendTo == "" {
			done.Kept = append(done.Kept, httpapi.DeadKept{Key: key, Why: m.ResendNot})
			continue
		}
		done.Done = append(done.Done, key)
		*s.all = slices.DeleteFunc(*s.all, func(m httpapi.DeadMessage) bool { return m.Key == key })
	}
	return done, nil
}

func (s deadSource) DropDead(_ context.Context, keys []string) (httpapi.DeadDone, error) {
	*s.all = slices.DeleteFunc(*s.all, func(m httpapi.DeadMessage) bool { return slices.Contains(keys, m.Key) })
	return httpapi.DeadDone{Done: keys}, nil
}

func TestDead(t *testing.T) {
	for _, tc := range []struct {
		args, in string
		code     int
		out, err string // parts of them
		left     int    // in task.dead
	}{
		{"dead ls", "", exitOK, "00000000000000b2  poisoned", "", 3},
		{"dead ls --limit 1", "", exitOK, "2 more (--limit)", "", 3},
		{"dead ls --reason expired", "", exitOK, "none of the 3 messages in task.dead is selected", "", 3},
		{"dead ls --limit 0", "", exitUsage, "", "--limit must be", 3},
		{"dead show t-1", "", exitOK, "reason          invalid_message: /priority: must be <= 3 but found 9\n", "", 3},
		{"dead show 00000000000000b2 --payload", "", exitOK, "{\"payload\":{\"secret\":1}}\n", "", 3},
		{"dead show t-9", "", exitFailed, "", "nothing of \"t-9\" is in task.dead", 3},
		{"dead resend", "", exitUsage, "", "say which", 3},
		{"dead resend t-1 --all", "", exitUsage, "", "not both", 3},
		{"dead resend t-1", "", exitOK, "1 message sent again\n", "", 2},
		{"dead resend --type translate", "", exitUsage, "", "give --yes", 3},
		{"dead resend --type translate", "n\n", exitFailed, "", "nothing was done", 3},
		{"dead resend --type translate", "y\n", exitOK, "2 messages sent again\n", "resend 2 messages? [y/N]", 1},
		{"dead resend --reason poisoned", "", exitOK, "1 message sent again\n", "", 2}, // one is not asked about
		{"dead resend --all --yes", "", exitFailed,
			"00000000000000c3 stays in task.dead: it is neither a task nor a request\n", "", 1},
		{"dead drop t-1 t-9 --yes", "", exitFailed, "", "Nothing was done", 3},
		{"dead drop --all --yes", "", exitOK, "3 messages dropped\n", "", 0},
		{"dead drop 00000000000000c3 -o json", "", exitOK, `"kept": []`, "", 2},
	} {
		t.Run(tc.args+" "+tc.in, func(t *testing.T) {
			r, source := newRig(), newDeadSource()
			r.startCoordinator(t, source)
			r.env["TASKBUS_ADMIN_TOKEN"] = adminToken
			r.in = strings.NewReader(tc.in)
			code := r.run(t, strings.Fields(tc.args)...)
			if code != tc.code || !strings.Contains(r.out.String(), tc.out) || !strings.Contains(r.err.String(), tc.err) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d, %q, %q", code, r.out.String(), r.err.String(), tc.code,
					tc.out, tc.err)
			}
			if len(*source.all) != tc.left {
				t.Errorf("%d messages are left, want %d", len(*source.all), tc.left)
			}
			if !strings.Contains(tc.args, "--payload") && strings.Contains(r.out.String(), "secret") {
				t.Error("the payload was shown")
			}
		})
	}
}
