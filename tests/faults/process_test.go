package faults

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/faults/proxy"
	"taskbus/tests/support/brokertest"
)

// process is one `taskbus serve`.
type process struct {
	r     *rig
	name  string
	cmd   *exec.Cmd
	log   *brokertest.LogBook
	proxy *proxy.Proxy // its way to the broker
	url   string       // through the proxy
	base  string       // of its HTTP interface

	exited chan struct{} // closed when the process has ended
	code   int           // exit code, -1 for a signal; read after exited

	// What looking at it every now and then has shown.
	mu      sync.Mutex
	told    map[string]bool // secrets that it has told, by where
	mostRSS int64           // bytes
	audited float64         // violations that its own auditor has found
}

// start is how a coordinator is started; the zero value is the usual way.
type start struct {
	url     string   // of the broker; empty: the rig's
	env     []string // "NAME=value"
	through []string // a command that runs the program given after it
	stderr  string   // a file for its log; empty: the log book
	http    string   // where it listens; empty: anywhere, and its log tells
	breaks  bool     // built with failpoints
}

// serve starts a coordinator and waits until it takes tasks.
func (r *rig) serve() *process {
	r.t.Helper()
	c := r.launch(start{})
	c.awaitState("active")
	return c
}

// launch starts a coordinator and waits until it answers HTTP.
func (r *rig) launch(s start) *process {
	r.t.Helper()
	c := r.run(s)
	if s.http == "" {
		r.eventually(patience, c.name+" says where it listens", func() (bool, string) {
			c.mayNotHaveEnded()
			c.base = c.log.Field("taskbus is starting", "http")
			return c.base != "", c.log.Tail(5)
		})
	} else {
		c.base = "http://" + s.http
	}
	r.eventually(patience, c.name+" answers HTTP", func() (bool, string) {
		resp, err := httpClient.Get(c.base + "/livez")
		if err != nil {
			c.mayNotHaveEnded()
			return false, err.Error()
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK, resp.Status
	})
	go c.watch()
	return c
}

func (r *rig) run(s start) *process {
	r.t.Helper()
	build := programs.plain
	if s.breaks {
		build = programs.breaking
	}
	path, err := build()
	if err != nil {
		r.t.Fatal(err)
	}
	if s.url == "" {
		s.url = r.broker.URL
	}
	c := &process{r: r, name: fmt.Sprint("coordinator ", len(r.processes)+1), log: &brokertest.LogBook{},
		exited: make(chan struct{}), told: map[string]bool{}}
	if c.proxy, err = proxy.New(r.host(), r.trace, r.seed); err != nil {
		r.t.Fatal(err)
	}
	if c.url, err = c.proxy.URL(s.url); err != nil {
		r.t.Fatal(err)
	}
	args := append(s.through, path, "serve", "--config", r.config, "--http", cmp.Or(s.http, "127.0.0.1:0"))
	if s.http == "" {
		args = append(args, "--pprof") // so that a cell that finds too much of something says what
	}
	c.cmd = exec.Command(args[0], args[1:]...)
	c.cmd.Env = append([]string{"RABBITMQ_URL=" + c.url, "PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}, s.env...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if s.stderr != "" {
		file, err := os.OpenFile(s.stderr, os.O_WRONLY, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		defer file.Close()
		c.cmd.Stderr = file
	}
	if err := c.cmd.Start(); err != nil {
		r.t.Fatalf("start %s: %v", c.name, err)
	}
	go func() {
		c.code = brokertest.ExitCode(c.cmd.Wait())
		close(c.exited)
	}()
	r.processes = append(r.processes, c)
	return c
}

// watch looks every half second at what must hold at any moment.
func (c *process) watch() {
	ticks := time.NewTicker(500 * time.Millisecond)
	defer ticks.Stop()
	for i := 0; ; i++ {
		select {
		case <-c.exited:
			return
		case <-ticks.C:
		}
		c.sample([]string{"/metrics", "/status", "/health", "/tasks?limit=100", "/readyz"}[i%5])
	}
}

func (c *process) sample(path string) {
	rss := memory(c.cmd.Process.Pid)
	resp, err := httpClient.Get(c.base + path)
	if err != nil {
		return // it is stopped, or has just ended
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return
	}
	told := c.r.secretIn(string(body))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mostRSS = max(c.mostRSS, rss)
	if told {
		c.told[path] = true
	}
	if path == "/metrics" {
		c.audited = max(c.audited, sumOf(string(body), "taskbus_audit_violations_total"))
	}
}

// memory is the resident memory of a process in bytes; 0 when it is gone.
func memory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// running tells whether the process has not ended.
func (c *process) running() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

func (c *process) mayNotHaveEnded() {
	c.r.t.Helper()
	if !c.running() {
		c.r.t.Fatalf("%s ended with exit code %d; its log ends with:\n%s", c.name, c.code, c.log.Tail(20))
	}
}

func (c *process) signal(s syscall.Signal) {
	c.r.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.r.t.Errorf("send %v to %s: %v", s, c.name, err)
	}
}

// wait waits for its end.
func (c *process) wait(within time.Duration) int {
	c.r.t.Helper()
	select {
	case <-c.exited:
	case <-time.After(within):
		_ = c.cmd.Process.Kill() // it may have ended just now
		<-c.exited
		c.r.t.Errorf("%s did not end within %v; its log ends with:\n%s", c.name, within, c.log.Tail(20))
	}
	return c.code
}

// kill ends it with SIGKILL and counts as a fault.
func (c *process) kill() {
	c.r.t.Helper()
	c.mayNotHaveEnded()
	c.r.struck("SIGKILL of " + c.name)
	c.signal(syscall.SIGKILL)
	c.wait(patience)
}

// stop ends it in order: L2.
func (c *process) stop() {
	c.r.t.Helper()
	begun := time.Now()
	c.signal(syscall.SIGTERM)
	if code := c.wait(grace + 10*time.Second); code != 0 {
		c.r.t.Errorf("L2: %s ended with exit code %d after SIGTERM, want 0; its log ends with:\n%s", c.name, code,
			c.log.Tail(20))
	}
	if took := time.Since(begun); took > grace+time.Second {
		c.r.t.Errorf("L2: the drain of %s took %v, more than the grace of %v", c.name, took, grace)
	}
}

var httpClient = brokertest.HTTPClient(5 * time.Second)

func (c *process) get(path string) (status int, body string) {
	c.r.t.Helper()
	resp, err := httpClient.Get(c.base + path)
	if err != nil {
		c.mayNotHaveEnded()
		c.r.t.Fatalf("GET %s of %s: %v", path, c.name, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.r.t.Fatalf("GET %s of %s: %v", path, c.name, err)
	}
	return resp.StatusCode, string(data)
}

func (c *process) read(path string, into any) {
	c.r.t.Helper()
	_, body := c.get(path)
	if err := json.Unmarshal([]byte(body), into); err != nil {
		c.r.t.Fatalf("GET %s of %s answered %q: %v", path, c.name, body, err)
	}
}

func decode(from io.Reader, into any) error { return json.NewDecoder(from).Decode(into) }

func (c *process) status() (s view.Status) {
	c.r.t.Helper()
	c.read("/status", &s)
	return s
}

func (c *process) health() (h view.Health) {
	c.r.t.Helper()
	c.read("/health", &h)
	return h
}

// awaitState waits until /readyz says one of the words, and tells how long it took.
func (c *process) awaitState(words ...string) time.Duration {
	c.r.t.Helper()
	return c.awaitStateWithin(patience+backoffCap, words...)
}

func (c *process) awaitStateWithin(limit time.Duration, words ...string) time.Duration {
	c.r.t.Helper()
	begun := time.Now()
	c.r.eventually(limit, c.name+" is "+strings.Join(words, " or "), func() (bool, string) {
		var ready view.Readiness
		c.read("/readyz", &ready)
		for _, w := range words {
			if ready.State == w {
				return true, ""
			}
		}
		return false, ready.State + ": " + ready.Detail
	})
	return time.Since(begun)
}

func (c *process) awaitStatus(what string, wanted func(view.Status) bool) {
	c.r.t.Helper()
	c.r.eventually(patience+backoffCap, what, func() (bool, string) {
		s := c.status()
		return wanted(s), fmt.Sprintf("broker %+v, readiness %+v, pending %+v, counters %+v, agents %.2000s", s.Broker,
			s.Readiness, s.Pending, s.Counters, fmt.Sprint(s.Agents))
	})
}

// metric reads a sample of /metrics by its whole name; 0 when there is none.
func (c *process) metric(name string) float64 {
	c.r.t.Helper()
	_, body := c.get("/metrics")
	return sumOf(body, name)
}

// sumOf adds up the samples of that name, with whatever labels if it has none.
func sumOf(metrics, name string) (sum float64) {
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]), 64)
		if err == nil {
			sum += v
		}
	}
	return sum
}

// sessionEnded is the log line at the end of a broker session.
const sessionEnded = "no broker session; tasks stay in the broker; trying again"
