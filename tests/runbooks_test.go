package tests

import (
	"path/filepath"
	"strings"
	"testing"

	"taskbus/coordinator"
)

const runbookPages = "docs/runbooks"

// Every alert and every reason of a refusal has a page under its name, and no page is without one.
func TestRunbooks(t *testing.T) {
	var names []string
	rules := alertRules(t)
	known := seriesNames(t, rules)
	for _, r := range rules {
		if r.Alert != "" {
			names = append(names, r.Alert)
		}
	}
	for _, r := range coordinator.Reasons() {
		names = append(names, r.String())
	}
	files, err := filepath.Glob(filepath.Join("..", runbookPages, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name == "README" {
			continue
		}
		found[name] = true
		text := projectFile(t, runbookPages+"/"+name+".md")
		for _, part := range []string{"# " + name + "\n", "\n- **Look:** ", "\n- **Do:** ", "\n- **Ignore:** "} {
			if strings.Count(text, part) != 1 {
				t.Errorf("%s: %q is not there once", file, part)
			}
		}
		for _, metric := range series.FindAllString(text, -1) {
			if len(unknownSeries(metric, known)) > 0 {
				t.Errorf("%s: no metric is called %s", file, metric)
			}
		}
		if n := len(strings.Fields(text)); n < 40 || n > 110 {
			t.Errorf("%s has %d words, want 40 to 110", file, n)
		}
	}
	sameNames(t, runbookPages, found, names)
}

// runbookList is the list of the alerts in docs/runbooks/README.md, by severity. Reasons are in their own reference.
func runbookList(t *testing.T) string {
	var list strings.Builder
	section := func(heading string, names []string) {
		list.WriteString("\n## " + heading + "\n\n")
		for _, name := range names {
			list.WriteString("- [" + name + "](" + name + ".md)\n")
		}
	}
	severities := make(map[string][]string)
	for _, r := range alertRules(t) {
		if r.Alert != "" {
			severities[r.Labels["severity"]] = append(severities[r.Labels["severity"]], r.Alert)
		}
	}
	section("Alerts, critical", severities["critical"])
	section("Alerts, warning", severities["warning"])
	return list.String() + "\n"
}
