package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/tests/support/clitest"
)

// A standby asks its leader over TLS and accepts its certificate if TASKBUS_CA names the authority, which no system
// knows. Without, the agent's answer is only that no leader could be asked, and the log has what is wrong.
func TestStandbyTrustsTheAuthorityOfItsLeader(t *testing.T) {
	a := newAuthority(t)
	a.issue("server")
	token := strings.Repeat("t", 32)
	quotas := filepath.Join(a.dir, "quotas.yaml")
	if err := os.WriteFile(quotas, []byte(twoAgents), 0o600); err != nil {
		t.Fatal(err)
	}
	leading := newRig()
	start := func(r *clitest.Rig) *serving {
		r.Broker, r.Env["TASKBUS_GATEWAY_TOKEN"] = leading.Broker, token
		return startServe(t, r, "--quotas", quotas, "--tls-cert", a.file("server.pem"), "--tls-key", a.file("server.key"))
	}
	client := using(a.trusting())
	get := func(s *serving, path string) string {
		t.Helper()
		resp, err := client.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	leader := start(leading)
	leader.until(t, "a leader", func() bool { return strings.Contains(get(leader, "/readyz"), `"active"`) })
	for _, tc := range []struct {
		name, ca string
		status   int
	}{
		{"with TASKBUS_CA", a.file("ca.pem"), http.StatusOK},
		{"with the system's authorities", "", http.StatusServiceUnavailable},
	} {
		r := newRig()
		r.Env["TASKBUS_CA"] = tc.ca
		s := start(r)
		s.until(t, "a standby", func() bool { return strings.Contains(get(s, "/readyz"), `"standby"`) })
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/quota/consume",
			strings.NewReader(`{"agent_id": "agent-1", "input_tokens": 10, "output_tokens": 5}`))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tc.status {
			t.Errorf("%s: %d %s, %v; want %d; log:\n%s", tc.name, resp.StatusCode, text, err, tc.status, s.Err.String())
		}
		address := strings.TrimPrefix(leader.url, "https://")
		if strings.Contains(string(text), address) || strings.Contains(string(text), "x509") {
			t.Errorf("%s: an agent hears where the leader is, or what is wrong with its certificate: %s", tc.name, text)
		}
		if logged := strings.Contains(s.Err.String(), "unknown authority"); logged != (tc.status != http.StatusOK) {
			t.Errorf("%s: the log says that the authority is not known: %v:\n%s", tc.name, logged, s.Err.String())
		}
		s.Signals <- syscall.SIGTERM
		if code := <-s.exit; code != cli.ExitOK {
			t.Errorf("%s: exit code %d", tc.name, code)
		}
	}
	leader.Signals <- syscall.SIGTERM
	<-leader.exit
}
