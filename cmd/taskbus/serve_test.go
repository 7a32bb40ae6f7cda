package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// serving is a `taskbus serve` that runs in this process, on a broker in memory.
type serving struct {
	*clitest.Rig
	path string // of its agents.yaml
	url  string
	exit chan int
}

var listens = regexp.MustCompile(`"http":"(https?://[^"]+)"`)

func startServe(t *testing.T, r *clitest.Rig, args ...string) *serving {
	t.Helper()
	s := &serving{Rig: r, path: filepath.Join(t.TempDir(), "agents.yaml"), exit: make(chan int, 1)}
	text, err := os.ReadFile("internal/setup/testdata/agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, string(text))
	go func() {
		s.exit <- r.Run(t, append([]string{"serve", "--config", s.path, "--http", "127.0.0.1:0"}, args...)...)
	}()
	s.until(t, "the start line", func() bool {
		if m := listens.FindStringSubmatch(r.Err.String()); m != nil {
			s.url = m[1]
		}
		return s.url != ""
	})
	return s
}

func (s *serving) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// until waits for something that another goroutine brings about.
func (s *serving) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.Done():
			t.Fatalf("waited in vain for %s; log:\n%s", what, s.Err.String())
		}
	}
}

// status of an endpoint, and its body if into is not nil.
func (s *serving) get(t *testing.T, path string, into any) int {
	t.Helper()
	r, err := http.Get(s.url + path)
	if err != nil {
		return 0 // the server has stopped; the caller expects it or fails
	}
	defer r.Body.Close()
	if into != nil {
		if err := json.NewDecoder(r.Body).Decode(into); err != nil {
			t.Fatalf("GET %s: %v", path, err)
		}
	}
	return r.StatusCode
}

func TestServeFromStartToDrain(t *testing.T) {
	s := startServe(t, newRig())
	s.until(t, "ready", func() bool { return s.get(t, "/readyz", nil) == http.StatusOK })
	if code := s.get(t, "/livez", nil); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	if code := s.get(t, "/debug/pprof/", nil); code != http.StatusNotFound {
		t.Errorf("/debug/pprof/ without --pprof: %d", code)
	}
	s.Env["TASKBUS_HTTP_URL"] = s.url
	if code := s.Run(t, "health", "--live"); code != cli.ExitOK {
		t.Errorf("taskbus health --live: exit code %d", code)
	}
	if code := s.Run(t, "health"); (code == cli.ExitOK) != (s.get(t, "/health", nil) == http.StatusOK) {
		t.Errorf("taskbus health: exit code %d, and /health says otherwise", code)
	}
	s.Signals <- syscall.SIGTERM
	if code := <-s.exit; code != cli.ExitOK {
		t.Errorf("exit code after SIGTERM %d, want 0; log:\n%s", code, s.Err.String())
	}
	if code := s.get(t, "/livez", nil); code != 0 {
		t.Errorf("HTTP still answers after the end: %d", code)
	}
	// Every line of the log is there, whole, with a time.
	for line := range strings.Lines(s.Err.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil || fields["time"] == nil || fields["level"] == nil {
			t.Errorf("log line %q: %v", line, err)
		}
	}
	if !strings.Contains(s.Err.String(), `"message":"stopped"`) {
		t.Errorf("the last line is lost:\n%s", s.Err.String())
	}
}

func TestServeReloads(t *testing.T) {
	s := startServe(t, newRig(), "--pprof")
	configured := func() view.Config {
		var status view.Status
		s.get(t, "/status", &status)
		return status.Config
	}
	first := configured()

	s.write(t, "agents: {x: {}}") // noticed without a signal
	s.until(t, "the broken file", func() bool { return !configured().LastReloadOK })
	if c := configured(); c.Version != first.Version || !strings.Contains(c.LastReloadError, "max_concurrent_tasks") {
		t.Errorf("a broken file became active, or it is not said why not: %+v", c)
	}
	s.write(t, "agents: {x: {max_concurrent_tasks: 1}}")
	s.Signals <- syscall.SIGHUP
	s.until(t, "the new file", func() bool { return configured().Version != first.Version })
	if c := configured(); !c.LastReloadOK || c.LastReloadError != "" {
		t.Errorf("after a good file: %+v", c)
	}
	if code := s.get(t, "/debug/pprof/", nil); code != http.StatusOK {
		t.Errorf("/debug/pprof/ with --pprof: %d", code)
	}
	s.Signals <- syscall.SIGINT
	if code := <-s.exit; code != cli.ExitOK {
		t.Errorf("exit code after SIGINT %d, want 0", code)
	}
}

// Orders need the token of the environment; the log says whether there is one.
func TestServeTakesOrders(t *testing.T) {
	for _, tc := range []struct {
		name, token, logged string
		code                int
		cordoned            bool
	}{
		{"without a token", "", `"http_changes":false`, cli.ExitFailed, false},
		{"with a token", clitest.AdminToken, `"http_changes":true`, cli.ExitOK, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig()
			r.Env["TASKBUS_ADMIN_TOKEN"] = tc.token
			s := startServe(t, r)
			s.until(t, "a session", func() bool { return s.get(t, "/readyz", nil) == http.StatusOK })
			operator := newRig()
			operator.Env["TASKBUS_ADMIN_TOKEN"], operator.Env["TASKBUS_HTTP_URL"] = clitest.AdminToken, s.url
			if code := operator.Run(t, "agents", "cordon", "gpu-1"); code != tc.code {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, operator.Err.String())
			}
			var status view.Status
			s.get(t, "/status", &status)
			for _, g := range status.Agents {
				if g.Cordoned != (tc.cordoned && g.ID == "gpu-1") {
					t.Errorf("%s: cordoned %v", g.ID, g.Cordoned)
				}
			}
			s.Signals <- syscall.SIGTERM
			if code := <-s.exit; code != cli.ExitOK {
				t.Errorf("exit code after SIGTERM %d, want 0", code)
			}
			log := s.Err.String()
			if !strings.Contains(log, tc.logged) || strings.Contains(log, `"path":"/agents/gpu-1/cordon"`) != tc.cordoned {
				t.Errorf("log:\n%s", log)
			}
			if strings.Contains(log+operator.Out.String()+operator.Err.String(), clitest.AdminToken[:8]) {
				t.Error("the token was printed")
			}
		})
	}
}

// stuckBus is a broker that neither answers nor lets go.
type stuckBus struct{ release <-chan struct{} }

func (b stuckBus) Open(context.Context, bus.SessionSpec) (bus.Session, error) {
	<-b.release
	return nil, bus.ErrClosed
}

func TestServeSecondSignalEndsAtOnce(t *testing.T) {
	r := newRig()
	release := make(chan struct{})
	defer close(release)
	r.OpenBus = func(string, zerolog.Logger) bus.Bus { return stuckBus{release} }
	s := startServe(t, r)
	if code := s.get(t, "/livez", nil); code != http.StatusOK {
		t.Errorf("/livez while the broker is stuck: %d, want 200", code)
	}
	if code := s.get(t, "/readyz", nil); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz while the broker is stuck: %d, want 503", code)
	}
	s.Signals <- syscall.SIGTERM
	s.until(t, "the drain to begin", func() bool { return strings.Contains(s.Err.String(), "draining; a second signal") })
	s.Signals <- syscall.SIGTERM
	if code := <-s.exit; code != cli.ExitFailed {
		t.Errorf("exit code after the second signal %d, want %d", code, cli.ExitFailed)
	}
	if !strings.Contains(s.Err.String(), "taskbus: stopped at once by a second signal") {
		t.Errorf("log:\n%s", s.Err.String())
	}
}

// What is read again by itself is applied only when it says something new.
func TestReloaderSkipsWhatItKnows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const one, two, broken = "agents: {}",
		"agents: {x: {max_concurrent_tasks: 1}}\nglobal_settings: {shutdown_grace_seconds: 7}", "agents: 1"
	write(one)
	cfg, err := config.Load(path, config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	applied, faults := 0, 0
	r := newReloader(cli.ConfigFiles{Agents: path, Quotas: filepath.Join(filepath.Dir(path), "quotas.yaml")}, cfg,
		func(c *config.Config, err error) {
			if (c == nil) == (err == nil) {
				t.Errorf("applied %v with %v: want one of the two", c, err)
			}
			if applied++; err != nil {
				faults++
			}
		})
	for _, step := range []struct {
		text            string
		asked           bool
		applied, faults int // after it
	}{
		{one, false, 0, 0},
		{"# a comment changes nothing\n" + one, false, 0, 0},
		{one, true, 1, 0}, // an interactive question is answered
		{broken, false, 2, 1},
		{broken, false, 2, 1},
		{broken, true, 3, 2},
		{one, false, 4, 2}, // in order again: that is news
		{two, false, 5, 2},
	} {
		write(step.text)
		r.now(step.asked)
		if applied != step.applied || faults != step.faults {
			t.Errorf("after %q (asked %v): applied %d with %d faults, want %d with %d", step.text, step.asked, applied, faults,
				step.applied, step.faults)
		}
	}
	if r.grace() != 7*time.Second {
		t.Errorf("grace %v, want that of the configuration in force, 7 s", r.grace())
	}
}

func TestHTTPAddress(t *testing.T) {
	cfg, err := config.Load("internal/setup/testdata/agents.yaml", config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ flag, bind, want string }{
		{"", "", "127.0.0.1:8551"},
		{"", "0.0.0.0", "0.0.0.0:8551"},
		{"", "::1", "[::1]:8551"},
		{"", "localhost", "localhost:8551"},
		{":9000", "0.0.0.0", ":9000"},
		{"[::1]:1", "", "[::1]:1"},
		{"localhost", "", ""},
		{"", "0.0.0.0:80", ""},
		{"", "example.com", ""},
	} {
		got, err := httpAddress(tc.flag, tc.bind, cfg, config.Environment{Port: 8551})
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("--http %q, TASKBUS_HTTP_BIND %q: %q, %v; want %q", tc.flag, tc.bind, got, err, tc.want)
		}
	}
}

// Without a broker's URL the log says so and what to set; with one it does not.
func TestServeSaysThatNoBrokerIsNamed(t *testing.T) {
	for url, want := range map[string]bool{"": true, "amqp://broker.example:5672/": false} {
		r := newRig()
		r.Env["RABBITMQ_URL"] = url
		s := startServe(t, r)
		s.until(t, "ready", func() bool { return s.get(t, "/readyz", nil) == http.StatusOK })
		s.Signals <- syscall.SIGTERM
		<-s.exit
		if got := strings.Contains(s.Err.String(),
			"RABBITMQ_URL is not set; set it to amqp://user:password@host:5672/vhost"); got != want {
			t.Errorf("with %q the log says that it is not set: %v, want %v:\n%s", url, got, want, s.Err.String())
		}
	}
}
