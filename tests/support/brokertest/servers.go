package brokertest

import (
	"os"
	"os/exec"
	"testing"
)

// EnvServers is "none" in `make check`, which runs every test that needs no server. It is
// set nowhere else: elsewhere a test whose server is missing fails.
const EnvServers = "TASKBUS_TEST_SERVERS"

// HasServers reports whether tests may use servers, and programs that are not Go's.
func HasServers() bool { return os.Getenv(EnvServers) != "none" }

// Needs leaves a test that needs this (e.g. "a broker") out of a run without servers.
func Needs(t testing.TB, what string) {
	t.Helper()
	if !HasServers() {
		t.Skipf("it needs %s: make test runs it (%s=none)", what, EnvServers)
	}
}

// Python is Debian's: its package python3-pika is for this one alone.
const Python = "/usr/bin/python3"

// NeedsPika fails the test where [Python] cannot import pika.
func NeedsPika(t testing.TB) {
	t.Helper()
	needsModule(t, "pika", "python3-pika")
}

// NeedsAioPika is the same of aio_pika, on which the SDK for Python stands.
func NeedsAioPika(t testing.TB) {
	t.Helper()
	needsModule(t, "aio_pika", "python3-aio-pika")
}

// needsModule fails the test where [Python] cannot import a module, which is of this package of Debian's.
func needsModule(t testing.TB, module, debian string) {
	t.Helper()
	Needs(t, module)
	if os.Getenv("TASKBUS_TEST_NO_PIKA") == "1" {
		t.Skipf("TASKBUS_TEST_NO_PIKA=1: clients written with %s are not tested", module)
	}
	if err := exec.Command(Python, "-c", "import "+module).Run(); err != nil {
		t.Fatalf("%s cannot import %s (%v): run scripts/ensure.sh test-tools (Debian: apt-get install %s), "+
			"or set TASKBUS_TEST_NO_PIKA=1 to do without", Python, module, err, debian)
	}
}
