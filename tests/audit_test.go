package tests

import (
	"regexp"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// Every invariant has its line in the table of the auditor, and there is no other.
func TestInvariantReference(t *testing.T) {
	const page = "docs/operations.md"
	text := projectFile(t, page)
	from, to := strings.Index(text, "| invariant | what must hold |"), strings.Index(text, "The equation of `conservation`")
	if from < 0 || to < from {
		t.Fatalf("%s has no table of invariants", page)
	}
	got := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(text[from:to], -1) {
		got[m[1]] = true
	}
	var want []string
	for i := range coordinator.NumInvariants {
		want = append(want, coordinator.Invariant(i).String())
	}
	sameNames(t, page, got, want)
}
