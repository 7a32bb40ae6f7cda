package quota_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

// serve runs a coordinator with a file of quotas, behind a real HTTP server, and gives its URL.
func serve(t *testing.T, quotasFile string) (s *service.Service, url string) {
	t.Helper()
	cfg, err := config.Parse([]byte("agents: {a: {capabilities: [go], max_concurrent_tasks: 1}}"), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(quotasFile)
	if err != nil {
		t.Fatal(err)
	}
	quotas, err := quotas.Parse(text, quotasFile)
	if err != nil {
		t.Fatal(err)
	}
	s, err = service.New(service.Options{
		Config: cfg.WithQuotas(quotas), ConfigPath: "agents.yaml", Bus: membus.New(), Logger: zerolog.Nop(),
		Registry: prometheus.NewRegistry(),
		Instance: "taskbus@test", BrokerURL: "mem://", Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	server := httptest.NewServer(httpapi.New(s, http.NotFoundHandler(), httpapi.Options{AgentSecret: []byte(secret)}))
	t.Cleanup(func() {
		server.Close()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the coordinator ended with %v", err)
		}
	})
	for begun := time.Now(); !s.Ready(ctx).Ready; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatal("the coordinator is not ready after 20 s")
		}
	}
	return s, server.URL
}

// The example does what it says, with the real file of quotas, over real connections: of its 12
// calls 10 fit the burst of agent_core_1's rate, and what is said of the others is a 429.
func TestExampleProgram(t *testing.T) {
	s, url := serve(t, "../../examples/quotas.yaml")
	program := filepath.Join(t.TempDir(), "quota-client")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/go/quota-client").
		CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), "TASKBUS_URLS=http://127.0.0.1:1,"+url, "TASKBUS_AGENT_TOKEN="+
		credential.AgentToken([]byte(secret), "agent_core_1"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	granted, refused := strings.Count(string(out), "42.\n"), strings.Count(string(out), "not before")
	if granted < 10 || granted+refused != 12 || !regexp.MustCompile(`1[0-2] calls in \d+ leases, \d refused\n$`).
		Match(out) {
		t.Errorf("%d granted and %d refused:\n%s", granted, refused, out)
	}
	q, err := s.Quotas(ctx, view.QuotaSelection{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range q.Nodes {
		if n.ID == "pool/project_alpha/agent_core_1" {
			// 12 tokens in and 3 out for each call; nothing stays set aside
			if b := n.Budgets[0]; b.Used != float64(15*granted) || b.Reserved != 0 {
				t.Errorf("%v used and %v set aside after %d calls of 15 tokens", b.Used, b.Reserved, granted)
			}
			return
		}
	}
	t.Error("agent_core_1 has no node")
}
