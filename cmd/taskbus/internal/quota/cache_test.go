package quota

import (
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbus/cmd/taskbus/cli"
)

// The cache asks the coordinators of its URLs, and hands on by itself what it does not answer.
func TestQuotaCache(t *testing.T) {
	asked := make(chan string, 1)
	coordinator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer coordinator.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRig()
	r.Env["TASKBUS_HTTP_URL"] = "http://" + dead.Addr().String() + ", " + coordinator.URL
	code := make(chan int, 1)
	go func() { code <- r.Run(t, "quota", "cache", "--listen", "127.0.0.1:0") }()
	var base []string
	for until := time.Now().Add(10 * time.Second); base == nil; time.Sleep(5 * time.Millisecond) {
		if base = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindStringSubmatch(r.Err.String()); time.Now().After(until) {
			t.Fatalf("it does not say where it answers: %q", r.Err.String())
		}
	}
	q, err := http.NewRequest(http.MethodGet, base[0]+"/v1/quota/auth", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer t")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	if got := <-asked; answer.StatusCode != http.StatusForbidden || got != "GET /v1/quota/auth Bearer t" {
		t.Errorf("answered %s after the coordinator was asked %q", answer.Status, got)
	}
	r.Signals <- syscall.SIGTERM
	if got := <-code; got != cli.ExitOK {
		t.Errorf("exit code %d: %s", got, r.Err.String())
	}
}

func TestQuotaCacheRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--listen 0.0.0.0:8553": "loopback address",
		"--listen nowhere":      "loopback address",
		"--calls 0 --for 25h":   "1 s to 24 h",
		"--calls 10001":         "1 to 10000",
		"--url ftp://one":       "not the URL of a coordinator",
	} {
		r := newRig()
		code := r.Run(t, append([]string{"quota", "cache"}, strings.Fields(args)...)...)
		if code != cli.ExitUsage || !strings.Contains(r.Err.String(), want) {
			t.Errorf("%s: exit code %d, %q", args, code, r.Err.String())
		}
	}
}
