package clients

import (
	"os"
	"testing"

	"taskbus/tests/support/brokertest"
)

// program is the built taskbus.
var program string

// atOnce is how many tests run side by side, whatever the machine: most of the time they wait.
const atOnce = 6

func TestMain(m *testing.M) { os.Exit(brokertest.Main(m, atOnce, &program)) }
