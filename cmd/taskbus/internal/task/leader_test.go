package task

import (
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/tests/support/clitest"
)

// Of several coordinators the one that leads is asked, wherever it stands in the list and whatever the
// others are; where none leads, one that stands by; where none answers, the error is that of the first.
func TestTheOneThatLeadsIsAsked(t *testing.T) {
	none, leader, blocked := clitest.Dead(t), clitest.CoordinatorThat(t, "active"), clitest.CoordinatorThat(t, "blocked")
	standby, connecting, draining := clitest.CoordinatorThat(t, "standby"), clitest.CoordinatorThat(t, "connecting"),
		clitest.CoordinatorThat(t, "draining")
	for _, tc := range []struct {
		name string
		urls []string
		want string // the state of the one that answers; empty: none
	}{
		{"the leader first", []string{leader, standby}, "active"},
		{"the leader last", []string{standby, none, leader}, "active"},
		{"the leader is held up by an alarm", []string{standby, blocked}, "blocked"},
		{"the leader ends, no takeover yet", []string{standby, draining}, "draining"},
		{"the leader is dead", []string{none, connecting, standby}, "standby"},
		{"twice the same", []string{standby, standby + "/"}, "standby"},
		{"all are dead", []string{none, clitest.Dead(t)}, ""},
	} {
		for _, by := range []string{"--url", "TASKBUS_HTTP_URL"} {
			r, args := newRig(), []string{"tasks"}
			if list := strings.Join(tc.urls, ", "); by == "--url" {
				args = append(args, by, list)
			} else {
				r.Env[by] = list
			}
			code := r.Run(t, args...)
			switch {
			case tc.want == "":
				if code != cli.ExitFailed || !strings.Contains(r.Err.String(), none) {
					t.Errorf("%s by %s: exit code %d, %q; want %d and %s", tc.name, by, code, r.Err.String(), cli.ExitFailed, none)
				}
			case code != cli.ExitOK || !strings.Contains(r.Out.String(), "of-"+tc.want+" "):
				t.Errorf("%s by %s: exit code %d, %s%s; want the task of the one that is %s", tc.name, by, code, r.Out.String(),
					r.Err.String(), tc.want)
			}
		}
	}
}

// A list with something else in it is a fault of the command line, and is not repeated: it may hold a password.
func TestAListOfURLsIsChecked(t *testing.T) {
	for _, list := range []string{"http://a:1,", ",http://a:1", "http://a:1,b:2", "http://a:1,http://me:canary@b:2"} {
		r := newRig()
		if code := r.Run(t, "tasks", "--url", list); code != cli.ExitUsage || strings.Contains(r.Err.String(), "canary") ||
			!strings.Contains(r.Err.String(), "separated by commas") {
			t.Errorf("%q: exit code %d, %q", list, code, r.Err.String())
		}
	}
}
