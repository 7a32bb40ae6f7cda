package failover

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"taskbus/tests/support/brokertest"
)

// program is the built taskbus.
var program string

var (
	// long switches on what takes minutes, and takeOvers is how many there are in a
	// row in leadersAreKilled.
	long      = flag.Bool("failover.long", false, "run the tests that take minutes, too")
	takeOvers = flag.Int("failover.takeovers", 10, "how many take-overs in a row")
)

// atOnce is how many scenarios run side by side without -parallel, whatever the machine:
// nearly all their time they wait for a broker, a process or a time-out.
const atOnce = 5

func TestMain(m *testing.M) {
	brokertest.SideBySide(atOnce)
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
	if !brokertest.HasServers() {
		return m.Run() // nothing starts the program
	}
	if program, err = brokertest.Program(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
