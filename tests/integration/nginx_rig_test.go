package integration

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator/credential"
	"taskbus/tests/support/brokertest"
)

// provider is a stub of an LLM's provider: it streams what it is told to, and keeps what it was
// asked.
type provider struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	// goOn lets a stream have its second piece; nil: it has it at once.
	goOn chan struct{}
	// status and header are what it answers with; 0 is 200.
	status int
	header http.Header
}

// The two pieces of every stream, as server-sent events.
const (
	firstPiece  = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n"
	secondPiece = "data: [DONE]\n\n"
)

func newProvider(t *testing.T) *provider {
	p := &provider{}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r)
	status, goOn := p.status, p.goOn
	for name, values := range p.header {
		w.Header()[name] = values
	}
	p.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body) // what is cut off is the test's own doing
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, firstPiece) // a client may have gone
	_ = http.NewResponseController(w).Flush()
	if goOn != nil {
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
	}
	_, _ = io.WriteString(w, secondPiece)
}

// answers has it answer with a status and headers from now on.
func (p *provider) answers(status int, header http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.header = status, header
}

// streams has each stream wait with its second piece from now on; nil: not any more.
func (p *provider) streams(goOn chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.goOn = goOn
}

// seen are the requests that have reached it.
func (p *provider) seen() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*http.Request(nil), p.requests...)
}

// listening is a proxy before the coordinator that counts what it is asked for quota.
type listening struct {
	*httptest.Server
	asked, settled atomic.Int64
}

func listenTo(t *testing.T, base string) *listening {
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	l := &listening{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = quiet
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.asked.Add(1); strings.HasSuffix(r.URL.Path, "/settle") {
			l.settled.Add(1)
			l.asked.Add(-1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(l.Close)
	return l
}

// nginx is Debian's nginx with the configuration of the examples.
type nginx struct {
	t    *testing.T
	base string
	log  *brokertest.LogBook
}

// nginxProgram finds the program, which Debian puts where only root looks.
func nginxProgram(t *testing.T) string {
	t.Helper()
	brokertest.Needs(t, "nginx")
	if os.Getenv("TASKBUS_TEST_NO_NGINX") == "1" {
		t.Skip("TASKBUS_TEST_NO_NGINX=1: the gateway of the examples is not tested")
	}
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal(
		"there is no nginx: run scripts/ensure.sh test-tools (Debian: apt-get install nginx), or set " +
			"TASKBUS_TEST_NO_NGINX=1 to do without")
	return ""
}

// nginxFolder is where nginx writes. Started by root, its workers are nobody, and t.TempDir would keep them out.
func nginxFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nginx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startNginx runs it in front of a provider, asking a coordinator: the configuration of the examples
// with their addresses in it, as its README says. change is done to it besides; nil: nothing else is.
func startNginx(t *testing.T, taskbus, llm string, change func(string) string) *nginx {
	t.Helper()
	program, dir, port := nginxProgram(t), nginxFolder(t), freePort(t)
	example, err := os.ReadFile("../../examples/gateways/nginx/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	conf := string(example)
	for _, r := range [][2]string{
		{"server 127.0.0.1:8551", "server " + strings.TrimPrefix(taskbus, "http://")},
		{"server 127.0.0.1:9000", "server " + strings.TrimPrefix(llm, "http://")},
		{"listen 127.0.0.1:8080", "listen 127.0.0.1:" + port},
	} {
		conf = replaced(t, conf, r[0], r[1])
	}
	if change != nil {
		conf = change(conf)
	}
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &nginx{t, "http://127.0.0.1:" + port, &brokertest.LogBook{}}
	cmd := exec.Command(program, "-p", dir, "-c", path, "-g", "daemon off;")
	cmd.Stdout, cmd.Stderr = n.log, n.log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start nginx: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Error("nginx did not end after SIGTERM")
		}
		if t.Failed() {
			t.Logf("nginx said:\n%s", n.log.Tail(30))
		}
	})
	eventually(t, patience, "nginx listens", func() (bool, string) {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil, fmt.Sprint(err, n.log.String())
	})
	return n
}

// call is one LLM call of an agent through nginx, with its own token unless another is given.
func (n *nginx) call(agent, token string) *http.Response {
	n.t.Helper()
	resp, err := n.tryCall(agent, token)
	if err != nil {
		n.t.Fatalf("a call of %s through nginx: %v", agent, err)
	}
	n.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (n *nginx) tryCall(agent, token string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.base+"/v1/chat/completions",
		strings.NewReader(`{"stream": true, "messages": []}`))
	if err != nil {
		return nil, err
	}
	if token == "" {
		token = credential.AgentToken([]byte(agentSecret), agent)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-Quota-Agent", agent)
	req.Header.Set("X-LLM-Model", "gpt-4o")
	req.Header.Set("Content-Type", "application/json")
	return httpClient.Do(req)
}

// ended reads an answer to its end.
func ended(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
