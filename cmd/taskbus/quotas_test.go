package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

func TestCheckQuotas(t *testing.T) {
	for _, tc := range []struct {
		golden string
		args   []string
		code   int
	}{
		// What stands beside agents.yaml is read as well, once.
		{"check-limited.txt", []string{"testdata/limited/agents.yaml"}, exitOK},
		{"check-limited.txt", []string{"testdata/limited/agents.yaml", "testdata/limited/../limited/quotas.yaml"}, exitOK},
		{"check-quotas.json", []string{"testdata/limited/quotas.yaml", "-o", "json"}, exitOK},
		{"check-quotas-faulty.txt", []string{"testdata/faulty-quotas.yaml"}, exitFailed},
		{"check-quotas-priceless.txt", []string{"testdata/priceless-quotas.yaml"}, exitOK},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			r.env["TASKBUS_QUOTAS"] = "nonsense" // the environment of the check does not matter
			if code := r.run(t, append([]string{"check"}, tc.args...)...); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.err.String())
			}
			golden(t, tc.golden, strings.ReplaceAll(r.out.String(), "limited/../limited", "limited"))
		})
	}
}

// The version that check shows is the one that the coordinator will have.
func TestCheckShowsTheCoordinatorsVersion(t *testing.T) {
	cfg, err := config.LoadWithQuotas("testdata/limited/agents.yaml", "testdata/limited/quotas.yaml", config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig()
	if code := r.run(t, "check", "testdata/limited/agents.yaml"); code != exitOK ||
		!strings.Contains(r.out.String(), cfg.Policy().Version) {
		t.Errorf("exit code %d, want version %s in:\n%s", code, cfg.Policy().Version, r.out.String())
	}
}

func TestCheckQuotasSchema(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want []byte // nil: refused
	}{
		{[]string{"--schema", "quotas"}, config.QuotasSchema()},
		{[]string{"--schema", "agents"}, config.Schema()},
		{[]string{"--schema"}, config.Schema()},
		{[]string{"--schema", "groups"}, nil},
		{[]string{"--schema", "quotas", "agents"}, nil},
		{nil, nil},
	} {
		r := newRig()
		code := r.run(t, append([]string{"check"}, tc.args...)...)
		if want := map[bool]int{true: exitOK, false: exitUsage}[tc.want != nil]; code != want ||
			r.out.String() != string(tc.want) || tc.want != nil && !json.Valid([]byte(r.out.String())) {
			t.Errorf("%v: exit code %d, want %d; %d bytes, want %d", tc.args, code, want, len(r.out.String()), len(tc.want))
		}
	}
}

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
	configured := func() httpapi.Config {
		var status httpapi.Status
		s.get(t, "/status", &status)
		return status.Config
	}
	without := configured().Version
	if !strings.Contains(s.err.String(), `"quotas":""`) {
		t.Errorf("the start line does not say that there are no quotas:\n%s", s.err.String())
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
	s.signals <- syscall.SIGHUP
	s.until(t, "the other fleet", func() bool { return configured().Version != empty })
	alone, err := config.Load(s.path, config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	if got := configured().Version; got == alone.Policy().Version {
		t.Error("the quotas went with the change of agents.yaml")
	}
	s.signals <- syscall.SIGTERM
	if code := <-s.exit; code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}

// A named file must be there, and in order, from the start.
func TestServeRefusesWrongQuotas(t *testing.T) {
	for _, tc := range []struct{ flag, variable, want string }{
		{flag: "none.yaml", want: "find the quotas named by --quotas"},
		{variable: "none.yaml", want: "find the quotas named by TASKBUS_QUOTAS"},
		{flag: "testdata/faulty-quotas.yaml", want: "groups[0].wieght: unknown key; did you mean weight?"},
	} {
		r := newRig()
		r.env["TASKBUS_QUOTAS"] = tc.variable
		args := []string{"serve", "--config", "testdata/agents.yaml", "--http", "127.0.0.1:0"}
		if tc.flag != "" {
			args = append(args, "--quotas", tc.flag)
		}
		if code := r.run(t, args...); code != exitConfig || !strings.Contains(r.err.String(), tc.want) {
			t.Errorf("%+v: exit code %d, want %d; stderr: %s", tc, code, exitConfig, r.err.String())
		}
	}
}

// A recorded policy is read again with its quotas; another agents.yaml is tried with the same.
func TestRecordedQuotas(t *testing.T) {
	cfg, err := config.LoadWithQuotas("testdata/limited/agents.yaml", "testdata/limited/quotas.yaml", config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	// The journal has nothing of a policy but these two.
	recorded := &coordinator.Policy{Version: cfg.Policy().Version, Source: cfg.Policy().Source}
	policies := recordedPolicies{}
	p, err := policies.find(recorded)
	if err != nil || p.Version != recorded.Version || len(policies.notes) > 0 || p.Quotas == nil ||
		len(p.Quotas.Nodes) != len(cfg.Policy().Quotas.Nodes) {
		t.Fatalf("read again: %+v, %v, notes %q", p, err, policies.notes)
	}
	find, err := otherPolicies(replayFlags{config: "testdata/agents.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := find(recorded)
	if err != nil || other.Quotas == nil || len(other.Quotas.Nodes) != len(p.Quotas.Nodes) ||
		len(other.Agents) == len(p.Agents) {
		t.Errorf("what if: %+v, %v", other, err)
	}
}

// One version names what the files say, wherever it is shown: to check, to the coordinator that starts by
// them, reads them again or is asked, and to the doctor. What was changed over HTTP is none of it.
func TestOneVersionOfTheFiles(t *testing.T) {
	r := newRig()
	r.env["TASKBUS_ADMIN_TOKEN"] = "a-token-of-an-administrator-0123456789"
	dir := t.TempDir()
	r.env["TASKBUS_QUOTAS"] = filepath.Join(dir, "limits.yaml") // not the default place
	text, err := os.ReadFile("testdata/limited/quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.env["TASKBUS_QUOTAS"], text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.env["TASKBUS_HISTORY"] = "off"
	s := startServe(t, r)
	s.until(t, "ready", func() bool { return s.get(t, "/readyz", nil) == http.StatusOK })
	cfg, err := config.LoadWithQuotas(s.path, r.env["TASKBUS_QUOTAS"], config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	want := cfg.Policy().Version
	if !strings.Contains(s.err.String(), `"config_version":"`+want+`"`) {
		t.Errorf("the start line does not name %s:\n%s", want, s.err.String())
	}
	agree := func(when string) {
		t.Helper()
		var status httpapi.Status
		if s.get(t, "/status", &status); status.Config.Version != want || status.Health.Checks["config"].Detail != "version "+
			want {
			t.Errorf("%s: /status names %s and says %q, want %s", when, status.Config.Version,
				status.Health.Checks["config"].Detail, want)
		}
		d := doctor{app: &r.app, path: s.path, url: &s.url}
		d.checkConfiguration()
		d.checkCoordinator(t.Context())
		d.report.says(t, "configuration", checkOK, "version "+want)
		for _, c := range d.report.Checks {
			if strings.Contains(c.Text, "it works by version") {
				t.Errorf("%s: the doctor: %s", when, c.Text)
			}
		}
	}
	agree("at the start")
	if code := r.run(t, "quota", "set", "pool/alpha", "weight=3", "--url", s.url); code != exitOK {
		t.Fatalf("exit code %d: %s", code, s.err.String())
	}
	agree("after a change")
	s.signals <- syscall.SIGHUP
	const again = `"version":"%s","time":`
	s.until(t, "the second reading",
		func() bool { return strings.Contains(s.err.String(), "configuration read again: nothing has changed") })
	if line := lineWith(s.err.String(), "configuration read again"); !strings.Contains(line, fmt.Sprintf(again, want)) {
		t.Errorf("read again as another version than %s: %s", want, line)
	}
	agree("after the second reading")
	s.signals <- syscall.SIGTERM
	if code := <-s.exit; code != exitOK {
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

// What a node has for another period stands in its own row, with what it comes to, before its seats.
func TestCheckOfSeveralPeriods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quotas.yaml")
	text := `
pool: {limits: {total_tokens: {amount: 1000, per: month}, concurrency: {amount: 8}}}
groups: [{id: a, limits: {total_tokens: {amount: 50, per: day}, concurrency: {amount: 3}}}, {id: b}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig()
	if code := r.run(t, "check", file, "-o", "json"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, r.err.String())
	}
	var got struct {
		Files []struct {
			Quotas struct {
				Nodes []struct {
					ID           string
					Limits, Gets []string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.out.String()), &got); err != nil || len(got.Files) != 1 {
		t.Fatalf("%v: %s", err, r.out.String())
	}
	for _, n := range got.Files[0].Quotas.Nodes {
		if n.ID != "pool/a" {
			continue
		}
		// 50 a day, half of the month's 1,000 by weight beside it, and 3 of the seats.
		if want := []string{"50", "500", "3"}; len(n.Limits) != 3 || !slices.Equal(n.Gets, want) {
			t.Errorf("%q come to %q, want %q", n.Limits, n.Gets, want)
		}
		return
	}
	t.Error("pool/a is not listed")
}
