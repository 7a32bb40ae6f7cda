package clients

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbus/tests/support/brokertest"
)

// fleet has an agent for each test in Python, with a capability of its name: tests do not get each other's tasks.
// Reports are promised every second, so that the start-up grace is over after one.
func fleet() string {
	var b strings.Builder
	b.WriteString("agents:\n")
	for i := range 40 {
		fmt.Fprintf(&b, "  py-%d: {capabilities: [py-%d], max_concurrent_tasks: 4, health_check_interval: 1}\n", i, i)
	}
	b.WriteString(`
global_settings:
  assignment_timeout_seconds: 30
  stale_agent_threshold_seconds: 60
  max_output_bytes: 4096
`)
	return b.String()
}

// patience is how long the coordinator may take to be ready.
const patience = 60 * time.Second

// testsMost is how long one module of tests may take on a busy machine.
const testsMost = 4 * time.Minute

// Each module of clients/python/tests runs in a process of its own. Those with a coordinator have one each.
func TestPython(t *testing.T) {
	brokertest.NeedsAioPika(t)
	for module, needsCoordinator := range map[string]bool{
		"test_parts": false, "test_work": false, "test_agent": true, "test_outages": true, "test_client": true,
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			env := os.Environ()
			if needsCoordinator {
				env = append(env, coordinator(t)...)
			}
			unittest(t, module, env)
		})
	}
}

// ran is the last line but one or so of unittest.
var ran = regexp.MustCompile(`Ran (\d+) tests? in`)

// unittest runs a module of tests in Python.
func unittest(t *testing.T, module string, env []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testsMost)
	defer cancel()
	cmd := exec.CommandContext(ctx, brokertest.Python, "-W", "error::RuntimeWarning", "-m", "unittest", "-v", module)
	cmd.Dir = filepath.Join(brokertest.ModuleRoot(t), "clients", "python", "tests")
	cmd.Env = append(env, "PYTHONPATH=..", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", module, err, out)
	}
	if m := ran.FindSubmatch(out); m == nil || string(m[1]) == "0" {
		t.Errorf("%s: no test ran:\n%s", module, out)
	}
}

// coordinator starts one in a virtual host of its own, and returns the environment of tests that use it.
func coordinator(t *testing.T) []string {
	t.Helper()
	brokertest.DependOnProgram(t)
	b := brokertest.Vhost(t)
	user := "python-" + b.VHost
	python := b.AddUser(t, user)
	b.SetPermissions(t, user, ".*", ".*", ".*")
	agent := b.AddUser(t, "agent-"+b.VHost)
	b.SetPermissions(t, "agent-"+b.VHost, `^agent\.py-39\.control$`, `^(taskbus\.agents|agent\.py-39\.control)$`,
		`^(agent\.py-39|agent\.py-39\.control|taskbus\.control)$`)
	b.SetTopicPermissions(t, "agent-"+b.VHost, "taskbus.agents", `^(agent\.status|task\.result)\.py-39$`, "")
	config := filepath.Join(t.TempDir(), "agents.yaml")
	if err := os.WriteFile(config, []byte(fleet()), 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(brokertest.LogBook)
	cmd := exec.Command(program, "serve", "--config", config, "--http", "127.0.0.1:0")
	cmd.Env = []string{"RABBITMQ_URL=" + b.URL, "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LOG_FORMAT=json"}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the coordinator: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()                          // how, the log tells
		for _, never := range []string{"panic:", "forty-two and a secret"} {
			if strings.Contains(log.String(), never) {
				t.Errorf("the coordinator's log has %q, which it never may", never)
			}
		}
		if t.Failed() {
			t.Logf("the log of the coordinator:\n%s", log.String())
		}
	})
	base := awaitReady(t, log)
	return []string{
		"RABBITMQ_URL=" + python.URL, "TASKBUS_TEST_USER=" + user, "TASKBUS_TEST_HTTP=" + base,
		"TASKBUS_TEST_ROOT=" + brokertest.ModuleRoot(t), "TASKBUS_TEST_AGENT_URL=" + agent.URL,
	}
}

// awaitReady waits until the coordinator takes tasks, and returns the address of its HTTP interface.
func awaitReady(t *testing.T, log *brokertest.LogBook) string {
	t.Helper()
	client := brokertest.HTTPClient(10 * time.Second)
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(50 * time.Millisecond) {
		base := log.Field("taskbus is starting", "http")
		if base == "" {
			continue
		}
		resp, err := client.Get(base + "/readyz")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return base
		}
	}
	t.Fatalf("the coordinator is not ready within %v; its log:\n%s", patience, log.String())
	return ""
}
