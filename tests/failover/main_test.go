package failover

import (
	"flag"
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

func TestMain(m *testing.M) { os.Exit(brokertest.Main(m, atOnce, &program)) }
