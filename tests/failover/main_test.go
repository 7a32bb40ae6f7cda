package failover

import (
	"flag"
	"fmt"
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
