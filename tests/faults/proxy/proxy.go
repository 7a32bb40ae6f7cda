package proxy

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
)

// Proxy listens on the loopback interface and leads to one broker.
type Proxy struct {
	broker   string
	listener net.Listener
	trace    *Trace
	running  sync.WaitGroup

	mu       sync.Mutex
	toxics   [2]Toxic
	changed  chan struct{} // closed when a toxic changes
	rules    []*Armed
	refusing bool
	closed   bool
	conns    map[*conn]struct{}
	fired    map[Fault]int
	accepted int
	chance   *rand.Rand // for jitter
}

// New begins to listen. broker is its host and port; trace may be shared by several
// proxies, and nil. The seed is that of the jitter.
func New(broker string, trace *Trace, seed uint64) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for clients of the broker: %w", err)
	}
	p := &Proxy{
		broker: broker, listener: listener, trace: trace, changed: make(chan struct{}),
		conns: map[*conn]struct{}{}, fired: map[Fault]int{}, chance: rand.New(rand.NewPCG(seed, 0)),
	}
	p.running.Go(p.accept)
	return p, nil
}

// URL is the broker's URL with the proxy in its place.
func (p *Proxy) URL(broker string) (string, error) {
	u, err := url.Parse(broker)
	if err != nil {
		return "", fmt.Errorf("the broker's URL does not parse") // err would quote its password
	}
	u.Host = p.listener.Addr().String()
	return u.String(), nil
}

// Close ends everything and waits for it.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.closeLocked(false)
	}
	p.toxics = [2]Toxic{}
	p.changedLocked()
	p.mu.Unlock()
	p.running.Wait()
}

// Accepted is how many connections have been let in so far, Open how many there are.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open is how many connections there are now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refusing := p.refusing
		if refusing {
			p.fired[Refuse]++
		}
		p.mu.Unlock()
		if refusing {
			reset(client)
			continue
		}
		server, err := net.Dial("tcp", p.broker)
		if err != nil {
			reset(client) // the broker is not there: neither are we
			continue
		}
		p.join(client, server)
	}
}

func (p *Proxy) join(client, server net.Conn) {
	c := &conn{proxy: p, ends: [2]net.Conn{client, server}, gone: make(chan struct{})}
	for side := range c.pipes {
		c.pipes[side] = newPipe(c, Side(side))
	}
	if p.trace != nil {
		c.traced = p.trace.connection()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_, _ = client.Close(), server.Close()
		return
	}
	p.accepted++
	p.conns[c] = struct{}{}
	for _, pipe := range c.pipes {
		p.running.Go(pipe.read)
		p.running.Go(pipe.write)
	}
}

// toxic is what holds for a side now, and a channel that is closed when that changes.
func (p *Proxy) toxic(from Side) (Toxic, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.toxics[from], p.changed
}

func (p *Proxy) changedLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) count(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fired[f]++
}

// conn is one connection: two sockets and what goes each way.
type conn struct {
	proxy  *Proxy
	ends   [2]net.Conn // by side
	pipes  [2]*pipe    // by the side that sends
	traced *traced     // nil: not traced
	gone   chan struct{}

	// Guarded by proxy.mu.
	ended     bool
	forgotten bool // frames of it were thrown away

	names     sync.Mutex
	name      string            // by which the client calls it
	consumers map[string]string // queues by channel and consumer tag
	asked     map[uint16]string // queue of a consume that waits for its tag
	read      map[uint16]string // the queue that a channel began to read last
}

// close ends both sides.
func (c *conn) close(withReset bool) {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.closeLocked(withReset)
}

func (c *conn) closeLocked(withReset bool) {
	if c.ended {
		return
	}
	c.ended = true
	delete(c.proxy.conns, c)
	c.traced.ended()
	close(c.gone)
	for _, end := range c.ends {
		if withReset {
			reset(end)
		} else {
			_ = end.Close()
		}
	}
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// complete adds to a frame what only the frames before it tell.
func (c *conn) complete(f *Frame) {
	c.names.Lock()
	defer c.names.Unlock()
	key := func() string { return fmt.Sprint(f.Channel, " ", f.Consumer) }
	switch f.Method {
	case StartOK:
		c.name = f.Connection
	case Consume:
		if c.read == nil {
			c.read = map[uint16]string{}
		}
		c.read[f.Channel] = f.Queue
		if f.Consumer != "" {
			c.remember(key(), f.Queue)
		} else {
			if c.asked == nil {
				c.asked = map[uint16]string{}
			}
			c.asked[f.Channel] = f.Queue
		}
	case ConsumeOK:
		if queue, ok := c.asked[f.Channel]; ok {
			c.remember(key(), queue)
			delete(c.asked, f.Channel)
		}
	case Deliver:
		f.Queue = c.consumers[key()]
	case Ack, Nack, Reject:
		if f.From == Client {
			f.Queue = c.read[f.Channel]
		}
	}
	f.Connection = c.name
}

func (c *conn) remember(key, queue string) {
	if c.consumers == nil {
		c.consumers = map[string]string{}
	}
	c.consumers[key] = queue
}
