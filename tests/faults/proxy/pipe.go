package proxy

import (
	"container/heap"
	"sync"
	"time"
)

// How much may be under way in one direction; beyond it the sender feels the
// back-pressure. What is delayed is under way; a narrow line holds little.
const (
	queueBytes  = 32 << 20
	narrowBytes = 64 << 10
)

// pipe is one direction of a connection: a goroutine that reads frames into a queue
// and one that writes them when they are due.
type pipe struct {
	conn *conn
	from Side

	carried int64 // bytes written since the toxic was set; guarded by proxy.mu

	mu     sync.Mutex
	room   sync.Cond
	queue  schedule
	bytes  int
	number uint64
	closed bool
	more   chan struct{} // capacity 1: something was queued

	// The reader's own: how long what follows must wait, by channel and for all.
	until    time.Time
	channels map[uint16]time.Time
	// swallowing are the channels on which the rest of a message must vanish.
	swallowing map[uint16]bool
	// cutAfter is what is left of the bodies after which the connection is to be cut.
	cutAfter map[uint16]uint64
}

func newPipe(c *conn, from Side) *pipe {
	p := &pipe{
		conn: c, from: from, more: make(chan struct{}, 1),
		channels: map[uint16]time.Time{}, swallowing: map[uint16]bool{}, cutAfter: map[uint16]uint64{},
	}
	p.room.L = &p.mu
	return p
}

// item is a frame that waits to be written.
type item struct {
	frame  *Frame
	due    time.Time
	number uint64
	last   bool // the connection ends after it
	end    bool // no frame: the sender has ended its side
}

// schedule is a heap by due time, then by order of arrival.
type schedule []item

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, j int) bool {
	if !s[i].due.Equal(s[j].due) {
		return s[i].due.Before(s[j].due)
	}
	return s[i].number < s[j].number
}
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)   { *s = append(*s, x.(item)) }
func (s *schedule) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// passable waits while a blackhole stands and gives what holds then; false when the
// connection has ended.
func (p *pipe) passable() (Toxic, bool) {
	counted := false
	for {
		t, changed := p.conn.proxy.toxic(p.from)
		select {
		case <-p.conn.gone:
			return t, false
		default:
		}
		if !t.Blackhole {
			return t, true
		}
		if !counted {
			p.conn.proxy.count(Blackhole)
			counted = true
		}
		select {
		case <-changed:
		case <-p.conn.gone:
			return t, false
		}
	}
}

func (p *pipe) read() {
	defer p.finish()
	scan := scanner{from: p.from}
	buffer := make([]byte, 64<<10)
	for {
		if _, ok := p.passable(); !ok {
			return
		}
		n, err := p.conn.ends[p.from].Read(buffer)
		frames, bad := scan.feed(buffer[:n])
		for _, f := range frames {
			p.conn.complete(f)
			if !p.handle(f) {
				return
			}
		}
		if bad != nil {
			p.conn.traced.fault(bad)
			p.conn.close(true)
			return
		}
		if err != nil {
			return
		}
	}
}

// finish tells the writer that nothing more comes after what is under way.
func (p *pipe) finish() {
	last := p.until
	for _, due := range p.channels {
		if due.After(last) {
			last = due
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.push(item{end: true, due: last})
	p.room.Broadcast()
}

// handle does with a frame what toxics and rules ask for; false when the connection
// has ended.
func (p *pipe) handle(f *Frame) bool {
	if p.from == Client {
		p.conn.traced.record(f)
	}
	t, _ := p.conn.proxy.toxic(p.from)
	if t.Timeout {
		p.conn.forget()
		return true
	}
	now := time.Now()
	p.slow(t, now)
	last := false
	switch f.Kind {
	case KindHeader, KindBody:
		if p.swallowing[f.Channel] {
			return true // ends with the next method on the channel
		}
		last = p.ends(f)
	case KindMethod:
		delete(p.swallowing, f.Channel)
		if armed := p.conn.proxy.judge(f); armed != nil {
			if armed.rule.Hook != nil {
				armed.rule.Hook()
			}
			switch armed.rule.Action {
			case Swallow:
				p.swallowing[f.Channel] = f.Method.hasContent()
				return true
			case Delay:
				p.conn.proxy.count(Latency)
				p.channels[f.Channel] = now.Add(armed.rule.For)
			case Cut:
				p.conn.proxy.count(ResetPeer)
				p.conn.close(true)
				return false
			case CutAfter:
				p.conn.proxy.count(Finish)
				if last = !f.Method.hasContent(); !last {
					p.cutAfter[f.Channel] = unknownSize
				}
			}
		}
	}
	due := p.until
	if own := p.channels[f.Channel]; own.After(due) {
		due = own
	}
	room := queueBytes
	if t.BytesPerSecond > 0 {
		room = narrowBytes
	}
	p.enqueue(item{frame: f, due: due, last: last}, room)
	return true
}

// forget notes that a frame of the connection is thrown away.
func (c *conn) forget() {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.proxy.fired[Timeout]++
	c.forgotten = true
}

// slow moves on when the next frames are due. Nothing overtakes what is late already.
func (p *pipe) slow(t Toxic, now time.Time) {
	if t.Latency == 0 && t.Jitter == 0 {
		return
	}
	proxy := p.conn.proxy
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	delay := t.Latency
	if t.Jitter > 0 {
		delay += time.Duration(proxy.chance.Int64N(int64(2*t.Jitter))) - t.Jitter
	}
	proxy.fired[Latency]++
	if due := now.Add(max(delay, 0)); due.After(p.until) {
		p.until = due
	}
}

// unknownSize stands for a body whose header has not come.
const unknownSize = ^uint64(0)

// ends tells whether the frame ends a message after which the connection is to be cut.
func (p *pipe) ends(f *Frame) bool {
	left, cut := p.cutAfter[f.Channel]
	switch {
	case !cut:
		return false
	case f.Kind == KindHeader:
		left = f.BodySize
	case left != unknownSize:
		left -= min(left, uint64(len(f.payload)))
	}
	p.cutAfter[f.Channel] = left
	return left == 0
}

func (p *pipe) enqueue(i item, room int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.bytes > room && !p.closed {
		p.room.Wait()
	}
	p.push(i)
}

func (p *pipe) push(i item) {
	p.number++
	i.number = p.number
	if i.frame != nil {
		p.bytes += len(i.frame.raw)
	}
	heap.Push(&p.queue, i)
	select {
	case p.more <- struct{}{}:
	default:
	}
}
