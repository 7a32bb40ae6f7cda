package brokertest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Of what a node logs, the errors since the test began are told.
func TestErrorsOfTheLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.log")
	const before = "t [error] <0.1.0> of another test\n"
	const since = "t [info] <0.2.0> a queue\nt [error] <0.3.0> badmatch\nt [error] <0.3.0>   in a function\n"
	if err := os.WriteFile(file, []byte(before+since), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"t [error] <0.3.0> badmatch", "t [error] <0.3.0>   in a function"}
	if got := errorsIn(file, int64(len(before))); !slices.Equal(got, want) {
		t.Errorf("errors %q, want %q", got, want)
	}
	if got := errorsIn(file, 1<<20); got != nil {
		t.Errorf("errors %q of a file that has begun anew", got)
	}
}
