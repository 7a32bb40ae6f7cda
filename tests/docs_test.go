package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"gopkg.in/yaml.v3"

	"taskbus/agent"
	"taskbus/agent/balance"
	"taskbus/config"
	"taskbus/coordinator/invariant"
	"taskbus/coordinator/service"
	"taskbus/coordinator/strategy"
	"taskbus/coordinator/webhook"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// The reference tables of docs/ are compared with what they describe, in both
// directions: nothing is missing, and nothing stands there that is not.

// rows gives the cells of every table row of a page whose first cell is one
// word in backquotes that the pattern matches, by that word.
func rows(t *testing.T, page, pattern string) map[string][]string {
	t.Helper()
	name := regexp.MustCompile("^`(" + pattern + ")`$")
	found := make(map[string][]string)
	for line := range strings.Lines(projectFile(t, page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if m := name.FindStringSubmatch(cells[0]); m != nil && strings.HasPrefix(line, "|") {
			if found[m[1]] != nil {
				t.Errorf("%s has two rows for %s", page, m[1])
			}
			found[m[1]] = cells
		}
	}
	return found
}

// sameNames compares the rows of a page with the names they should have.
func sameNames[V any](t *testing.T, page string, rows map[string]V, want []string) {
	t.Helper()
	if len(want) == 0 {
		t.Fatalf("nothing to compare %s with", page)
	}
	for _, name := range want {
		if _, ok := rows[name]; !ok {
			t.Errorf("%s lacks %s", page, name)
		}
	}
	for name := range rows {
		if !slices.Contains(want, name) {
			t.Errorf("%s describes %s, which does not exist", page, name)
		}
	}
}

// A strategy that is in the registry alone would be refused by editors, and
// it would not be known.
func TestStrategiesAreDescribed(t *testing.T) {
	var root schemaNode
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	const schema = "config/agents.schema.json"
	sameNames(t, schema+" (assignment_strategies)", root.Properties.byName()["assignment_strategies"].Properties.byName(),
		strategy.Names())
	inRoutes := make(map[string]bool)
	for _, name := range root.Definitions["route"].Properties.byName()["strategy"].Enum {
		inRoutes[fmt.Sprint(name)] = true
	}
	sameNames(t, schema+" (strategy of a route)", inRoutes, strategy.Names())
	for _, page := range []string{"docs/reference/strategies.md", "docs/reference/configuration.md"} {
		for _, name := range strategy.Names() {
			if !strings.Contains(projectFile(t, page), "`"+name+"`") {
				t.Errorf("%s does not mention the strategy %s", page, name)
			}
		}
	}
}

var described = regexp.MustCompile(
	`^Desc\{fqName: "([^"]+)", help: ("(?:[^"\\]|\\.)*"), .*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)

// metrics is the table of all metrics, by their names: labels and what the program says of them.
func metrics(t *testing.T) string {
	rows := metricRows(t, metricDescs(t))
	rows = append(rows, []string{"`taskbus_build_info{version,revision,goversion}`", "Always 1."}) // the program's own
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return listOf(rows)
}

// metricRows are the rows of metrics: names, labels and what the program says of them.
func metricRows(t *testing.T, descs []*prometheus.Desc) (rows [][]string) {
	t.Helper()
	for _, d := range descs {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%s has not the form that is looked for", d)
		}
		help, err := strconv.Unquote(m[2])
		if err != nil {
			t.Fatal(err)
		}
		labels := m[4]
		if m[3] != "" {
			labels, _, _ = strings.Cut(m[3], "=")
		}
		name := m[1]
		if labels != "" {
			name += "{" + labels + "}"
		}
		rows = append(rows, []string{"`" + name + "`", help})
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return slices.CompactFunc(rows, func(a, b []string) bool { return a[0] == b[0] }) // one of each invariant
}

// metricNames are all metrics that the program may export.
func metricNames(t *testing.T) []string {
	t.Helper()
	names := []string{"taskbus_build_info"} // the program's own
	for _, d := range metricDescs(t) {
		names = append(names, regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1])
	}
	return names
}

// metricDescs describes all metrics of the service, and of the webhook.
func metricDescs(t *testing.T) (all []*prometheus.Desc) {
	t.Helper()
	cfg, err := config.Parse([]byte("agents: {}"), "test")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if _, err := service.New(service.Options{Config: cfg, Bus: membus.New(), Logger: zerolog.Nop(),
		Registry: registry}); err != nil {
		t.Fatal(err)
	}
	if _, err := webhook.New(webhook.Options{URL: "http://localhost", Registry: registry}); err != nil {
		t.Fatal(err)
	}
	described := make(chan *prometheus.Desc)
	go func() { registry.Describe(described); close(described) }()
	for d := range described {
		all = append(all, d)
	}
	return all
}

// endpoints is the table of what schemas/openapi.yaml describes, which a test of httpapi holds to
// the server: methods with their tokens, and what they are for.
func endpoints(t *testing.T) string {
	var document struct{ Paths yaml.Node }
	if err := yaml.Unmarshal([]byte(projectFile(t, "schemas/openapi.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	var calls []string // which docs/reference/calls.md describes
	for i := 0; i < len(document.Paths.Content); i += 2 {
		path, methods := document.Paths.Content[i].Value, document.Paths.Content[i+1].Content
		for j := 0; j < len(methods); j += 2 {
			if methods[j].Value == "parameters" { // of all methods
				continue
			}
			var operation struct {
				Summary  string
				Security []map[string]any
			}
			if err := methods[j+1].Decode(&operation); err != nil {
				t.Fatal(err)
			}
			request := "`" + strings.ToUpper(methods[j].Value) + " " + path + "`"
			switch s := operation.Security; {
			case len(s) > 1 && len(s[0]) == 0: // a token shows more
			case len(s) > 1 && s[0]["producer"] != nil: // or an operator's
				request += " producer"
			case len(s) == 1:
				request += " " + slices.Collect(maps.Keys(s[0]))[0]
			case len(s) > 1:
				calls = append(calls, request)
				continue
			}
			rows = append(rows, []string{request, operation.Summary})
		}
	}
	return listOf(append(rows, []string{strings.Join(calls, ", ") + " caller", "[Calls](calls.md)."}))
}

// invariants is the table of what the auditor looks at: the comments of their constants.
func invariants(t *testing.T) string {
	comment := regexp.MustCompile(`(?m)(?:^\t// .+\n)+^\t([A-Z]\w+)(?: Name = iota)?$`)
	var rows [][]string
	for _, m := range comment.FindAllStringSubmatch(projectFile(t, "coordinator/invariant/invariant.go"), -1) {
		text := strings.ReplaceAll(m[0], "\n\t// ", " ")
		name, text, _ := strings.Cut(strings.TrimPrefix(text, "\t// "), ": ")
		text, _, _ = strings.Cut(text, ".\n")
		if name != m[1] || len(rows) >= invariant.Count {
			t.Fatalf("the comment of %s begins with %q", m[1], name)
		}
		rows = append(rows, []string{"`" + invariant.Name(len(rows)).String() + "`", text})
	}
	if len(rows) != invariant.Count {
		t.Errorf("%d invariants have comments, want %d", len(rows), invariant.Count)
	}
	return listOf(rows)
}

func TestMessageExamplesAreValid(t *testing.T) {
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	for _, page := range messagePages {
		for _, b := range blocks(t, page, "schema") {
			shown[b.name] = true
			var value any
			if err := json.Unmarshal([]byte(b.text), &value); err != nil {
				t.Errorf("%s: the example of %s is not JSON: %v", page, b.name, err)
				continue
			}
			if err := set.Validate(b.name, value); err != nil {
				t.Errorf("%s: the example of %s: %v", page, b.name, err)
			}
		}
	}
	sameNames(t, "docs/reference", shown, schemas.Names())
}

func TestDependenciesHaveReasons(t *testing.T) {
	const page = "docs/ARCHITECTURE.md"
	var direct []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+|\S+\.\S+) v\S+(.*)$`).
		FindAllStringSubmatch(projectFile(t, "go.mod"), -1) {
		if !strings.Contains(m[2], "// indirect") {
			direct = append(direct, m[1])
		}
	}
	got := rows(t, page, `[a-z0-9.]+\.[a-z]+/[A-Za-z0-9./_-]+`)
	if len(direct) == 0 {
		t.Fatal("go.mod names no direct dependency")
	}
	for _, name := range direct {
		if cells := got[name]; len(cells) != 3 || cells[2] == "" {
			t.Errorf("%s gives no reason for the direct dependency %s", page, name)
		}
	}
	for name := range got {
		if !strings.Contains(projectFile(t, "go.mod"), name+" v") {
			t.Errorf("%s gives a reason for %s, which go.mod does not have", page, name)
		}
	}
}

// TestAddingAStrategy carries the page out in an overlay of the source: the new
// file, its row in the registry, the new test.
func TestAddingAStrategy(t *testing.T) {
	const page, folder, first = "docs/adding-a-strategy.md", "coordinator/strategy", "var registry = []kind{\n"
	text := make(map[string]string)
	for _, b := range blocks(t, page, "strategy") {
		text[b.name] = b.text
	}
	registry := strings.SplitAfter(projectFile(t, folder+"/strategy.go"), "\n")
	at := slices.Index(registry, first)
	row := func(line string) bool { return strings.HasPrefix(line, "\t{name: ") && line > text["registry"] }
	if place := slices.IndexFunc(registry, row); at < 0 || place < at || text["registry"] == "" {
		t.Fatalf("no place for %q in %s/strategy.go", text["registry"], folder)
	} else {
		text["strategy.go"] = strings.Join(slices.Insert(registry, place, text["registry"]), "")
	}
	delete(text, "registry")

	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	replace := make(map[string]string)
	for name, content := range text {
		replaced := filepath.Join(dir, name)
		if err := os.WriteFile(replaced, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, folder, name)] = replaced
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-overlay", overlayFile, "-count=1", "-v", "-run", "^(TestQuickest|TestKeys)$",
		"./"+folder)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestQuickest") {
		t.Errorf("what %s says does not work: %v\n%s", page, err, out)
	}
}

// registrations describes what is registered, and registers nothing.
type registrations struct {
	prometheus.Registerer
	descs []*prometheus.Desc
}

func (r *registrations) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc)
	go func() { c.Describe(described); close(described) }()
	for d := range described {
		r.descs = append(r.descs, d)
	}
	return nil
}

func (r *registrations) Unregister(prometheus.Collector) bool { return true }

// sdkMetrics is the table of the metrics of an agent that bids and claims.
func sdkMetrics(t *testing.T) string {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var seen registrations
	cfg := agent.Config{
		ID: "a", Slots: 1, Bus: membus.New(), Metrics: &seen, Logger: slog.New(slog.DiscardHandler),
		Bidder: agent.DefaultBidder(1, time.Second), Pull: new(balance.Default()),
	}
	handle := func(context.Context, *agent.Task) (agent.Result, error) { return agent.Result{}, nil }
	if err := agent.Run(ctx, cfg, handle); err != nil || len(seen.descs) == 0 {
		t.Fatalf("%v, %d metrics", err, len(seen.descs))
	}
	return listOf(metricRows(t, seen.descs))
}
