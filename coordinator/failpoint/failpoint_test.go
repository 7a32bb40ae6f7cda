package failpoint

import (
	"regexp"
	"slices"
	"testing"
)

func TestPointsAreNamesForTheEnvironment(t *testing.T) {
	form := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[Point]bool{}
	for _, p := range Points() {
		if !form.MatchString(string(p)) || p == "panic" {
			t.Errorf("%q cannot be a point's name", p)
		}
		if seen[p] {
			t.Errorf("%s stands there twice", p)
		}
		seen[p] = true
	}
	if !slices.Contains(Points(), DuringReload) || len(seen) != 17 {
		t.Errorf("%d points, want 17", len(seen))
	}
}
