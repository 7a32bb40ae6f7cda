package failover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// adminToken lets the tests give orders.
const adminToken = "failover-tests-give-orders-with-this-token"

// process is one `taskbus serve` process.
type process struct {
	r    *rig
	name string
	cmd  *exec.Cmd
	log  *brokertest.LogBook
	base string // of its HTTP interface
	// instance is its name in the journal, as /status has it.
	instance string
	exited   chan struct{} // closed when the process has ended
	code     int           // its exit code, -1 for a signal; read after exited
}

// launch runs a coordinator on a broker, and waits for its HTTP interface.
func (r *rig) launch(name, brokerURL string) *process {
	r.t.Helper()
	c := &process{r: r, name: name, log: &brokertest.LogBook{}, exited: make(chan struct{})}
	c.cmd = exec.Command(program, "serve", "--config", r.config, "--http", "127.0.0.1:0")
	c.cmd.Env = []string{
		"RABBITMQ_URL=" + brokerURL, "TASKBUS_ADMIN_TOKEN=" + adminToken, "TASKBUS_GATEWAY_TOKEN=" + gatewayToken,
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(),
	}
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if err := c.cmd.Start(); err != nil {
		r.t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		c.code = brokertest.ExitCode(c.cmd.Wait())
		close(c.exited)
	}()
	r.processes = append(r.processes, c)
	r.t.Cleanup(func() { c.inspect(brokerURL) })
	r.eventually(patience, name+" has an HTTP interface", func() (bool, string) {
		c.base = c.log.Field("taskbus is starting", "http")
		return c.base != "", c.log.Tail(5)
	})
	c.instance = c.status().Instance
	return c
}

// inspect ends the process if it still runs and looks for what no coordinator may
// ever write.
func (c *process) inspect(brokerURL string) {
	if c.running() {
		c.signal(syscall.SIGCONT) // a stopped process would not hear of its end
		c.signal(syscall.SIGTERM)
		if code := c.wait(); code != 0 {
			c.r.t.Errorf("%s ended with exit code %d after SIGTERM", c.name, code)
		}
	}
	u, _ := url.Parse(brokerURL)
	password, _ := u.User.Password()
	text := c.log.String()
	for _, never := range []string{"panic:", "goroutine 1 [", password, adminToken, "the books do not balance"} {
		if strings.Contains(text, never) {
			c.r.t.Errorf("the output of %s contains what it never may (a panic, a secret, or books that do not balance)", c.name)
		}
	}
	if c.r.t.Failed() {
		c.r.t.Logf("the end of the log of %s:\n%s", c.name, c.log.Tail(25))
	}
}

func (c *process) running() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

func (c *process) signal(s syscall.Signal) {
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.r.t.Errorf("send %v to %s: %v", s, c.name, err)
	}
}

func (c *process) wait() int {
	select {
	case <-c.exited:
	case <-time.After(patience):
		_ = c.cmd.Process.Kill() // it may have ended just now
		<-c.exited
		c.r.t.Errorf("%s did not end within %v", c.name, patience)
	}
	return c.code
}

// kill ends it as a crash would, and tells when.
func (c *process) kill() (at time.Time) {
	c.r.t.Helper()
	at = time.Now()
	c.signal(syscall.SIGKILL)
	if code := c.wait(); code != -1 {
		c.r.t.Fatalf("%s had ended by itself with exit code %d before SIGKILL:\n%s", c.name, code, c.log.Tail(10))
	}
	return at
}

var httpClient = brokertest.HTTPClient(5 * time.Second)

// ask makes one request; an error is that of the connection.
func (c *process) ask(method, path string) (status int, body string, err error) {
	req, err := http.NewRequest(method, c.base+path, nil)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	resp, err := httpClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

func (c *process) get(path string) (status int, body string) {
	c.r.t.Helper()
	status, body, err := c.ask(http.MethodGet, path)
	if err != nil {
		c.r.t.Fatalf("GET %s of %s: %v; its log ends with:\n%s", path, c.name, err, c.log.Tail(10))
	}
	return status, body
}

func (c *process) read(path string, into any) {
	c.r.t.Helper()
	_, body := c.get(path)
	if err := json.Unmarshal([]byte(body), into); err != nil {
		c.r.t.Fatalf("GET %s of %s answered %q: %v", path, c.name, body, err)
	}
}

func (c *process) status() (s view.Status) {
	c.r.t.Helper()
	c.read("/status", &s)
	return s
}

// agent is what /status says of one agent.
func (c *process) agent(id string) view.Agent {
	c.r.t.Helper()
	s := c.status()
	i := slices.IndexFunc(s.Agents, func(a view.Agent) bool { return a.ID == id })
	if i < 0 {
		c.r.t.Fatalf("/status of %s knows no agent %s", c.name, id)
	}
	return s.Agents[i]
}

// learnt is what is believed of an agent's success, and from how many outcomes.
func (c *process) learnt(id string) (rate, outcomes float64) {
	c.r.t.Helper()
	var stats view.AgentStats
	c.read("/agents/stats", &stats)
	for _, a := range stats.Agents {
		if a.ID == id {
			return a.SuccessRate, a.Outcomes
		}
	}
	c.r.t.Fatalf("/agents/stats of %s knows no agent %s", c.name, id)
	return 0, 0
}

// awaitState waits until /readyz says the word.
func (c *process) awaitState(word string) {
	c.r.t.Helper()
	c.r.eventually(patience, c.name+" is "+word, func() (bool, string) {
		var ready view.Readiness
		c.read("/readyz", &ready)
		return ready.State == word, ready.State + ": " + ready.Detail
	})
}

// awaitStatus waits until what /status says is as wanted.
func (c *process) awaitStatus(what string, wanted func(view.Status) bool) {
	c.r.t.Helper()
	c.r.eventually(patience, c.name+": "+what, func() (bool, string) {
		s := c.status()
		return wanted(s), fmt.Sprintf("readiness %+v, pending %+v, counters %+v", s.Readiness, s.Pending, s.Counters)
	})
}

// takeOver waits until a standby leads, and a dispatch that it has decided has come
// to an agent. Both times count from the fault, without those in which the broker stood
// still.
func (c *process) takeOver(fault time.Time) (ready, dispatched time.Duration) {
	c.r.t.Helper()
	c.r.eventually(patience, c.name+" leads", func() (bool, string) {
		code, body := c.get("/readyz")
		return code == http.StatusOK, body
	})
	leads := time.Now()
	ready = leads.Sub(fault) - c.r.witness.still(fault, leads)
	leader := c.status().Leader
	if leader == nil || leader.Instance != c.instance {
		c.r.t.Fatalf("%s leads, and takes %+v for the leader", c.name, leader)
	}
	c.r.eventually(patience, "a dispatch of "+c.name+" arrives", func() (bool, string) {
		first := c.r.book.firstAfter(leader.Since)
		dispatched = first.Sub(fault) - c.r.witness.still(fault, first)
		return !first.IsZero(), "none yet"
	})
	if still := c.r.witness.still(fault, time.Now()); still > 0 {
		c.r.t.Logf("the broker stood still for %v of the take-over by %s", still.Round(time.Millisecond), c.name)
	}
	return ready, dispatched
}

// metric reads one sample of /metrics by its whole name, labels included; a sample
// that does not exist is 0.
func (c *process) metric(name string) float64 {
	c.r.t.Helper()
	_, body := c.get("/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				c.r.t.Fatalf("/metrics: %q", line)
			}
			return v
		}
	}
	return 0
}

// memory is the resident memory of the process in bytes.
func (c *process) memory() int64 {
	c.r.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		c.r.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10
		}
	}
	c.r.t.Fatalf("/proc does not know the memory of %s", c.name)
	return 0
}
