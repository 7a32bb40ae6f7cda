package faults

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"taskbus/tests/support/brokertest"
)

var (
	wholeMatrix = flag.Bool("faults.all", false, "run every cell of the matrix, not only the short form")
	soakFor     = flag.Duration("faults.soak", 0, "how long the random soak lasts; 0: not at all")
	program     = flag.String("faults.program", "",
		"a built taskbus to test in place of the one of this source; cells with failpoints always build theirs")
	seed = flag.Uint64("faults.seed", 0, "seed of everything random; 0: a new one, which is printed")
)

// atOnce is how many cells run side by side: nearly all their time they wait.
const atOnce = 6

// programs are the built taskbus, with and without failpoints.
var programs struct {
	dir             string
	plain, breaking func() (string, error)
}

func TestMain(m *testing.M) {
	brokertest.SideBySide(atOnce)
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
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
		return brokertest.Program(dir)
	})
	programs.breaking = sync.OnceValues(func() (string, error) { return brokertest.Program(dir, "-tags=failpoint") })
	fmt.Printf("faults: -faults.seed=%d -faults.all=%t -faults.soak=%v\n", *seed, *wholeMatrix, *soakFor)
	return m.Run()
}
