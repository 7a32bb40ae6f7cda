package clients

import (
	"fmt"
	"os"
	"testing"

	"taskbus/tests/support/brokertest"
)

// program is the built taskbus.
var program string

// atOnce is how many tests run side by side, whatever the machine: most of the time they wait.
const atOnce = 6

func TestMain(m *testing.M) {
	brokertest.SideBySide(atOnce)
	os.Exit(buildAndRun(m))
}

// buildAndRun builds the program once for all tests.
func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "taskbus-clients-")
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
