package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/view"
)

// Quotas come, change, break and go while the coordinator runs.
func TestServeReloadsQuotas(t *testing.T) {
	s := startServe(t, newRig())
	quotas := filepath.Join(filepath.Dir(s.path), "quotas.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(quotas, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configured := func() view.Config {
		var status view.Status
		s.get(t, "/status", &status)
		return status.Config
	}
	without := configured().Version
	if !strings.Contains(s.Err.String(), `"quotas":""`) {
		t.Errorf("the start line does not say that there are no quotas:\n%s", s.Err.String())
	}

	write("groups: [{id: a}]") // noticed without a signal, also for the first time
	s.until(t, "the first quotas", func() bool { return configured().Version != without })
	first := configured().Version
	write("groups: [{id: a, wieght: 2}]")
	s.until(t, "the broken quotas", func() bool { return !configured().LastReloadOK })
	if c := configured(); c.Version != first || !strings.Contains(c.LastReloadError, "groups[0].wieght: unknown key") {
		t.Errorf("broken quotas became active, or it is not said why not: %+v", c)
	}
	write("groups: [{id: a, weight: 2}]")
	s.until(t, "the next quotas", func() bool { return configured().LastReloadOK })
	second := configured().Version
	if second == first || second == without {
		t.Errorf("versions %s, %s and %s", without, first, second)
	}
	// What has gone does not lift the limits.
	if err := os.Remove(quotas); err != nil {
		t.Fatal(err)
	}
	s.until(t, "the missing quotas", func() bool { return !configured().LastReloadOK })
	if c := configured(); c.Version != second ||
		!strings.Contains(c.LastReloadError, "to do without quotas write `{}` into "+quotas) {
		t.Errorf("without the file: %+v", c)
	}
	write("{}")
	s.until(t, "the empty quotas", func() bool { return configured().LastReloadOK })
	// A change of the other file keeps the quotas.
	empty := configured().Version
	s.write(t, "agents: {x: {max_concurrent_tasks: 1}}")
	s.Signals <- syscall.SIGHUP
	s.until(t, "the other fleet", func() bool { return configured().Version != empty })
	alone, err := config.Load(s.path, config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	if got := configured().Version; got == alone.Policy().Version {
		t.Error("the quotas went with the change of agents.yaml")
	}
	s.Signals <- syscall.SIGTERM
	if code := <-s.exit; code != cli.ExitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}

// A named file must be there, and in order, from the start.
func TestServeRefusesWrongQuotas(t *testing.T) {
	for _, tc := range []struct{ flag, variable, want string }{
		{flag: "none.yaml", want: "find the quotas named by --quotas"},
		{variable: "none.yaml", want: "find the quotas named by TASKBUS_QUOTAS"},
		{flag: "internal/setup/testdata/faulty-quotas.yaml", want: "groups[0].wieght: unknown key; did you mean weight?"},
	} {
		r := newRig()
		r.Env["TASKBUS_QUOTAS"] = tc.variable
		args := []string{"serve", "--config", "internal/setup/testdata/agents.yaml", "--http", "127.0.0.1:0"}
		if tc.flag != "" {
			args = append(args, "--quotas", tc.flag)
		}
		if code := r.Run(t, args...); code != cli.ExitConfig || !strings.Contains(r.Err.String(), tc.want) {
			t.Errorf("%+v: exit code %d, want %d; stderr: %s", tc, code, cli.ExitConfig, r.Err.String())
		}
	}
}

// One version names what the files say, wherever it is shown: to check, to the coordinator that starts by
// them, reads them again or is asked, and to the doctor. What was changed over HTTP is none of it.
func TestOneVersionOfTheFiles(t *testing.T) {
	r := newRig()
	r.Env["TASKBUS_ADMIN_TOKEN"] = "a-token-of-an-administrator-0123456789"
	dir := t.TempDir()
	r.Env["TASKBUS_QUOTAS"] = filepath.Join(dir, "limits.yaml") // not the default place
	text, err := os.ReadFile("internal/setup/testdata/limited/quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.Env["TASKBUS_QUOTAS"], text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Env["TASKBUS_HISTORY"] = "off"
	s := startServe(t, r)
	s.until(t, "ready", func() bool { return s.get(t, "/readyz", nil) == http.StatusOK })
	cfg, err := config.LoadWithQuotas(s.path, r.Env["TASKBUS_QUOTAS"], config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	want := cfg.Policy().Version
	if !strings.Contains(s.Err.String(), `"config_version":"`+want+`"`) {
		t.Errorf("the start line does not name %s:\n%s", want, s.Err.String())
	}
	agree := func(when string) {
		t.Helper()
		var status view.Status
		if s.get(t, "/status", &status); status.Config.Version != want || status.Health.Checks["config"].Detail != "version "+
			want {
			t.Errorf("%s: /status names %s and says %q, want %s", when, status.Config.Version,
				status.Health.Checks["config"].Detail, want)
		}
		operator := newRig()
		operator.Broker, operator.Env = r.Broker, r.Env
		operator.Run(t, "doctor", "--config", s.path, "--url", s.url, "--listen", "0s")
		if text := strings.Join(strings.Fields(operator.Out.String()), " "); !strings.Contains(text, "version "+want) ||
			!strings.Contains(text, "ok configuration ") || !strings.Contains(text, " leads and takes tasks") ||
			strings.Contains(text, "it works by version") {
			t.Errorf("%s: the doctor: %s", when, text)
		}
	}
	agree("at the start")
	if code := r.Run(t, "quota", "set", "pool/alpha", "weight=3", "--url", s.url); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, s.Err.String())
	}
	agree("after a change")
	s.Signals <- syscall.SIGHUP
	const again = `"version":"%s","time":`
	s.until(t, "the second reading",
		func() bool { return strings.Contains(s.Err.String(), "configuration read again: nothing has changed") })
	if line := lineWith(s.Err.String(), "configuration read again"); !strings.Contains(line, fmt.Sprintf(again, want)) {
		t.Errorf("read again as another version than %s: %s", want, line)
	}
	agree("after the second reading")
	s.Signals <- syscall.SIGTERM
	if code := <-s.exit; code != cli.ExitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}

// lineWith is the first line that says so.
func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
