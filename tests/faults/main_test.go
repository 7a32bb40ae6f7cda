package faults

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var (
	wholeMatrix = flag.Bool("faults.all", false, "run every cell of the matrix, not only the short form")
	soakFor     = flag.Duration("faults.soak", 0, "how long the random soak lasts; 0: not at all")
	program     = flag.String("faults.program", "", "a built taskbus to test in place of the one of this source; cells with failpoints always build theirs")
	seed        = flag.Uint64("faults.seed", 0, "seed of everything random; 0: a new one, which is printed")
)

// atOnce is how many cells run side by side: nearly all their time they wait.
const atOnce = "6"

// programs are the built taskbus, with and without failpoints.
var programs struct {
	dir             string
	plain, breaking func() (string, error)
}

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		fmt.Fprintln(os.Stderr, "run cells side by side:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "taskbus-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory for the programs:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs.plain = sync.OnceValues(func() (string, error) {
		if *program != "" {
			return *program, nil
		}
		return build(dir, "taskbus")
	})
	programs.breaking = sync.OnceValues(func() (string, error) { return build(dir, "taskbus-failpoint", "-tags", "failpoint") })
	fmt.Printf("faults: -faults.seed=%d -faults.all=%t -faults.soak=%v\n", *seed, *wholeMatrix, *soakFor)
	return m.Run()
}

// build makes the program once, when the first cell wants it.
func build(dir, name string, args ...string) (string, error) {
	path := filepath.Join(dir, name)
	all := append(append([]string{"build", "-o", path}, args...), "taskbus/cmd/taskbus")
	if out, err := exec.Command("go", all...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
}
