package brokertest

import (
	"os"
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
