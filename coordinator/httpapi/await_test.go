package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/view"
)

var someTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// changing is a source of one task that changes.
type changing struct {
	fakeSource
	mu   sync.Mutex
	task view.Task // without an id: it is not known
}

func (c *changing) set(id, state string) {
	c.mu.Lock()
	c.task = view.Task{ID: id, State: state}
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

func (c *changing) Task(_ context.Context, id string) (view.Task, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.task, c.task.ID == id
}

func (c *changing) TaskStory(ctx context.Context, id string) (view.TaskStory, bool) {
	t, known := c.Task(ctx, id)
	return view.TaskStory{Task: t}, known
}

func newChanging() *changing { return &changing{fakeSource: fakeSource{news: make(chan struct{}, 1)}} }

// The end of a task is answered when it comes, whether the task was known before or not; otherwise what is known when
// the time is over.
func TestTheEndIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name, query   string
		before, after string        // the task's state, and what it is 7 s later; empty: not known
		took          time.Duration // until the answer
		status        int
		has           string
	}{
		{"it has ended", "?wait=30s", "failed", "failed", 0, 200, "failed"},
		{"it ends", "?wait=30s", "dispatched", "succeeded", 7 * time.Second, 200, "succeeded"},
		{"it comes and ends", "?wait=30s", "", "cancelled", 7 * time.Second, 200, "cancelled"},
		{"it goes on", "?wait=30s", "pending", "dispatched", 30 * time.Second, 200, "dispatched"},
		{"it never comes", "?wait=1m", "", "", time.Minute, 404, "not remembered"},
		{"it ends too late", "?wait=6999ms", "dispatched", "succeeded", 6999 * time.Millisecond, 200, "dispatched"},
		{"at once", "?wait=0s", "dispatched", "succeeded", 0, 200, "dispatched"},
		{"at once, too", "?wait=", "dispatched", "succeeded", 0, 200, "dispatched"},
		{"too long", "?wait=60.001s", "dispatched", "", 0, 400, "60s"},
		{"back in time", "?wait=-1s", "dispatched", "", 0, 400, "60s"},
		{"no unit", "?wait=30", "dispatched", "", 0, 400, "30s"},
		{"no such parameter", "?waits=30s", "dispatched", "", 0, 400, "known are wait"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newChanging()
				id := func(state string) string { return map[bool]string{true: "t-1"}[state != ""] }
				src.set(id(c.before), c.before)
				time.AfterFunc(7*time.Second, func() { src.set(id(c.after), c.after) })
				begun, w := time.Now(), httptest.NewRecorder()
				New(src, metrics, Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/tasks/t-1"+c.query, nil))
				if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) {
					t.Errorf("%d %s, want %d with %q", w.Code, w.Body, c.status, c.has)
				}
				if took := time.Since(begun); took != c.took {
					t.Errorf("after %v, want %v", took, c.took)
				}
				if n := atomic.LoadInt32(&src.watchers); n != 0 {
					t.Errorf("%d watch on", n)
				}
				time.Sleep(time.Minute) // the bubble must outlast its timers
			})
		})
	}
}

// A client that goes away is waited for no longer, and as many wait as may: one more is to ask again.
func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{}
		h := New(src, metrics, Options{})
		ctx, leave := context.WithCancel(t.Context())
		ask := func(ctx context.Context) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/tasks/t-1?wait=60s", nil))
			return w
		}
		var others sync.WaitGroup
		for range mostWaits {
			others.Go(func() { _ = ask(ctx) })
			synctest.Wait() // the source counts without a lock
		}
		if n := atomic.LoadInt32(&src.watchers); n != mostWaits {
			t.Fatalf("%d watch, want %d", n, mostWaits)
		}
		if w := ask(t.Context()); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("one too many: %d", w.Code)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/tasks/t-1", nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("one that does not wait: %d", w.Code)
		}
		begun := time.Now()
		leave()
		others.Wait()
		if took := time.Since(begun); took != 0 {
			t.Errorf("their clients have gone, and they waited %v more", took)
		}
	})
}

// piped is a listener in memory; its connections have deadlines in virtual time.
type piped struct {
	connections chan net.Conn
	closed      chan struct{}
}

func newPiped() *piped { return &piped{make(chan net.Conn), make(chan struct{})} }

func (p *piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *piped) Close() error { close(p.closed); return nil }
func (*piped) Addr() net.Addr { return &net.TCPAddr{} }

// client asks over it.
func (p *piped) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			p.connections <- there
			return here, nil
		}}}
}

// A wait outlasts the limits that a connection has for reading (10 s) and writing (30 s), and ends at once when the
// server stops.
func TestWaitsOutlastTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, l := newChanging(), newPiped()
		src.set("t-1", "dispatched")
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- Serve(ctx, l, New(src, metrics, Options{})) }()
		ask := func() string {
			r, err := l.client().Get("http://localhost/tasks/t-1?wait=60s")
			if err != nil {
				return err.Error()
			}
			defer r.Body.Close()
			text, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
		begun := time.Now()
		time.AfterFunc(45*time.Second, func() { src.set("t-1", "succeeded") })
		if got := ask(); !strings.Contains(got, "succeeded") || time.Since(begun) != 45*time.Second {
			t.Errorf("after %v: %s", time.Since(begun), got)
		}
		src.set("t-1", "dispatched")
		<-src.news
		begun = time.Now()
		time.AfterFunc(5*time.Second, stop)
		if got := ask(); !strings.Contains(got, "dispatched") || time.Since(begun) != 5*time.Second {
			t.Errorf("after %v: %s", time.Since(begun), got)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
