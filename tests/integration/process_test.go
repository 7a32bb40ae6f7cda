package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// process is one `taskbus serve` process, as one test or a part of it sees it.
type process struct {
	t *testing.T
	*running
}

// running is the process itself.
type running struct {
	name   string // for people: what it is
	cmd    *exec.Cmd
	log    *logBook
	base   string        // of its HTTP interface
	exited chan struct{} // closed when the process has ended
	code   int           // its exit code, -1 for a signal; read after exited
}

// start runs a coordinator and waits until it takes tasks. env holds additional
// variables, "NAME=value".
func (r *rig) start(env ...string) *process {
	r.t.Helper()
	c := r.launch(r.broker.URL, env...)
	c.awaitReady()
	return c
}

// launch runs a coordinator with this broker URL and waits for no more than its
// HTTP interface.
func (r *rig) launch(brokerURL string, env ...string) *process {
	r.t.Helper()
	c := r.run(brokerURL, env...)
	first := c.log.await(r.t, "taskbus is starting")
	c.base, _ = first["http"].(string)
	return c
}

// launchBroken runs a coordinator that must end by itself, and waits for that.
func (r *rig) launchBroken(brokerURL string, env ...string) *process {
	r.t.Helper()
	c := r.run(brokerURL, env...)
	c.wait(patience)
	return c
}

func (r *rig) run(brokerURL string, env ...string) *process {
	r.t.Helper()
	c := &process{r.t, &running{name: "the coordinator", log: newLogBook(), exited: make(chan struct{})}}
	c.cmd = exec.Command(program, "serve", "--config", r.config, "--http", "127.0.0.1:0")
	c.cmd.Env = append([]string{
		"RABBITMQ_URL=" + brokerURL,
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(),
		raceOptions,
	}, env...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	c.begin()
	r.t.Cleanup(func() { c.inspect(r.broker, brokerURL) })
	return c
}

// begin starts the command and hears of its end.
func (c *process) begin() {
	c.t.Helper()
	if err := c.cmd.Start(); err != nil {
		c.t.Fatalf("start %s: %v", c.name, err)
	}
	go func() {
		c.code = brokertest.ExitCode(c.cmd.Wait())
		close(c.exited)
	}()
}

// on is the same process for a part of the test: failures belong to that.
func (c *process) on(t *testing.T) *process { return &process{t, c.running} }

// inspect ends the process if it still runs and looks for what no coordinator may
// ever write, whatever the test was about.
func (c *process) inspect(b brokertest.Broker, brokerURL string) {
	select {
	case <-c.exited:
	default:
		if code := c.end(syscall.SIGTERM); code != 0 {
			c.t.Errorf("%s ended with exit code %d after SIGTERM", c.name, code)
		}
	}
	text := c.log.String()
	for _, never := range []string{"panic:", "DATA RACE", "goroutine 1 [", passwordOf(b.URL), passwordOf(brokerURL)} {
		if never != "" && strings.Contains(text, never) {
			c.t.Errorf("the output of %s contains what it never may (a panic, a data race or a password)", c.name)
		}
	}
	if c.t.Failed() {
		c.t.Logf("the end of the log of %s:\n%s", c.name, c.log.tail(60))
	}
}

// passwordOf is the password in a URL; empty when it has none, or is none.
func passwordOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// end sends a signal and waits for the exit code.
func (c *process) end(s syscall.Signal) int {
	c.t.Helper()
	c.signal(s)
	return c.wait(patience + 10*time.Second)
}

func (c *process) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Errorf("send %v: %v", s, err)
	}
}

func (c *process) wait(within time.Duration) int {
	c.t.Helper()
	select {
	case <-c.exited:
	case <-time.After(within):
		_ = c.cmd.Process.Kill() // it may have ended just now
		<-c.exited
		c.t.Errorf("%s did not end within %v", c.name, within)
	}
	return c.code
}

// stop ends it in order.
func (c *process) stop() {
	c.t.Helper()
	if code := c.end(syscall.SIGTERM); code != 0 {
		c.t.Fatalf("%s: exit code %d after SIGTERM, want 0", c.name, code)
	}
}

// kill ends it as a crash would, and makes sure that it was alive until then.
func (c *process) kill() {
	c.t.Helper()
	if code := c.end(syscall.SIGKILL); code != -1 {
		c.t.Fatalf("%s had ended by itself with exit code %d before SIGKILL", c.name, code)
	}
}

// alive fails the test if the process has ended.
func (c *process) alive() {
	c.t.Helper()
	select {
	case <-c.exited:
		c.t.Fatalf("%s ended with exit code %d; its log ends with:\n%s", c.name, c.code, c.log.tail(20))
	default:
	}
}

var httpClient = brokertest.HTTPClient(10 * time.Second)

// get reads one page of the HTTP interface.
func (c *process) get(path string) (status int, body string) {
	c.t.Helper()
	resp, err := httpClient.Get(c.base + path)
	if err != nil {
		c.alive()
		c.t.Fatalf("GET %s: %v", path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("GET %s: %v", path, err)
	}
	return resp.StatusCode, string(data)
}

func (c *process) read(path string, into any) {
	c.t.Helper()
	_, body := c.get(path)
	if err := json.Unmarshal([]byte(body), into); err != nil {
		c.t.Fatalf("GET %s answered %q: %v", path, body, err)
	}
}

func (c *process) status() (s view.Status) {
	c.t.Helper()
	c.read("/status", &s)
	return s
}

func (c *process) health() (h view.Health) {
	c.t.Helper()
	c.read("/health", &h)
	return h
}

func (c *process) task(id string) (v view.Task) {
	c.t.Helper()
	c.read("/tasks/"+id, &v)
	return v
}

// awaitReady waits until it takes tasks.
func (c *process) awaitReady() { c.t.Helper(); c.awaitState("active") }

func (c *process) awaitState(state string) {
	c.t.Helper()
	eventually(c.t, patience, "the coordinator is "+state, func() (bool, string) {
		var ready view.Readiness
		c.read("/readyz", &ready)
		return ready.State == state, fmt.Sprintf("%s (%s)", ready.State, ready.Detail)
	})
}

// awaitStatus waits until what /status says is as wanted.
func (c *process) awaitStatus(what string, wanted func(view.Status) bool) {
	c.t.Helper()
	eventually(c.t, patience, what, func() (bool, string) {
		s := c.status()
		return wanted(s), fmt.Sprintf("broker %+v, pending %+v, counters %+v, agents %+v", s.Broker, s.Pending, s.Counters,
			s.Agents)
	})
}

// agent is what /status says of one agent.
func (c *process) agent(id string) view.Agent {
	c.t.Helper()
	for _, a := range c.status().Agents {
		if a.ID == id {
			return a
		}
	}
	c.t.Fatalf("/status knows no agent %s", id)
	return view.Agent{}
}

// awaitAgent waits until what /status says of one agent is as wanted.
func (c *process) awaitAgent(id, what string, wanted func(view.Agent) bool) {
	c.t.Helper()
	eventually(c.t, patience, id+" "+what, func() (bool, string) {
		a := c.agent(id)
		return wanted(a), fmt.Sprintf("%+v", a)
	})
}

// metric reads one sample of /metrics by its whole name, labels included; a
// sample that does not exist is 0.
func (c *process) metric(name string) float64 {
	c.t.Helper()
	_, body := c.get("/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				c.t.Fatalf("/metrics: %q", line)
			}
			return v
		}
	}
	return 0
}

// logBook keeps everything a process writes, and tells when there is more.
type logBook struct {
	brokertest.LogBook
	mu   sync.Mutex
	more chan struct{} // closed at the next write
}

func newLogBook() *logBook { return &logBook{more: make(chan struct{})} }

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.more)
	b.more = make(chan struct{})
	return b.LogBook.Write(p)
}

func (b *logBook) tail(lines int) string {
	all := strings.SplitAfter(b.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// entry is one log line.
type entry map[string]any

// find gives the lines with this message.
func (b *logBook) find(message string) []entry {
	var found []entry
	for line := range strings.Lines(b.String()) {
		if !strings.Contains(line, message) || !strings.HasSuffix(line, "\n") {
			continue
		}
		var e entry
		if json.Unmarshal([]byte(line), &e) == nil && e["message"] == message {
			found = append(found, e)
		}
	}
	return found
}

// await waits for the first line with this message.
func (b *logBook) await(t testing.TB, message string) entry {
	t.Helper()
	late := time.After(patience)
	for {
		b.mu.Lock()
		more := b.more
		b.mu.Unlock()
		if found := b.find(message); len(found) > 0 {
			return found[0]
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("no log line %q within %v; the log:\n%s", message, patience, b.tail(40))
		}
	}
}
