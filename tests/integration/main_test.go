package integration

import (
	"os"
	"testing"

	"taskbus/tests/support/brokertest"
)

// program is the built taskbus.
var program string

// atOnce is how many tests run side by side, whatever the machine: nearly all their
// time they wait for a broker, a process or a time-out.
const atOnce = 8

// raceOptions are those of the race detector, where the program has it: what it finds is
// reported, and told by the exit code, but the program goes on; and at its end it waits no
// full second for more.
const raceOptions = "GORACE=halt_on_error=0 exitcode=66 atexit_sleep_ms=100"

// TestMain also is the main function of the agents' processes (see worker_test.go). With `go test -race` the program
// has the race detector too, and every test looks for what that reports.
func TestMain(m *testing.M) {
	if spec := os.Getenv(agentEnv); spec != "" {
		os.Exit(workAs(spec))
	}
	var args []string
	if raceDetector {
		args = append(args, "-race")
	}
	os.Exit(brokertest.Main(m, atOnce, &program, args...))
}
