package proxy

import (
	"container/heap"
	"time"
)

// How what has been read goes on: late, in pieces, or not at all.

// next waits for the next item that is due; false when the connection has ended.
func (p *pipe) next() (item, bool) {
	for {
		p.mu.Lock()
		var wait <-chan time.Time
		if len(p.queue) > 0 {
			left := time.Until(p.queue[0].due)
			if left <= 0 {
				i := heap.Pop(&p.queue).(item)
				if i.frame != nil {
					p.bytes -= len(i.frame.raw)
				}
				p.room.Broadcast()
				p.mu.Unlock()
				return i, true
			}
			wait = time.After(left)
		}
		p.mu.Unlock()
		select {
		case <-wait:
		case <-p.more:
		case <-p.conn.gone:
			return item{}, false
		}
	}
}

func (p *pipe) write() {
	defer p.unblock()
	for {
		i, ok := p.next()
		if !ok {
			return
		}
		if i.end {
			p.endSlowly()
			return
		}
		if p.from == Server {
			p.conn.traced.record(i.frame)
		}
		if !p.send(i.frame.raw) {
			p.conn.close(false)
			return
		}
		if i.last {
			p.conn.close(false)
			return
		}
	}
}

// unblock lets a reader that waits for room see that the writer is gone.
func (p *pipe) unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.room.Broadcast()
}

// endSlowly passes the end of one side on to the other.
func (p *pipe) endSlowly() {
	t, _ := p.conn.proxy.toxic(p.from)
	if t.SlowClose > 0 {
		p.conn.proxy.count(SlowClose)
		select {
		case <-time.After(t.SlowClose):
		case <-p.conn.gone:
		}
	}
	p.conn.close(false)
}

// send writes the bytes as the network allows; false when the connection has ended.
func (p *pipe) send(raw []byte) bool {
	sliced := false
	for len(raw) > 0 {
		t, ok := p.passable()
		if !ok {
			return false
		}
		piece := raw
		if t.Slice > 0 && len(piece) > t.Slice {
			piece = piece[:t.Slice]
			if !sliced {
				p.conn.proxy.count(Slicer)
				sliced = true
			}
		}
		if t.BytesPerSecond > 0 {
			// Twenty pieces a second, so that a small bandwidth is not a long silence.
			piece = piece[:min(len(piece), max(t.BytesPerSecond/20, 1))]
			if !p.pause(time.Duration(len(piece)) * time.Second / time.Duration(t.BytesPerSecond)) {
				return false
			}
		}
		piece, end := p.limit(t, piece)
		if _, err := p.conn.ends[1-p.from].Write(piece); err != nil || end {
			return false
		}
		raw = raw[len(piece):]
	}
	return true
}

func (p *pipe) pause(d time.Duration) bool {
	p.conn.proxy.count(Bandwidth)
	select {
	case <-time.After(d):
		return true
	case <-p.conn.gone:
		return false
	}
}

// limit cuts a piece off where limit_data ends the connection.
func (p *pipe) limit(t Toxic, piece []byte) (_ []byte, end bool) {
	proxy := p.conn.proxy
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	if t.LimitData > 0 && p.carried+int64(len(piece)) >= t.LimitData {
		piece = piece[:max(t.LimitData-p.carried, 0)]
		proxy.fired[LimitData]++
		end = true
	}
	p.carried += int64(len(piece))
	return piece, end
}
