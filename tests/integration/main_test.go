package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is the built taskbus.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

// buildAndRun builds the program once for all tests. With `go test -race` it has
// the race detector too, and every test looks for what that reports.
func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "taskbus-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory for the program:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "taskbus")
	args := []string{"build", "-o", program}
	if raceDetector {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "taskbus/cmd/taskbus")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
