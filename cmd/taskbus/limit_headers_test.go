package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"taskbus/cmd/taskbus/cli"
)

// gatewaySecret is the token of all gateways.
const gatewaySecret = "the-token-of-all-gateways-1234567890"

// What agents.yaml says of the older headers of limits counts for both servers.
func TestLegacyRateLimitHeadersAreASetting(t *testing.T) {
	for setting, want := range map[string]string{
		"":                                       "",
		"http: {legacy_ratelimit_headers: true}": "1000 985", // 10 and 5 of 1000 are used
	} {
		dir := t.TempDir()
		agents, quotas := filepath.Join(dir, "agents.yaml"), filepath.Join(dir, "quotas.yaml")
		for path, text := range map[string]string{agents: "agents: {}\n" + setting + "\n", quotas: twoAgents} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := newRig()
		r.Env["TASKBUS_GATEWAY_TOKEN"] = gatewaySecret
		s := startServe(t, r, "--config", agents, "--quotas", quotas, "--rls", "127.0.0.1:0")
		s.until(t, "ready", func() bool { return s.get(t, "/readyz", nil) == http.StatusOK })

		ask, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/quota/consume",
			strings.NewReader(`{"agent_id":"agent-1","input_tokens":10,"output_tokens":5}`))
		if err != nil {
			t.Fatal(err)
		}
		ask.Header.Set("Content-Type", "application/json")
		ask.Header.Set("Authorization", "Bearer "+gatewaySecret)
		resp, err := http.DefaultClient.Do(ask)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := strings.TrimSpace(resp.Header.Get("RateLimit-Limit") + " " +
			resp.Header.Get("RateLimit-Remaining")); resp.StatusCode != 200 || got != want {
			t.Errorf("with %q over HTTP: %d, limit and remaining %q, want %q", setting, resp.StatusCode, got, want)
		}

		rls := regexp.MustCompile(`"rls":"([^"]+)"`).FindStringSubmatch(s.Err.String())
		if rls == nil {
			t.Fatalf("no rate-limit service in the start line:\n%s", s.Err.String())
		}
		conn, err := grpc.NewClient("passthrough:///"+rls[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+gatewaySecret)
		answer, err := pb.NewRateLimitServiceClient(conn).
			ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "taskbus", Descriptors: []*common.RateLimitDescriptor{
				{Entries: []*common.RateLimitDescriptor_Entry{{Key: "agent", Value: "agent-1"}, {Key: "mode", Value: "check"},
					{Key: "unit", Value: "tokens"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		said := make(map[string]string)
		for _, h := range answer.GetResponseHeadersToAdd() {
			said[http.CanonicalHeaderKey(h.GetKey())] = h.GetValue()
		}
		if got := strings.TrimSpace(said["Ratelimit-Limit"] + " " + said["Ratelimit-Remaining"]); got != want ||
			said["Ratelimit"] == "" {
			t.Errorf("with %q over gRPC: limit and remaining %q of %v, want %q", setting, got, said, want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		s.Signals <- syscall.SIGTERM
		if code := <-s.exit; code != cli.ExitOK {
			t.Errorf("with %q: exit code %d; log:\n%s", setting, code, s.Err.String())
		}
	}
}
