package proxy

import "time"

// Toxic is what a network does to what one side sends. The zero value does nothing.
type Toxic struct {
	// Latency, give or take Jitter, delays everything; the order is kept.
	Latency, Jitter time.Duration
	// BytesPerSecond limits the bandwidth; 0: no limit.
	BytesPerSecond int
	// Slice sends pieces of at most so many bytes; 0: as they come.
	Slice int
	// Blackhole stops reading: the sender's buffers fill, and nothing is lost until
	// one side gives up. When it is lifted, all goes on.
	Blackhole bool
	// Timeout reads and throws away: the sender sees nothing of it. The connections
	// that it has hit are reset when it is lifted, as by a router that has forgotten them.
	Timeout bool
	// LimitData closes a connection when it has carried so many bytes since the
	// toxic was set, in the middle of a frame if need be; 0: no limit.
	LimitData int64
	// SlowClose is how long the end of one connection is kept from the other side.
	SlowClose time.Duration
}

// Fault is a kind of fault that the proxy can cause, by toxiproxy's name where it has one.
type Fault string

// The faults that are counted.
const (
	Latency   Fault = "latency"    // frames that were delayed
	Bandwidth Fault = "bandwidth"  // pieces that had to wait
	Slicer    Fault = "slicer"     // frames that were cut up
	Blackhole Fault = "blackhole"  // reads and writes that were held up
	Timeout   Fault = "timeout"    // frames that were thrown away
	LimitData Fault = "limit_data" // connections
	SlowClose Fault = "slow_close" // connections
	ResetPeer Fault = "reset_peer" // connections, by Reset or a rule
	Finish    Fault = "finish"     // connections, by Finish or a rule
	Refuse    Fault = "refuse"     // connections that were not let in
)

// Toxic lets the network do this to what the side sends, on all connections, those to
// come too, in place of what it did before.
func (p *Proxy) Toxic(from Side, t Toxic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lifted := p.toxics[from].Timeout && !t.Timeout
	p.toxics[from] = t
	for c := range p.conns {
		c.pipes[from].carried = 0
		if lifted && c.forgotten {
			c.closeLocked(true)
		}
	}
	p.changedLocked()
}

// Both is Toxic for both sides.
func (p *Proxy) Both(t Toxic) {
	p.Toxic(Client, t)
	p.Toxic(Server, t)
}

// Heal takes back every toxic, rule and refusal.
func (p *Proxy) Heal() {
	p.Both(Toxic{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
	p.refusing = false
}

// Reset ends every connection with a TCP RST to both sides, and tells how many.
func (p *Proxy) Reset() int { return p.end(ResetPeer, true) }

// Finish ends every connection with a TCP FIN to both sides, and tells how many.
func (p *Proxy) Finish() int { return p.end(Finish, false) }

func (p *Proxy) end(f Fault, reset bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns)
	for c := range p.conns {
		c.closeLocked(reset)
	}
	p.fired[f] += n
	return n
}

// Refuse lets no new connection in, or does so again: a client is accepted and reset.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = on
}

// Fired is how often a fault has been caused so far.
func (p *Proxy) Fired(f Fault) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired[f]
}
