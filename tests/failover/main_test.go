package failover

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is the built taskbus.
var program string

var (
	// long switches on what takes minutes, and takeOvers is how many there are in a
	// row in leadersAreKilled.
	long      = flag.Bool("failover.long", false, "run the tests that take minutes, too")
	takeOvers = flag.Int("failover.takeovers", 10, "how many take-overs in a row")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

// buildAndRun builds the program once for all tests.
func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "taskbus-failover-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory for the program:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "taskbus")
	if out, err := exec.Command("go", "build", "-o", program, "taskbus/cmd/taskbus").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// dependOnProgram opens the folders of all that the program is made of. `go test` would
// otherwise give an earlier result for another program, because nothing here imports
// it: what a test opens counts, with the sizes and times of the files in it.
func dependOnProgram(t *testing.T) {
	t.Helper()
	root := filepath.Join("..", "..")
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
