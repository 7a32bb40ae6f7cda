package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// The dashboard, as far as it can be held without Grafana: what it asks of Prometheus.

// dashboard is the part of deploy/grafana/quotas.json that the checks are about.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage // a string, or an object with one
			Regex      string
		}
	}
	Annotations struct{ List []struct{ Expr string } }
	Panels      []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct {
			RefID, Expr, LegendFormat string
			Datasource                struct{ UID string }
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(projectFile(t, "deploy/grafana/quotas.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// expressions are all that the dashboard asks Prometheus, by where they stand in it.
func (d *dashboard) expressions(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all[fmt.Sprintf("panel %q, %s", p.Title, target.RefID)] = target.Expr
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var query struct{ Query string }
		if err := json.Unmarshal(v.Query, &query); err != nil {
			t.Fatalf("the query of variable %s: %v", v.Name, err)
		}
		m := regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`).FindStringSubmatch(query.Query)
		if m == nil {
			t.Fatalf("variable %s: %q is not label_values(SERIES, LABEL)", v.Name, query.Query)
		}
		all["variable "+v.Name] = fmt.Sprintf("count by (%s) (%s)", m[2], m[1])
	}
	return all
}

func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" {
		t.Errorf("uid %q, title %q: an import needs both", d.UID, d.Title)
	}
	ids := make(map[int]string)
	taken := make(map[[2]int]string)
	for _, p := range d.Panels {
		if other := ids[p.ID]; other != "" || p.ID == 0 {
			t.Errorf("panels %q and %q have the id %d", other, p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x > 23 {
					t.Fatalf("panel %q lies upon %q, or outside of the 24 columns", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d %q: it wants a title, a description and something that it shows", p.ID, p.Title)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q asks %q, not the Prometheus that was chosen", p.Title, target.Datasource.UID)
			}
		}
	}
}

// Every variable that is used is there, and used; both of those that the dashboard is for are.
func TestDashboardVariables(t *testing.T) {
	d := readDashboard(t)
	known := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		known = append(known, v.Name)
	}
	used := make(map[string]bool)
	variable := regexp.MustCompile(`\$\{?(\w+)`)
	for _, m := range variable.FindAllStringSubmatch(projectFile(t, "deploy/grafana/quotas.json"), -1) {
		if used[m[1]] = true; m[1] != "__all" && !slices.Contains(known, m[1]) {
			t.Errorf("$%s is no variable of the dashboard", m[1])
		}
	}
	for _, name := range append(known, "group", "agent") {
		if !used[name] {
			t.Errorf("nothing uses the variable %s", name)
		}
	}
}

// Every series is one that the program exports or the rules record; and nothing that the program
// exports of quotas and calls is left out.
func TestDashboardSeries(t *testing.T) {
	d := readDashboard(t)
	known, labels := seriesNames(t, alertRules(t)), metricLabels(t)
	used := make(map[string]bool)
	for where, expr := range d.expressions(t) {
		for _, unknown := range unknownSeries(expr, known) {
			t.Errorf("%s uses %s, which nothing exports or records", where, unknown)
		}
		for _, label := range labelsOf(expr) {
			if !slices.Contains(labels, label) {
				t.Errorf("%s: no metric has the label %s", where, label)
			}
		}
		for _, name := range series.FindAllString(expr, -1) {
			used[histogram.ReplaceAllString(name, "")] = true
		}
	}
	ofQuotas := regexp.MustCompile(`^taskbus_(quota_|call)`)
	for _, name := range metricNames(t) {
		if ofQuotas.MatchString(name) && !used[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(labelsOf(target.Expr), m[1]) && !strings.Contains(target.Expr, "taskbus:") {
					t.Errorf("panel %q, %s: the legend shows %s, by which %s is not grouped", p.Title, target.RefID, m[1], target.Expr)
				}
			}
		}
	}
}

// promtool parses every expression, with what Grafana puts in the place of variables.
func TestDashboardInPrometheus(t *testing.T) {
	d := readDashboard(t)
	filled := strings.NewReplacer("$__rate_interval", "5m", "$group", `(red|blue\\.1)`,
		"$agent", "(a1|a2)", "$dimension", "(cost_usd|total_tokens)")
	type record struct {
		Record string            `yaml:"record"`
		Expr   string            `yaml:"expr"`
		Labels map[string]string `yaml:"labels"`
	}
	var rules []record
	for where, expr := range d.expressions(t) {
		rules = append(rules, record{"dashboard", filled.Replace(expr), map[string]string{"where": where}})
	}
	for i, a := range d.Annotations.List {
		rules = append(rules, record{"dashboard", a.Expr, map[string]string{"where": fmt.Sprint("annotation ", i)}})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dashboard.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	said := promtool(t, dir, "check", "rules", "dashboard.yaml")
	if want := fmt.Sprintf("%d rules found", len(rules)); !t.Failed() && !strings.Contains(said, want) {
		t.Errorf("promtool says %q, want %s", said, want)
	}
}

// labelsOf are the labels by which an expression selects and groups.
func labelsOf(expr string) (labels []string) {
	for _, m := range regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`).FindAllStringSubmatch(expr, -1) {
		labels = append(labels, m[1])
	}
	for _, m := range regexp.MustCompile(`\b(?:by|on) \(([a-z_, ]+)\)`).FindAllStringSubmatch(expr, -1) {
		labels = append(labels, strings.Split(m[1], ", ")...)
	}
	return labels
}

// metricLabels are all labels of the program's metrics, and those that Prometheus adds.
func metricLabels(t *testing.T) []string {
	t.Helper()
	labels := []string{"job", "instance", "le"}
	for _, d := range metricDescs(t) {
		if m := regexp.MustCompile(`variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String()); m != nil {
			labels = append(labels, strings.Split(m[1], ",")...)
		}
	}
	return labels
}
