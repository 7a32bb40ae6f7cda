package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi/calls"
)

// twoAgents have 1000 tokens a day each.
const twoAgents = `
groups: [{id: team}]
agents:
  - {id: agent-1, group_id: team, limits: {total_tokens: {amount: 1000, per: day}}}
  - {id: agent-2, group_id: team, limits: {total_tokens: {amount: 1000, per: day}}}
`

// startTLS is startServe with the authority's certificates, and a rate-limit service at the address.
func startTLS(t *testing.T, a *authority) (s *serving, rls string) {
	t.Helper()
	a.issue("server")
	quotas := filepath.Join(a.dir, "quotas.yaml")
	if err := os.WriteFile(quotas, []byte(twoAgents), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig()
	r.Env["TASKBUS_GATEWAY_NAMES"] = "edge-1, edge-2"
	r.Env["TASKBUS_TLS_KEY"] = a.file("server.key")
	s = startServe(t, r, "--quotas", quotas, "--tls-cert", a.file("server.pem"), "--client-ca", a.file("ca.pem"), "--rls",
		"127.0.0.1:0")
	m := regexp.MustCompile(`"rls":"([^"]+)"`).FindStringSubmatch(r.Err.String())
	if m == nil || !strings.HasPrefix(s.url, "https://") {
		t.Fatalf("no rate-limit service, or no https, in the start line:\n%s", r.Err.String())
	}
	none := using(a.trusting())
	s.until(t, "ready", func() bool {
		resp, err := none.Get(s.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	return s, m[1]
}

func using(c *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}, Timeout: 10 * time.Second}
}

// An agent that shows its certificate spends its own quota and no other's; a gateway's spends for all. A
// certificate of another authority gets no further than its handshake, and without one a client is asked
// for a token; health checks need neither.
func TestCertificatesSayWhoAsks(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	s, rls := startTLS(t, a)
	agent, edge, false1 := a.issue("agent-1"), a.issue("edge-2"), stranger.issue("agent-1")
	for _, tc := range []struct {
		name   string
		shows  []tls.Certificate
		agent  string // that the body names
		status int    // 0: there is no connection
		spends string
	}{
		{"an agent, for itself", []tls.Certificate{agent}, "", 200, "agent-1"},
		{"an agent, naming itself", []tls.Certificate{agent}, "agent-1", 200, "agent-1"},
		{"an agent, for another", []tls.Certificate{agent}, "agent-2", 403, ""},
		{"a gateway", []tls.Certificate{edge}, "agent-2", 200, "agent-2"},
		{"no certificate", nil, "agent-1", 401, ""},
		{"an agent by a self-made certificate", []tls.Certificate{false1}, "agent-1", 0, ""},
	} {
		body := `{"input_tokens": 10, "output_tokens": 5}`
		if tc.agent != "" {
			body = `{"agent_id": "` + tc.agent + `", "input_tokens": 10, "output_tokens": 5}`
		}
		config := a.trusting()
		// Go's client would show nothing that the server's authority did not sign.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(tc.shows) == 0 {
				return &tls.Certificate{}, nil
			}
			return &tc.shows[0], nil
		}
		resp, err := using(config).Post(s.url+"/v1/quota/consume", "application/json", strings.NewReader(body))
		if tc.status == 0 {
			if err == nil {
				resp.Body.Close()
				t.Errorf("%s: %d, want no connection", tc.name, resp.StatusCode)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var got calls.CallAnswer
		if err == nil && tc.status == 200 {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || resp.StatusCode != tc.status || got.Agent != tc.spends {
			t.Errorf("%s: %d %s, %v; want %d for %q", tc.name, resp.StatusCode, text, err, tc.status, tc.spends)
		}
	}

	for _, tc := range []struct {
		name  string
		shows []tls.Certificate
		want  codes.Code
	}{
		{"a gateway", []tls.Certificate{edge}, codes.OK},
		{"an agent", []tls.Certificate{agent}, codes.Unauthenticated},
		{"no certificate", nil, codes.Unauthenticated},
	} {
		conn, err := grpc.NewClient("passthrough:///"+rls,
			grpc.WithTransportCredentials(credentials.NewTLS(a.trusting(tc.shows...))))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(),
			&pb.RateLimitRequest{Domain: "taskbus", Descriptors: []*common.RateLimitDescriptor{
				{Entries: []*common.RateLimitDescriptor_Entry{{Key: "agent", Value: "agent-1"}, {Key: "unit", Value: "tokens"}}}}})
		if status.Code(err) != tc.want {
			t.Errorf("over gRPC, %s: %v, %v; want %v", tc.name, answer, err, tc.want)
		}
		// 15 + 15 were used over HTTP, and 1 of 1000 here.
		if tc.want == codes.OK && answer.GetStatuses()[0].GetLimitRemaining() != 969 {
			t.Errorf("over gRPC: %v, want 969 of 1000 left", answer)
		}
		conn.Close()
	}

	s.Env["TASKBUS_HTTP_URL"] = s.url
	if code := s.Run(t, "health", "--live"); code == cli.ExitOK {
		t.Error("taskbus health trusts a certificate of an unknown authority")
	}
	s.Env["TASKBUS_CA"] = a.file("ca.pem")
	if code := s.Run(t, "health", "--live"); code != cli.ExitOK {
		t.Errorf("taskbus health with TASKBUS_CA: exit code %d; %s", code, s.Err.String())
	}
	s.Env["TASKBUS_CA"] = a.file("server.key")
	if code := s.Run(t, "health", "--live"); code != cli.ExitConfig {
		t.Errorf("taskbus health with a TASKBUS_CA that is none: exit code %d, want %d", code, cli.ExitConfig)
	}
	if text := s.Err.String(); strings.Contains(text, "BEGIN") {
		t.Errorf("a key or certificate was printed: %s", text)
	}
}

// A certificate that is renewed is shown in the next connections; one that is broken, or half there,
// changes nothing.
func TestCertificatesAreReadAgain(t *testing.T) {
	a := newAuthority(t)
	a.issue("server")
	c, err := readCertificates(a.file("server.pem"), a.file("server.key"), a.file("ca.pem"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		c.mu.Lock()
		c.looked = time.Time{} // long ago
		c.mu.Unlock()
		server, client := net.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- tls.Server(server, c.config("http/1.1")).HandshakeContext(ctx) }()
		config := a.trusting()
		config.ServerName = "localhost"
		conn := tls.Client(client, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 2 {
		t.Errorf("the first certificate has serial %d, want 2", got)
	}
	a.issue("server")
	if got := serial(); got != 3 {
		t.Errorf("the renewed certificate has serial %d, want 3", got)
	}
	if err := os.WriteFile(a.file("server.key"), []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 3 {
		t.Errorf("with a broken key the certificate has serial %d, want 3 as before", got)
	}
	if err := os.Remove(a.file("server.pem")); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 3 {
		t.Errorf("without a file the certificate has serial %d, want 3 as before", got)
	}
	a.issue("server")
	if got := serial(); got != 4 {
		t.Errorf("the certificate after that has serial %d, want 4", got)
	}
}

// Files that go away and come back as they were are told of each time that they go: a mount that flaps
// must not be silent from the second time on.
func TestEveryLossOfCertificatesIsTold(t *testing.T) {
	a := newAuthority(t)
	var log strings.Builder
	a.issue("server")
	c, err := readCertificates(a.file("server.pem"), a.file("server.key"), a.file("ca.pem"), zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	look := func() {
		c.looked = time.Time{} // long ago
		c.latest()
	}
	for range 2 {
		if err := os.Rename(a.file("ca.pem"), a.file("away.pem")); err != nil {
			t.Fatal(err)
		}
		look()
		look() // told once
		if err := os.Rename(a.file("away.pem"), a.file("ca.pem")); err != nil {
			t.Fatal(err)
		}
		look()
	}
	if n := strings.Count(log.String(), "cannot be used"); n != 2 {
		t.Errorf("told %d times, want 2: %s", n, log.String())
	}
}

// What cannot work is said at the start, and nothing listens.
func TestListenFaults(t *testing.T) {
	a := newAuthority(t)
	a.issue("server")
	cert, key, ca := a.file("server.pem"), a.file("server.key"), a.file("ca.pem")
	token := strings.Repeat("t", 32)
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		exit int
		says string
	}{
		{"a certificate without key", []string{"--tls-cert", cert}, nil, cli.ExitConfig, "needs its key"},
		{"another's key", []string{"--tls-cert", ca, "--tls-key", key}, nil, cli.ExitConfig, "belong together"},
		{"no such file", []string{"--tls-cert", cert + "x", "--tls-key", key}, nil, cli.ExitConfig, "no such file"},
		{"clients' authority without TLS", []string{"--client-ca", ca}, nil, cli.ExitConfig, "inside TLS only"},
		{"an authority that is none", []string{"--tls-cert", cert, "--tls-key", key, "--client-ca", key}, nil, cli.ExitConfig,
			"no certificate"},
		{"gateways' names without authority", nil, map[string]string{"TASKBUS_GATEWAY_NAMES": "edge"}, cli.ExitConfig,
			"no certificate counts"},
		{"an empty name", []string{"--tls-cert", cert, "--tls-key", key, "--client-ca", ca},
			map[string]string{"TASKBUS_GATEWAY_NAMES": "edge,"}, cli.ExitConfig, "common names"},
		{"an authority of coordinators that is none", nil, map[string]string{"TASKBUS_CA": key}, cli.ExitConfig,
			"TASKBUS_CA"},
		{"a rate-limit service without clients", []string{"--rls", "127.0.0.1:0"}, nil, cli.ExitConfig,
			"no client could use"},
		{"no port", []string{"--rls", "localhost"}, map[string]string{"TASKBUS_GATEWAY_TOKEN": token}, cli.ExitUsage,
			"--rls"},
		{"a port that cannot be", nil, map[string]string{"TASKBUS_RLS": "127.0.0.1:99999", "TASKBUS_GATEWAY_TOKEN": token},
			cli.ExitFailed, "rate-limit service"},
	} {
		r := newRig()
		for k, v := range tc.env {
			r.Env[k] = v
		}
		code := r.Run(t, append([]string{"serve", "--config", "internal/setup/testdata/agents.yaml", "--http", "127.0.0.1:0"},
			tc.args...)...)
		if text := r.Err.String(); code != tc.exit || !strings.Contains(text, tc.says) {
			t.Errorf("%s: exit code %d, want %d; said %q, want %q in it", tc.name, code, tc.exit, text, tc.says)
		}
	}
}
