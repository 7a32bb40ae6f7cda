package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskbus/coordinator/httpapi"
)

// dead is an address at which nothing listens.
func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// coordinatorThat is a coordinator in that state, which remembers one task that is called by it.
func coordinatorThat(t *testing.T, is string) string {
	t.Helper()
	source := fixedSource{is: is, tasks: []httpapi.Task{{ID: "of-" + is, State: "dispatched"}}}
	server := httptest.NewServer(httpapi.New(source, http.NotFoundHandler(), httpapi.Options{LoopbackHosts: true}))
	t.Cleanup(server.Close)
	return server.URL
}

// Of several coordinators the one that leads is asked, wherever it stands in the list and whatever the
// others are; where none leads, one that stands by; where none answers, the error is that of the first.
func TestTheOneThatLeadsIsAsked(t *testing.T) {
	none, leader, blocked := dead(t), coordinatorThat(t, "active"), coordinatorThat(t, "blocked")
	standby, connecting, draining := coordinatorThat(t, "standby"), coordinatorThat(t, "connecting"),
		coordinatorThat(t, "draining")
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
		{"all are dead", []string{none, dead(t)}, ""},
	} {
		for _, by := range []string{"--url", "TASKBUS_HTTP_URL"} {
			r, args := newRig(), []string{"tasks"}
			if list := strings.Join(tc.urls, ", "); by == "--url" {
				args = append(args, by, list)
			} else {
				r.env[by] = list
			}
			code := r.run(t, args...)
			switch {
			case tc.want == "":
				if code != exitFailed || !strings.Contains(r.err.String(), none) {
					t.Errorf("%s by %s: exit code %d, %q; want %d and %s", tc.name, by, code, r.err.String(), exitFailed, none)
				}
			case code != exitOK || !strings.Contains(r.out.String(), "of-"+tc.want+" "):
				t.Errorf("%s by %s: exit code %d, %s%s; want the task of the one that is %s", tc.name, by, code, r.out.String(),
					r.err.String(), tc.want)
			}
		}
	}
}

// A list with something else in it is a fault of the command line, and is not repeated: it may hold a password.
func TestAListOfURLsIsChecked(t *testing.T) {
	for _, list := range []string{"http://a:1,", ",http://a:1", "http://a:1,b:2", "http://a:1,http://me:canary@b:2"} {
		r := newRig()
		if code := r.run(t, "tasks", "--url", list); code != exitUsage || strings.Contains(r.err.String(), "canary") ||
			!strings.Contains(r.err.String(), "separated by commas") {
			t.Errorf("%q: exit code %d, %q", list, code, r.err.String())
		}
	}
}
