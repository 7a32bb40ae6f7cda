package amqpbus_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a client and the broker and can stop moving bytes, as a
// dead network does: no reset, no end, nothing.
type proxy struct {
	listener net.Listener
	broker   string

	mu     sync.Mutex
	thaw   *sync.Cond
	frozen bool
	closed bool
	conns  []net.Conn
	lost   map[net.Conn]bool // clients that are not told that their connection has ended
}

// newProxy listens for clients of the broker at brokerURL, with TLS if cfg is
// not nil, and returns the URL that leads through it.
func newProxy(t *testing.T, brokerURL string, cfg *tls.Config) (*proxy, *url.URL) {
	t.Helper()
	u, err := url.Parse(brokerURL)
	if err != nil {
		t.Fatal("the broker's URL does not parse")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, broker: u.Host, lost: make(map[net.Conn]bool)}
	p.thaw = sync.NewCond(&p.mu)
	if cfg != nil {
		p.listener = tls.NewListener(listener, cfg)
		u.Scheme = "amqps"
	}
	u.Host = listener.Addr().String()
	var running sync.WaitGroup
	running.Go(func() { p.accept(&running) })
	t.Cleanup(func() {
		p.close()
		running.Wait()
	})
	return p, u
}

func (p *proxy) accept(running *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.broker)
		if err != nil {
			_ = client.Close()
			return
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		running.Go(func() { p.pipe(client, server) })
		running.Go(func() { p.pipe(server, client) })
	}
}

func (p *proxy) pipe(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		p.mu.Lock()
		for p.frozen && !p.closed {
			p.thaw.Wait()
		}
		p.mu.Unlock()
		n, err := from.Read(buffer)
		if err != nil {
			if !p.isLost(to) {
				_ = to.Close()
			}
			return
		}
		p.mu.Lock()
		for p.frozen && !p.closed {
			p.thaw.Wait()
		}
		p.mu.Unlock()
		if _, err := to.Write(buffer[:n]); err != nil && !p.isLost(from) {
			_ = from.Close()
			return
		}
	}
}

// lose ends the connection that was opened as the n-th at the broker; its client sees that nothing comes
// any more.
func (p *proxy) lose(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	client, server := p.conns[2*n], p.conns[2*n+1]
	p.lost[client] = true
	_ = server.Close()
}

func (p *proxy) isLost(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost[client]
}

// unfreeze lets everything pass that has gathered, and what follows.
func (p *proxy) unfreeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = false
	p.thaw.Broadcast()
}

// freeze stops all traffic until unfreeze.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

func (p *proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.thaw.Broadcast()
	for _, c := range append([]io.Closer{p.listener}, closers(p.conns)...) {
		_ = c.Close()
	}
}

func closers(conns []net.Conn) []io.Closer {
	all := make([]io.Closer, len(conns))
	for i, c := range conns {
		all[i] = c
	}
	return all
}
