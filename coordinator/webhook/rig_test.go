package webhook

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	// What no log may have: the path of the URL, its query, and what keys are made of.
	secretPath, secretQuery = "T0123-path", "token=hidden"
	firstKey, secondKey     = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
)

// lockedBuffer collects log lines from several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// pipes are a network without a machine: connections that live in virtual time.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// got is one request as the receiver saw it.
type got struct {
	at     time.Time
	header http.Header
	path   string
	body   string
}

// rig is a sender in virtual time, and an HTTP server that hears it.
type rig struct {
	t        *testing.T
	sender   *Sender
	registry *prometheus.Registry
	log      *lockedBuffer
	stop     context.CancelFunc
	ended    chan struct{}

	mu  sync.Mutex
	all []got
}

// inRig runs a test with a sender to a receiver that answers so; n is the number of the request,
// from 1 on.
func inRig(t *testing.T, o Options, answer func(n int, w http.ResponseWriter, q *http.Request), test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, log: &lockedBuffer{}, registry: prometheus.NewRegistry(), ended: make(chan struct{})}
		network := newPipes()
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body, err := io.ReadAll(q.Body)
			if err != nil {
				t.Errorf("read what was sent: %v", err)
			}
			r.mu.Lock()
			r.all = append(r.all, got{time.Now(), q.Header.Clone(), q.URL.RequestURI(), string(body)})
			n := len(r.all)
			r.mu.Unlock()
			answer(n, w, q)
		}))
		server.Listener = network
		server.Start()
		o.URL = "http://receiver.example:8080/hooks/" + secretPath + "?" + secretQuery
		o.Registry, o.Logger = r.registry, zerolog.New(r.log)
		if o.Keys == nil {
			o.Keys = [][]byte{[]byte(firstKey)}
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		s.client.Transport.(*http.Transport).DialContext = network.dial
		s.client.Transport.(*http.Transport).Proxy = nil
		r.sender = s
		ctx, cancel := context.WithCancel(context.Background())
		r.stop = cancel
		go func() { s.Run(ctx); close(r.ended) }()
		test(r)
		cancel()
		<-r.ended
		server.CloseClientConnections()
		server.Close()
		log := r.log.String()
		for _, secret := range []string{secretPath, secretQuery, "hidden", firstKey[:8], secondKey[:8], "amount", "/hooks"} {
			if strings.Contains(log, secret) {
				t.Errorf("the log has %q:\n%s", secret, log)
			}
		}
	})
}

func (r *rig) send(id string) { r.sendAbout("", id) }

func (r *rig) sendAbout(subject, id string) {
	r.sender.Send(Message{ID: id, Subject: subject, Body: []byte(`{"of":"` + id + `","amount":1}`), Text: "amount of " +
		id + " <&>"})
}

// heard are the requests so far.
func (r *rig) heard() []got {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]got(nil), r.all...)
}

// result is how many events had that end.
func (r *rig) metric(name, result string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "taskbus_quota_webhook_"+name && (result == "" || m.GetLabel()[0].GetValue() == result) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	r.t.Fatalf("no metric %s of %q", name, result)
	return 0
}

// ends insists on what became of all events.
func (r *rig) ends(want map[string]float64) {
	r.t.Helper()
	for _, result := range []string{resultDelivered, resultRefused, resultGivenUp, resultDropped, resultUnsent} {
		if n := r.metric("events_total", result); n != want[result] {
			r.t.Errorf("%v events are %s, want %v; log:\n%s", n, result, want[result], r.log)
		}
	}
}
