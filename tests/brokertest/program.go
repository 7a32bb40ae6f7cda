package brokertest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// DependOnProgram opens the folders of all that the program is made of. `go test` would
// otherwise give an earlier result for another program, because nothing in a test imports
// it: what a test opens counts, with the sizes and times of the files in it.
func DependOnProgram(t testing.TB) {
	t.Helper()
	root := ModuleRoot(t)
	for _, top := range []string{"cmd", "config", "coordinator", "messages", "schemas", "scripts"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(_ string, _ fs.DirEntry, err error) error { return err })
		if err != nil {
			t.Fatalf("look at the sources of the program: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "go.sum")); err != nil {
		t.Fatalf("look at the sources of the program: %v", err)
	}
}
