package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener in memory: with it, waiting out a time limit costs no time.
type pipes struct {
	waiting chan net.Conn
	closed  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.waiting:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.waiting <- server
	return client
}

func TestServeSlowHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		listener := newPipes()
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, listener, New(&fakeSource{}, metrics, Options{})) }()

		conn, start := listener.dial(), time.Now()
		// A header that never ends, one byte each second.
		var writer sync.WaitGroup
		writer.Go(func() {
			for _, b := range []byte("GET /health HTTP/1.1\r\nX-Slow: " + strings.Repeat("a", 100)) {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("reading until the server hangs up: %v", err)
		}
		if took := time.Since(start); took != readHeaderTimeout {
			t.Errorf("the server hung up after %v, want %v", took, readHeaderTimeout)
		}
		writer.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestServeStopsGracefully(t *testing.T) {
	for _, tc := range []struct {
		name     string
		work     time.Duration
		answered bool
	}{
		{"a request in progress is finished", stopTimeout - time.Millisecond, true},
		{"one that takes too long is cut off", stopTimeout + time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				listener := newPipes()
				ended := make(chan error, 1)
				slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(tc.work):
						w.WriteHeader(http.StatusNoContent)
					case <-r.Context().Done(): // the connection was cut
					}
				})
				go func() { ended <- Serve(ctx, listener, slow) }()
				conn := listener.dial()
				defer conn.Close()
				if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the handler works now
				stop()
				r, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if tc.answered != (err == nil) {
					t.Errorf("answered %v (%v), want %v", err == nil, err, tc.answered)
				}
				if err == nil {
					r.Body.Close()
				}
				if err := <-ended; err != nil {
					t.Errorf("Serve: %v", err)
				}
			})
		})
	}
}

func TestServeHugeHeader(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, New(&fakeSource{}, metrics, Options{LoopbackHosts: true})) }()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String()+"/livez", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Huge", strings.Repeat("a", 2*maxHeaderBytes))
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("the server should answer 431: %v", err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want 431", r.StatusCode)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestServeSaysWhyItEnded(t *testing.T) {
	listener := newPipes()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	err := Serve(t.Context(), &once{listener}, http.NotFoundHandler())
	if err == nil || !strings.Contains(err.Error(), "serving HTTP on pipe") {
		t.Errorf("Serve on a closed listener: %v", err)
	}
}

// once is a listener that is closed already.
type once struct{ *pipes }

func (o *once) Close() error { return nil }

func TestServeEndedBeforeItBegan(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	listener := newPipes()
	if err := Serve(ctx, listener, http.NotFoundHandler()); err != nil {
		t.Errorf("Serve: %v", err)
	}
	select {
	case <-listener.closed:
	default:
		t.Error("the listener is still open")
	}
}
