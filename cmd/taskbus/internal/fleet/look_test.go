package fleet

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

func TestLookingAtTheFleet(t *testing.T) {
	for _, tc := range []struct {
		golden string
		args   string
		code   int
	}{
		{"agents.txt", "agents", cli.ExitOK},
		{"agents.json", "agents -o json", cli.ExitOK},
		{"capabilities.txt", "capabilities", cli.ExitOK},
		{"capabilities.json", "capabilities -o json", cli.ExitOK},
		{"agents-stats.txt", "agents stats", cli.ExitOK},
		{"agents-stats.json", "agents stats -o json", cli.ExitOK},
		{"health.txt", "health", cli.ExitOK},
		{"health.json", "health -o json", cli.ExitOK},
		{"health-live.json", "health --live -o json", cli.ExitOK},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			r.StartCoordinator(t, clitest.LookedAt)
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.Err.String())
			}
			clitest.Golden(t, tc.golden, r.Out.String())
		})
	}
}

// The word and the exit code of `taskbus health` are those of /health: an answer of 503 is one, and
// no answer is none. With --live only the process counts.
func TestHealthWordAndExitCode(t *testing.T) {
	for _, tc := range []struct {
		word       string
		code, live int
	}{
		{view.Healthy, cli.ExitOK, cli.ExitOK},
		{view.Degraded, cli.ExitOK, cli.ExitOK},
		{view.Critical, cli.ExitFailed, cli.ExitOK},
		{"unheard-of", cli.ExitFailed, cli.ExitOK},
	} {
		r := newRig()
		r.StartCoordinator(t, clitest.FixedSource{Word: tc.word})
		code := r.Run(t, "health")
		if code != tc.code || !strings.HasPrefix(r.Out.String(), tc.word+"\n") || r.Err.String() != "" {
			t.Errorf("%s: exit code %d, want %d; stdout %q, stderr %q", tc.word, code, tc.code, r.Out.String(), r.Err.String())
		}
		asJSON := newRig()
		asJSON.StartCoordinator(t, clitest.FixedSource{Word: tc.word})
		var answer view.Health
		code = asJSON.Run(t, "health", "-o", "json")
		if err := json.Unmarshal([]byte(asJSON.Out.String()), &answer); err != nil || code != tc.code ||
			answer.Status != tc.word {
			t.Errorf("%s as JSON: exit code %d, want %d; %s", tc.word, code, tc.code, asJSON.Out.String())
		}
		if code := r.Run(t, "health", "--live"); code != tc.live {
			t.Errorf("%s: --live ends with %d, want %d", tc.word, code, tc.live)
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"a problem of its own": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"title":"Too busy","detail":"Try again."}`))
		},
		"a proxy without a coordinator behind it": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		server := httptest.NewServer(answer)
		defer server.Close()
		r := newRig()
		code := r.Run(t, "health", "--url", server.URL)
		if code != cli.ExitFailed || r.Out.String() != "" ||
			!strings.Contains(r.Err.String(), "is something else listening there?") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, r.Out.String(), r.Err.String())
		}
	}
}

// What a coordinator without its broker knows of agents is shown, and is no success.
func TestAgentsWithoutASession(t *testing.T) {
	server := httptest.NewServer(httpapi.New(clitest.FixedSource{Away: true}, http.NotFoundHandler(),
		httpapi.Options{LoopbackHosts: true}))
	defer server.Close()
	r := newRig()
	if code := r.Run(t, "agents", "--url", server.URL); code != cli.ExitFailed ||
		!strings.Contains(r.Err.String(), "no session with its broker") ||
		!strings.Contains(r.Out.String(), "gpu-1") {
		t.Errorf("exit code %d, want %d; %q %q", code, cli.ExitFailed, r.Out.String(), r.Err.String())
	}
}

// Whatever listens at the address, the answer is one helpful line.
func TestLookingAtSomethingElse(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a web page":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"a 404 of its own": http.NotFound,
		"a 500":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"control codes": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(`{"title":"\u001b[2Jowned\n","detail":"x"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			r := newRig()
			if code := r.Run(t, "agents", "--url", server.URL); code != cli.ExitFailed {
				t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
			}
			if text := r.Err.String(); strings.Count(text, "\n") != 1 || strings.Contains(text, "\x1b") {
				t.Errorf("stderr %q", text)
			}
		})
	}
}

// An empty fleet leaves the screen readable.
func TestAnEmptyFleet(t *testing.T) {
	for _, tc := range []struct {
		name   string
		source clitest.FixedSource
		args   string
		lines  int
		says   string
	}{
		{"no agents", clitest.FixedSource{}, "agents stats", 3, "0 agents: 0 idle, 0 busy, 0 offline; 0 tasks in flight\n"},
		{"no capabilities", clitest.FixedSource{}, "capabilities", 1, "no agent offers anything"},
	} {
		r := newRig()
		r.StartCoordinator(t, tc.source)
		code := r.Run(t, strings.Fields(tc.args)...)
		if text := r.Out.String(); code != cli.ExitOK || strings.Count(text, "\n") != tc.lines ||
			!strings.Contains(text, tc.says) {
			t.Errorf("%s: exit code %d, %d lines, want %d with %q:\n%s", tc.name, code, strings.Count(text, "\n"), tc.lines,
				tc.says, text)
		}
	}
}

func TestAgentToken(t *testing.T) {
	const secret = "canary-agents-0123456789-abcdefg"
	want := credential.AgentToken([]byte(secret), "gpu-1")
	for _, tc := range []struct {
		args string
		env  map[string]string
		code int
		out  string
		err  string
	}{
		{"agents token gpu-1", map[string]string{"TASKBUS_AGENT_SECRET": secret}, cli.ExitOK, want + "\n", ""},
		{"agents token gpu-1 -o json", map[string]string{"TASKBUS_AGENT_SECRET": secret}, cli.ExitOK,
			"{\n  \"agent_id\": \"gpu-1\",\n  \"token\": \"" + want + "\"\n}\n", ""},
		{"agents token gpu-1", nil, cli.ExitConfig, "", "set TASKBUS_AGENT_SECRET_FILE"},
		{"agents token gpu-1", map[string]string{"TASKBUS_AGENT_SECRET": "short"}, cli.ExitConfig, "",
			"fewer than 32 characters"},
		{"agents token a/b", map[string]string{"TASKBUS_AGENT_SECRET": secret}, cli.ExitUsage, "", "not an agent id"},
		{"agents token", nil, cli.ExitUsage, "", "accepts 1 arg"},
	} {
		r := newRig()
		r.Env = tc.env
		if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code || r.Out.String() != tc.out ||
			!strings.Contains(r.Err.String(), tc.err) {
			t.Errorf("%s: exit code %d, %q, %q; want %d, %q, %q", tc.args, code, r.Out.String(), r.Err.String(), tc.code, tc.out,
				tc.err)
		}
		if strings.Contains(r.Out.String()+r.Err.String(), secret[:8]) {
			t.Errorf("%s: the secret was printed", tc.args)
		}
	}
}
