package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// A region is a part of a page that is written by a function from what the code says. The page marks
// it, each mark on a line of its own with nothing else:
//
//	<!-- begin generated NAME -->
//	<!-- end generated -->
type region struct {
	name string
	page string
	text func(t *testing.T) string // Markdown, usually a table
}

// regions are all generated parts of the documentation. Every one is on its page exactly once.
func regions(t *testing.T) []region {
	all := []region{
		{"packages", "docs/ARCHITECTURE.md", packageList},
		{"causes", "docs/reference/reasons.md", causes},
		{"endpoints", "docs/reference/http.md", endpoints},
		{"invariants", "docs/reference/metrics.md", invariants},
		{"metrics", "docs/reference/metrics.md", metrics},
		{"sdk-metrics", "docs/reference/sdk.md", sdkMetrics},
		{"exit-codes", "docs/reference/command.md", exitCodes},
		{"variables", "docs/reference/command.md", variables},
		{"reasons", "docs/reference/reasons.md", reasonCodes},
		{"runbooks", runbookPages + "/README.md", runbookList},
		{"call-fields", callsPage, callFields},
		{"call-headers", callsPage, authHeaders},
	}
	return slices.Concat(all, keyRegions(t, "docs/reference/configuration.md"),
		quotaRegions(t, "docs/reference/quotas.md"),
		fieldRegions(t))
}

const updateReference = "go test ./tests -run TestReference -update"

var markedRegion = regexp.MustCompile(`(?m)^<!-- begin generated (\S+) -->\n((?s:.*?))^<!-- end generated -->$`)

// TestReference compares every generated part of the documentation with what generates it; with
// -update it writes them.
func TestReference(t *testing.T) {
	for _, page := range pages(t) {
		want := make(map[string]func(*testing.T) string)
		for _, r := range regions(t) {
			if r.page == page {
				want[r.name] = r.text
			}
		}
		old := projectFile(t, page)
		text, faults := regenerate(old, func(name string) (string, bool) {
			f, ok := want[name]
			delete(want, name)
			if !ok {
				return "", false
			}
			return f(t), true
		})
		for name := range want {
			faults = append(faults, "add <!-- begin generated "+name+" --> and <!-- end generated -->")
		}
		for _, fault := range faults {
			t.Errorf("%s: %s", page, fault)
		}
		if text == old {
			continue
		}
		if !*update {
			t.Errorf("%s: to write it: %s", page, updateReference)
		} else if err := os.WriteFile(filepath.Join("..", page), []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	for _, r := range regions(t) {
		if !slices.Contains(pages(t), r.page) {
			t.Errorf("%s: the page of the region %s does not exist", r.page, r.name)
		}
	}
}

// regenerate replaces the regions of a page. The faults name every region that has no generator or
// is there twice, and, for what *update does not write, the first line that differs.
func regenerate(page string, generate func(name string) (string, bool)) (text string, faults []string) {
	text = markedRegion.ReplaceAllStringFunc(page, func(marked string) string {
		m := markedRegion.FindStringSubmatch(marked)
		made, ok := generate(m[1])
		if !ok {
			faults = append(faults, m[1]+": not in regions of tests/reference_test.go, or twice on the page")
			return marked
		}
		if made == m[2] {
			return marked
		}
		if !*update {
			faults = append(faults, m[1]+": "+firstDifference(m[2], made))
		}
		return strings.Replace(marked, m[2]+"<!-- end", made+"<!-- end", 1)
	})
	begun, found := strings.Count(page, "<!-- begin generated "), len(markedRegion.FindAllString(page, -1))
	if begun != found {
		faults = append(faults, fmt.Sprintf("%d regions begin and %d end", begun, found))
	}
	return text, faults
}

// The check has to be able to fail.
func TestRegenerate(t *testing.T) {
	page := "# P\n<!-- begin generated a -->\nold\n<!-- end generated -->\n" +
		"<!-- begin generated b -->\n<!-- end generated -->\n<!-- begin generated c -->\n"
	made := map[string]string{"a": "new\n"}
	text, faults := regenerate(page, func(name string) (string, bool) { s, ok := made[name]; return s, ok })
	if want := strings.Replace(page, "old", "new", 1); text != want {
		t.Errorf("%q, want %q", text, want)
	}
	said := strings.Join(faults, "\n")
	for _, want := range []string{"b: not in regions", "3 regions begin and 2 end"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
	if want := `a: line 1: "old", want "new"`; strings.Contains(said, want) == *update {
		t.Errorf("%q, want %q unless -update is given", said, want)
	}
}

// listOf writes rows as a list of names with what they mean: what stands between in a row, such as the values of a key,
// is in brackets.
func listOf(rows [][]string) string {
	var out strings.Builder
	for _, row := range rows {
		line := "- " + row[0]
		if between := strings.Join(row[1:len(row)-1], "; "); between != "" {
			line += " (" + between + ")"
		}
		if meaning := row[len(row)-1]; meaning != "" {
			line += ": " + meaning
		}
		out.WriteString(strings.ReplaceAll(line, "\n", " ") + "\n")
	}
	return out.String()
}

func reasonCodes(*testing.T) string {
	var rows [][]string
	for _, r := range coordinator.Reasons() {
		runbook := "[`" + r.String() + "`](../runbooks/" + r.String() + ".md)"
		retry := "final"
		if r.RetryPossible() {
			retry = "retry possible"
		}
		rows = append(rows, []string{runbook, retry, r.Meaning()})
	}
	return listOf(rows)
}

func causes(*testing.T) string {
	var rows [][]string
	for why := coordinator.Eligible + 1; why < coordinator.NumIneligibilities; why++ {
		rows = append(rows, []string{"`" + why.String() + "`", why.Meaning() + " → " + why.Until()})
	}
	return listOf(rows)
}

// exitCodes is what `taskbus --help` says, held against the constants of the command.
func exitCodes(t *testing.T) string {
	_, said, _ := strings.Cut(projectFile(t, "cmd/taskbus/root.go"), "\nExit codes:\n")
	said, _, _ = strings.Cut(said, "`")
	rows := make([][]string, 0, 7)
	for line := range strings.Lines(said) {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		if code[0] < '0' || code[0] > '9' { // continues the line before
			rows[len(rows)-1][1] += " " + strings.TrimSpace(line)
			continue
		}
		rows = append(rows, []string{code, strings.TrimSpace(meaning)})
	}
	for _, value := range inSource(t, "cmd/taskbus/cli", `\bExit[A-Z]\w+ += (\d+)`) {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[0] == value }) {
			t.Errorf("taskbus --help does not say what exit code %s is", value)
		}
	}
	return listOf(rows)
}

// inSource is what the first group of a pattern matches in the files of a package, outside its tests.
func inSource(t *testing.T, dir, pattern string) (found []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := projectFile(t, dir+"/"+filepath.Base(file))
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has nothing like %s", dir, pattern)
	}
	return found
}
