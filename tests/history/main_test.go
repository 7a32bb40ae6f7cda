package history

import (
	"os"
	"testing"

	"taskbus/tests/support/brokertest"
)

// program is the built taskbus.
var program string

// atOnce is how many tests run side by side, whatever the machine: nearly all their time they
// wait for a broker, a process or a time-out.
const atOnce = 6

func TestMain(m *testing.M) { os.Exit(brokertest.Main(m, atOnce, &program)) }
