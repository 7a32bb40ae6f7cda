package tests

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"taskbus/tests/support/brokertest"
)

// The alerts: what can be said of the file, and what Prometheus' own promtool says of it.

const alertsFile = "deploy/prometheus/alerts.yaml"

// runbooks is the base of their runbooks, for an operator to put another in its place.
const runbooks = "https://taskbus.example/"

// alertRule is one rule of alertsFile: an alert, or what is recorded for others.
type alertRule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

func alertRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alertRule }
	}
	if err := yaml.Unmarshal([]byte(projectFile(t, alertsFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

func TestAlerts(t *testing.T) {
	rules := alertRules(t)
	known := seriesNames(t, rules)
	for _, r := range rules {
		for _, unknown := range unknownSeries(r.Expr, known) {
			t.Errorf("%s%s uses %s, which nothing exports or records", r.Alert, r.Record, unknown)
		}
		if r.Record != "" {
			if !strings.HasPrefix(r.Record, "taskbus:") {
				t.Errorf("what is recorded as %q: the name begins with taskbus:", r.Record)
			}
			continue
		}
		if !strings.HasPrefix(r.Alert, "Taskbus") {
			t.Errorf("alert %q: the name begins with Taskbus", r.Alert)
		}
		for _, a := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[a] == "" {
				t.Errorf("alert %s lacks %s", r.Alert, a)
			}
		}
		if want := runbooks + "docs/runbooks/" + r.Alert + ".md"; r.Annotations["runbook_url"] != want {
			t.Errorf("alert %s: runbook_url %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("alert %s: severity %q", r.Alert, s)
		}
	}
}

// promtool checks every expression and template, and runs the alerts on made-up series.
func TestAlertsInPrometheus(t *testing.T) {
	promtool(t, "../deploy/prometheus", "check", "rules", "alerts.yaml")
	promtool(t, "../deploy/prometheus", "test", "rules", "alerts_test.yaml")
}

// The command of deploy/README.md puts an operator's own place before every runbook.
func TestRunbooksCanBeElsewhere(t *testing.T) {
	command := regexp.MustCompile(`(?m)^sed .*alerts\.yaml > \S+$`).FindString(projectFile(t, "deploy/README.md"))
	if command == "" {
		t.Fatal("deploy/README.md has no such command")
	}
	command, _, _ = strings.Cut(command, " > ")
	sed := exec.CommandContext(t.Context(), "sh", "-c", command)
	sed.Dir = "../deploy/prometheus"
	out, err := sed.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	n := strings.Count(string(out), "runbook_url: https://git.example.org/ops/taskbus/docs/runbooks/Taskbus")
	if all := strings.Count(projectFile(t, alertsFile), "runbook_url: "); n != all || n == 0 {
		t.Errorf("%d of %d runbooks are where they should be", n, all)
	}
}

// Every alert of quotas, calls, and what becomes of tasks is in the file of their tests, which says
// when it fires.
func TestAlertsAreTested(t *testing.T) {
	tests, n := projectFile(t, "deploy/prometheus/alerts_test.yaml"), 0
	timed := regexp.MustCompile("^Taskbus(Quota|Call|Results|QueueB|TaskT|Poison|AgentsE|AgentsM|ConfigD)")
	for _, r := range alertRules(t) {
		if !timed.MatchString(r.Alert) {
			continue
		}
		n++
		if !regexp.MustCompile(r.Alert + `\b`).MatchString(tests) {
			t.Errorf("alerts_test.yaml has nothing about %s", r.Alert)
		}
	}
	if n < 17 {
		t.Errorf("%d alerts, want 17 or more: are they called otherwise now?", n)
	}
}

// promtool runs it in a folder, and fails the test with what it says if it is not content.
func promtool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	brokertest.Needs(t, "promtool")
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = dir
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Fatal("there is no promtool: run scripts/ensure.sh test-tools (Debian: apt-get install prometheus)")
	}
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return string(said)
}

// seriesNames are the metrics of the program and what the rules record.
func seriesNames(t *testing.T, rules []alertRule) []string {
	t.Helper()
	names := metricNames(t)
	for _, r := range rules {
		if r.Record != "" {
			names = append(names, r.Record)
		}
	}
	return names
}

var (
	series    = regexp.MustCompile(`\btaskbus[_:][a-z0-9_:]+`)
	histogram = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// unknownSeries are those that an expression uses and nothing exports. An expression without any
// looks at nothing of Taskbus, and is its own complaint.
func unknownSeries(expr string, known []string) (unknown []string) {
	used := series.FindAllString(expr, -1)
	if len(used) == 0 {
		return []string{"no series of Taskbus (" + expr + ")"}
	}
	for _, name := range used {
		if !slices.Contains(known, name) && !slices.Contains(known, histogram.ReplaceAllString(name, "")) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// The check itself has to be able to fail.
func TestUnknownSeries(t *testing.T) {
	known := []string{"taskbus_held", "taskbus_wait_seconds", "taskbus:held:sum"}
	for expr, want := range map[string]int{
		"sum(taskbus_held) + taskbus:held:sum":   0,
		"rate(taskbus_wait_seconds_bucket[5m])":  0,
		"taskbus_helt / taskbus:held:avg":        2,
		`up{job="taskbus"}`:                      1,
		`max(taskbus_held{queue="task.assign"})`: 0,
	} {
		if got := unknownSeries(expr, known); len(got) != want {
			t.Errorf("%s: unknown %q, want %d", expr, got, want)
		}
	}
}

// The example for Alertmanager hears of labels that the alerts have, and sends to receivers that
// it has, with no password in it. It can be checked in full with amtool.
func TestAlertmanagerExample(t *testing.T) {
	type route struct {
		Receiver string
		Matchers []string
		Routes   []route
	}
	var file struct {
		Route   route
		Inhibit []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
			Equal  []string
		} `yaml:"inhibit_rules"`
		Receivers []struct{ Name string }
	}
	text := projectFile(t, "deploy/prometheus/alertmanager.yaml")
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	var receivers []string
	for _, r := range file.Receivers {
		receivers = append(receivers, r.Name)
	}
	names, percents := make(map[string]bool), make(map[string]bool)
	for _, r := range alertRules(t) {
		names[r.Alert], percents[r.Labels["percent"]] = true, true
	}
	matched := 0
	matches := func(matchers []string) {
		for _, m := range matchers {
			parts := regexp.MustCompile(`^(alertname|node|severity|percent)(=~?)"(.+)"$`).FindStringSubmatch(m)
			if parts == nil {
				t.Errorf("matcher %q is on no label that alerts of Taskbus have", m)
				continue
			}
			known := map[string]map[string]bool{
				"alertname": names, "percent": percents, "severity": {"critical": true, "warning": true},
			}[parts[1]]
			whole := regexp.MustCompile("^(?:" + parts[3] + ")$")
			if parts[2] == "=" {
				whole = regexp.MustCompile("^" + regexp.QuoteMeta(parts[3]) + "$")
			}
			matched++
			if known != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(known)), whole.MatchString) {
				t.Errorf("no alert has what %s asks for", m)
			}
		}
	}
	for _, r := range append(file.Route.Routes, file.Route) {
		if !slices.Contains(receivers, r.Receiver) {
			t.Errorf("receiver %q is not there", r.Receiver)
		}
		matches(r.Matchers)
	}
	for _, i := range file.Inhibit {
		matches(i.Source)
		matches(i.Target)
		if !slices.Equal(i.Equal, []string{"node", "dimension"}) {
			t.Errorf("%v quiets %v of other budgets", i.Source, i.Target)
		}
	}
	if matched < 8 || strings.Contains(text, "password:") {
		t.Errorf("%d matchers, want 8 or more; or there is a password in the file", matched)
	}
}
