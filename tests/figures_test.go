package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"taskbus/coordinator/simulator"
)

// The forms of the commands of docs/figures.md.
var (
	simulates = regexp.MustCompile(`^taskbus simulate ([a-z-]+)( |$)`)
	makes     = regexp.MustCompile(`^(?:time )?make ([a-z-]+)$`)
	measures  = regexp.MustCompile(`^scripts/bench\.sh --only ([a-z]+)$`)
	runsGo    = regexp.MustCompile(`^go test (\./[a-z0-9/]+)((?: \S+)*)$`)
	option    = regexp.MustCompile(`-(run|bench) (\w+)`)
	flagged   = regexp.MustCompile(`-(failover\.[a-z]+)`)
)

// unmakeable says why a command of docs/figures.md cannot be given; empty: it can.
func unmakeable(t *testing.T, command string) string {
	t.Helper()
	if m := simulates.FindStringSubmatch(command); m != nil {
		if _, err := simulator.Open(m[1]); err != nil {
			return err.Error()
		}
		return ""
	}
	if m := makes.FindStringSubmatch(command); m != nil {
		if !strings.Contains(projectFile(t, "Makefile"), "\n"+m[1]+":") {
			return "the Makefile has no target " + m[1]
		}
		return ""
	}
	if m := measures.FindStringSubmatch(command); m != nil {
		if !benchParts(t)[m[1]] {
			return "tests/bench has no part " + m[1]
		}
		return ""
	}
	m := runsGo.FindStringSubmatch(command)
	if m == nil {
		return "it has none of the forms that tests/figures_test.go knows"
	}
	source := testsOf(t, m[1])
	if source == "" {
		return "there are no tests in " + m[1]
	}
	for _, o := range option.FindAllStringSubmatch(m[2], -1) {
		kind := map[string]string{"run": "Test", "bench": "Benchmark"}[o[1]]
		if !regexp.MustCompile(`func ` + kind + `\w*` + strings.TrimPrefix(o[2], kind)).MatchString(source) {
			return fmt.Sprintf("%s has no %s%s", m[1], kind, o[2])
		}
	}
	for _, f := range flagged.FindAllStringSubmatch(m[2], -1) {
		if !strings.Contains(source, `"`+f[1]+`"`) {
			return fmt.Sprintf("%s has no flag %s", m[1], f[1])
		}
	}
	return ""
}

// benchParts are the parts of the benchmark.
func benchParts(t *testing.T) map[string]bool {
	t.Helper()
	parts := map[string]bool{"engine": true} // of benchmarks beside their packages alone
	for _, m := range regexp.MustCompile(`(?m)(?:name: |Of\()"([a-z]+)/`).
		FindAllStringSubmatch(projectFile(t, "tests/bench/scenarios_test.go"), -1) {
		parts[m[1]] = true
	}
	if len(parts) < 3 {
		t.Fatalf("tests/bench/scenarios_test.go names the parts %v, want several", parts)
	}
	return parts
}

// testsOf is the source of all tests of a package.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	return all.String()
}

// Every figure of the pages can be made again: the commands that docs/figures.md gives exist, and every part of the
// benchmark has its row there.
func TestFiguresCanBeMadeAgain(t *testing.T) {
	const page = "docs/figures.md"
	text := projectFile(t, page)
	commands := regexp.MustCompile("`((?:time |taskbus |make |scripts/bench|go )[^`]*)`").FindAllStringSubmatch(text, -1)
	if len(commands) < 20 {
		t.Fatalf("%s gives %d commands, want 20 at least", page, len(commands))
	}
	for _, c := range commands {
		if why := unmakeable(t, c[1]); why != "" {
			t.Errorf("%s gives the command `%s`: %s", page, c[1], why)
		}
	}
	for part := range benchParts(t) {
		if !strings.Contains(text, "--only "+part+"`") {
			t.Errorf("%s lacks the part %s of the benchmark", page, part)
		}
	}
}

// The check has to be able to fail.
func TestUnmakeableFigures(t *testing.T) {
	for command, want := range map[string]string{
		"taskbus simulate nowhere":                                    "nowhere",
		"make coffee":                                                 "no target coffee",
		"scripts/bench.sh --only coffee":                              "no part coffee",
		"go test ./coordinator/engine -run - -bench Coffee":           "no BenchmarkCoffee",
		"go test ./tests -run Coffee":                                 "no TestCoffee",
		"go test ./nowhere -run Charts":                               "no tests",
		"go test ./tests/failover -v -parallel 1 -args -failover.tea": "no flag failover.tea",
		"go run ./tests/bench":                                        "none of the forms",
		"time make check":                                             "",
		"go test ./coordinator/engine -run - -bench Audit":            "",
	} {
		if got := unmakeable(t, command); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
