package fleet

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

func TestOrders(t *testing.T) {
	source := clitest.FixedSource{Cancelled: map[string]view.Cancellation{
		"t-waits": {TaskID: "t-waits", State: view.Cancelled, Detail: "it had not reached an agent"},
		"t-runs": {TaskID: "t-runs", State: view.CancelRequested, Agent: "gpu-1", Detail: "gpu-1 has been told and " +
			"has not answered"},
		"t-new": {TaskID: "t-new", State: view.CancelNoted, Detail: "nothing is known of it"},
		"t-done": {TaskID: "t-done", State: view.CancelTooLate, Agent: "gpu-1", Outcome: "succeeded",
			Detail: "it has ended"},
		"t-before": {TaskID: "t-before", State: view.CancelTooLate, Outcome: "cancelled", Detail: "it has ended"},
		"t-forgot": {TaskID: "t-forgot", State: view.CancelTooLate, Detail: "it has ended"},
	}}
	for _, tc := range []struct {
		args string
		code int
		out  string // on standard output
		err  string // part of standard error
	}{
		// 0: no agent is known that will still do it.
		{"tasks cancel t-waits", cli.ExitOK, "t-waits: cancelled: it had not reached an agent\n", ""},
		{"tasks cancel t-new --reason x", cli.ExitOK, "t-new: noted: nothing is known of it\n", ""},
		{"tasks cancel t-before", cli.ExitOK, "t-before: too_late, cancelled: it has ended\n", ""},
		// 1: it may still be done, or was.
		{"tasks cancel t-runs", cli.ExitFailed, "t-runs: cancel_requested on gpu-1: gpu-1 has been told and has not " +
			"answered\n", ""},
		{"tasks cancel t-done", cli.ExitFailed, "t-done: too_late, succeeded on gpu-1: it has ended\n", ""},
		{"tasks cancel t-forgot", cli.ExitFailed, "t-forgot: too_late: it has ended\n", ""},
		{"tasks cancel t-done -o json", cli.ExitFailed, `{
  "task_id": "t-done",
  "state": "too_late",
  "agent_id": "gpu-1",
  "outcome": "succeeded",
  "detail": "it has ended"
}
`, ""},
		{"tasks cancel t-other", cli.ExitFailed, "", "Not done: Nothing was changed: no session with the broker."},

		{"agents cordon gpu-1", cli.ExitOK, "gpu-1: cordoned, 1 task with it\n", ""},
		{"agents uncordon gpu-1", cli.ExitOK, "gpu-1: in service, 1 task with it\n", ""},
		{"agents uncordon researcher-1", cli.ExitOK, "researcher-1: in service, 0 tasks with it; no work at the moment: " +
			"stale\n", ""},
		{"agents drain gpu-1", cli.ExitOK, "gpu-1: draining, 1 task with it\n", ""},
		{"agents drain worker-18", cli.ExitOK, "worker-18: drained, nothing is left with it; it may be stopped\n", ""},
		{"agents drain worker-18 --wait --timeout 1s", cli.ExitOK,
			"worker-18: drained, nothing is left with it; it may be stopped\n", ""},
		{"agents drain gpu-9", cli.ExitFailed, "", "Unknown agent: Agent gpu-9 is not in the fleet"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			r := newRig()
			r.StartCoordinator(t, source)
			r.Env["TASKBUS_ADMIN_TOKEN"] = clitest.AdminToken
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if got := r.Out.String(); got != tc.out {
				t.Errorf("stdout %q, want %q", got, tc.out)
			}
			if got := r.Err.String(); !strings.Contains(got, tc.err) || (got == "") != (tc.err == "") ||
				strings.Count(got, "\n") > 1 {
				t.Errorf("stderr %q, want one line with %q", got, tc.err)
			}
		})
	}
}

// What is wrong with the token is said in terms of the command line, and the
// token itself nowhere.
func TestOrdersWithoutTheRightToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(clitest.AdminToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := strings.ToUpper(clitest.AdminToken)
	for _, tc := range []struct {
		name string
		env  map[string]string
		code int
		says string
	}{
		{"from the variable", map[string]string{"TASKBUS_ADMIN_TOKEN": clitest.AdminToken}, cli.ExitOK, ""},
		{"from the file", map[string]string{"TASKBUS_ADMIN_TOKEN_FILE": path}, cli.ExitOK, ""},
		{"none", nil, cli.ExitFailed, "wants its admin token: set TASKBUS_ADMIN_TOKEN_FILE"},
		{"another", map[string]string{"TASKBUS_ADMIN_TOKEN": other}, cli.ExitFailed, "has another admin token"},
		{"both", map[string]string{"TASKBUS_ADMIN_TOKEN": clitest.AdminToken, "TASKBUS_ADMIN_TOKEN_FILE": path},
			cli.ExitConfig, "unset one of the two"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig()
			r.StartCoordinator(t, clitest.FixedSource{})
			for name, value := range tc.env {
				r.Env[name] = value
			}
			if code := r.Run(t, "agents", "cordon", "gpu-1"); code != tc.code || !strings.Contains(r.Err.String(), tc.says) {
				t.Errorf("exit code %d, stderr %s; want %d and %q", code, r.Err.String(), tc.code, tc.says)
			}
			if text := r.Out.String() + r.Err.String(); strings.Contains(strings.ToLower(text), clitest.AdminToken[:8]) {
				t.Errorf("the token was printed: %s", text)
			}
		})
	}
	// A coordinator without a token says how it gets one.
	server := httptest.NewServer(httpapi.New(clitest.FixedSource{}, http.NotFoundHandler(), httpapi.Options{}))
	defer server.Close()
	r := newRig()
	r.Env["TASKBUS_ADMIN_TOKEN"] = clitest.AdminToken
	if code := r.Run(t, "agents", "cordon", "gpu-1", "--url", server.URL); code != cli.ExitFailed ||
		!strings.Contains(r.Err.String(), "Changes are off") {
		t.Errorf("exit code %d, stderr %s", code, r.Err.String())
	}
}

// The token goes to the coordinator that was named, with changes, and nowhere else.
func TestTokenStaysWhereItBelongs(t *testing.T) {
	var seen []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, "elsewhere "+r.Method)
		_, _ = w.Write([]byte(`{"id": "gpu-1"}`))
	}))
	defer elsewhere.Close()
	named := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("Authorization") != "" {
			t.Error("a question carries the token")
		}
		if r.URL.RawQuery != "" {
			t.Errorf("the query is %q", r.URL.RawQuery)
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusMovedPermanently)
	}))
	defer named.Close()
	r := newRig()
	r.Env["TASKBUS_ADMIN_TOKEN"] = clitest.AdminToken
	if code := r.Run(t, "agents", "drain", "gpu-1", "--url", named.URL); code != cli.ExitFailed || len(seen) > 0 {
		t.Errorf("exit code %d, followed: %v; want 1 and nothing", code, seen)
	}
	r.Run(t, "health", "--url", named.URL)
}

func TestDrainWatch(t *testing.T) {
	left := func(n int) view.Agent { return view.Agent{ID: "a", Leased: n, Cordoned: true, Draining: true} }
	drained := view.Agent{ID: "a", Cordoned: true, Draining: true, Drained: true}
	away := errors.New("connection refused")
	type look struct {
		agent view.Agent
		err   error
	}
	repeated := func(n int, l look) (looks []look) {
		for range n {
			looks = append(looks, l)
		}
		return looks
	}
	for _, tc := range []struct {
		name  string
		first view.Agent
		looks []look // one a second; the last is repeated
		limit time.Duration
		took  time.Duration
		told  int // looks that were told of
		fails string
	}{
		{"drained at once", drained, nil, 0, 0, 0, ""},
		{"after three looks", left(2), []look{{left(2), nil}, {left(1), nil}, {drained, nil}}, 0, 3 * time.Second, 3, ""},
		{"drained counts although no longer called draining", left(1), []look{{view.Agent{ID: "a", Drained: true}, nil}}, 0,
			time.Second, 1, ""},
		{"the time is up", left(2), []look{{left(1), nil}}, 2500 * time.Millisecond, 2500 * time.Millisecond, 3,
			context.DeadlineExceeded.Error()}, // at 0, 1 and 2 s
		{"it is uncordoned", left(2), []look{{left(1), nil}, {view.Agent{ID: "a", Leased: 1}, nil}}, 0, 2 * time.Second, 2,
			"not being drained any more"},
		{"it leaves the fleet", left(2), []look{{view.Agent{}, errNotInFleet}}, 0, time.Second, 1, "not in the fleet"},
		{"the coordinator is away for a while", left(2), append(repeated(30, look{err: away}), look{drained, nil}), 0,
			31 * time.Second, 31, ""},
		{"the coordinator stays away", left(2), []look{{err: away}}, 0, 31 * time.Second, 31,
			"connection refused"}, // 31 s is the first look after 30 s
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if tc.limit > 0 {
					ctx, cancel = context.WithTimeout(ctx, tc.limit)
				}
				defer cancel()
				asked, told := 0, 0
				watch := drainWatch{
					ask: func(context.Context) (view.Agent, error) {
						l := tc.looks[min(asked, len(tc.looks)-1)]
						asked++
						return l.agent, l.err
					},
					tell: func(view.Agent) { told++ },
				}
				start := time.Now()
				agent, err := watch.wait(ctx, tc.first)
				if took := time.Since(start); took != tc.took || told != tc.told {
					t.Errorf("took %v and told %d times, want %v and %d", took, told, tc.took, tc.told)
				}
				if tc.fails == "" && (err != nil || !agent.Drained) || tc.fails != "" &&
					(err == nil || !strings.Contains(err.Error(), tc.fails)) {
					t.Errorf("%+v, %v; want %q", agent, err, tc.fails)
				}
				if agent.ID != "a" {
					t.Errorf("the agent as it was seen last: %+v", agent)
				}
			})
		})
	}
}

func TestDrainGivesUp(t *testing.T) {
	r := newRig()
	r.StartCoordinator(t, clitest.FixedSource{})
	r.Env["TASKBUS_ADMIN_TOKEN"] = clitest.AdminToken
	code := r.Run(t, "agents", "drain", "worker-17", "--wait", "--timeout", "10ms")
	if want := "worker-17 is not drained after 10ms: 2 tasks with it; it goes on draining"; code != cli.ExitFailed ||
		!strings.Contains(r.Err.String(), want) {
		t.Errorf("exit code %d, stderr %s; want %q", code, r.Err.String(), want)
	}
}

func TestOneAgentOfTheFleet(t *testing.T) {
	r := newRig()
	r.StartCoordinator(t, clitest.FixedSource{})
	client, err := r.NewClient("")
	if err != nil {
		t.Fatal(err)
	}
	if g, err := findAgent(t.Context(), client, "worker-17"); err != nil || g.ID != "worker-17" || !g.Draining {
		t.Errorf("worker-17: %+v, %v", g, err)
	}
	for _, id := range []string{"worker-1", "WORKER-17", ""} {
		if g, err := findAgent(t.Context(), client, id); !errors.Is(err, errNotInFleet) {
			t.Errorf("%q: %+v, %v; want errNotInFleet", id, g, err)
		}
	}
}

func TestSuggestions(t *testing.T) {
	const agents = "gpu-1 reviewer-1 researcher-1 archivist-1 worker-17 worker-18"
	for args, want := range map[string]string{
		"tasks --state ":      strings.Join(view.TaskStates(), " "),
		"tasks --agent ":      agents,
		"agents drain ":       agents,
		"agents cordon ":      agents,
		"agents uncordon ":    agents,
		"agents token ":       agents,
		"agents drain gpu-1 ": "", // it takes one
	} {
		r := newRig()
		r.StartCoordinator(t, clitest.FixedSource{})
		r.Run(t, append([]string{"__completeNoDesc"}, strings.Split(args, " ")...)...)
		lines := strings.Split(r.Out.String(), "\n")
		// The last lines are the directive: 4 means not to suggest files.
		if len(lines) < 2 || lines[len(lines)-2] != ":4" || strings.Join(lines[:len(lines)-2], " ") != want {
			t.Errorf("%q: %q, want %s", args, lines, want)
		}
	}
	// Without a coordinator there is nothing to suggest, and no harm done.
	r := newRig()
	r.Env["TASKBUS_HTTP_URL"] = "http://127.0.0.1:1"
	if code := r.Run(t, "__completeNoDesc", "agents", "drain", ""); code != cli.ExitOK || r.Out.String() != ":4\n" {
		t.Errorf("exit code %d, %q", code, r.Out.String())
	}
}
