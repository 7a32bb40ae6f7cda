package amqpbus

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// wireBuffer bounds the bytes gathered and not yet written; a Write beyond it waits.
	wireBuffer = 1 << 20
	// readBuffer lets one read fetch many deliveries; the library's own buffer
	// of 4 KiB holds a handful.
	readBuffer = 64 << 10
	// wireGoodbye bounds the flush of what is left when the library closes.
	wireGoodbye = 2 * time.Second
	// readDeadlineSteps: within this part of the limit a read deadline is not
	// renewed. It saves a timer update per read and shortens the limit by as much.
	readDeadlineSteps = 16
	// readTogether is how long a wire that is not in a hurry lets deliveries gather,
	// unless the last read brought readMuch or more: then there is a backlog. Fetched
	// one at a time, deliveries cost twice as much: each wakes half a dozen
	// goroutines and threads.
	readTogether = 10 * time.Millisecond
	readMuch     = 16 << 10
)

// wire is the stream between the library and the broker.
//
// Write appends to a buffer, and one flusher goroutine writes whatever has
// gathered: an idle wire is flushed at once, a busy one gathers while the system
// call of the previous flush runs. The library calls Write once per publish, so
// that this is the difference between one system call per message and one per
// batch.
//
// It is deliberately not a net.Conn. The library would then hand every frame it
// reads to another goroutine, only to move the read deadline.
type wire struct {
	conn         net.Conn // TCP, or TLS over socket
	socket       net.Conn // closing it ends every wait at once
	in           *bufio.Reader
	writeTimeout time.Duration
	idle         atomic.Int64 // how long reading may be silent, ns; 0: as set by deadline
	deadlineSet  time.Time    // last renewal of the read deadline; reader goroutine only
	calm         atomic.Int32 // above 0: reading is in no hurry
	lastRead     time.Time    // that brought little; reader goroutine only
	stalls       func(net.Conn, time.Duration)

	mu      sync.Mutex
	changed sync.Cond // anything below has changed
	pending []byte    // gathered, not yet written
	spare   []byte
	writing bool      // the flusher is inside conn.Write
	held    bool      // the broker holds publishers up: silence is no fault
	limit   time.Time // explicit deadline; zero: none
	closing bool
	err     error // why the wire is dead
	flushed chan struct{}
}

// newWire takes ownership of conn and socket (the same for plain TCP) and starts
// the flusher. stalls sets how long the kernel lets sent data go unacknowledged.
func newWire(conn, socket net.Conn, writeTimeout time.Duration, stalls func(net.Conn, time.Duration)) *wire {
	w := &wire{
		conn: conn, socket: socket, writeTimeout: writeTimeout, stalls: stalls,
		flushed: make(chan struct{}),
	}
	w.changed.L = &w.mu
	w.in = bufio.NewReaderSize(readerFunc(w.readConn), readBuffer)
	stalls(socket, writeTimeout)
	go w.flush()
	return w
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Read is called by the library's one reader goroutine.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	if err != nil {
		// The library's shutdown waits for a publisher that may wait in Write.
		w.kill(err)
	}
	return n, err
}

func (w *wire) readConn(p []byte) (int, error) {
	if idle := time.Duration(w.idle.Load()); idle > 0 {
		if now := time.Now(); now.Sub(w.deadlineSet) > idle/readDeadlineSteps {
			w.deadlineSet = now
			if err := w.conn.SetReadDeadline(now.Add(idle)); err != nil {
				return 0, err
			}
		}
	}
	if w.calm.Load() == 0 {
		return w.conn.Read(p)
	}
	time.Sleep(time.Until(w.lastRead.Add(readTogether)))
	n, err := w.conn.Read(p)
	w.lastRead = time.Time{}
	if n < readMuch {
		w.lastRead = time.Now()
	}
	return n, err
}

// calmDown lets reading take its time until the returned function is called.
func (w *wire) calmDown() (hurry func()) {
	w.calm.Add(1)
	return func() { w.calm.Add(-1) }
}

// Write accepts p for sending. It waits while the buffer is full and fails once
// the wire is dead; it never reports the fate of the bytes themselves.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.closing && len(w.pending) > 0 && len(w.pending)+len(p) > wireBuffer {
		w.changed.Wait()
	}
	if w.err != nil {
		return 0, w.err
	}
	if w.closing {
		return 0, net.ErrClosed
	}
	if len(w.pending) == 0 {
		w.changed.Broadcast()
	}
	w.pending = append(w.pending, p...)
	return len(p), nil
}

func (w *wire) flush() {
	defer close(w.flushed)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.pending) == 0 && w.err == nil && !w.closing {
			w.changed.Wait()
		}
		if w.err != nil || len(w.pending) == 0 {
			return
		}
		batch := w.pending
		w.pending, w.spare = w.spare[:0], nil
		w.writing = true
		if err := w.setWriteDeadline(); err != nil {
			w.fail(err)
			return
		}
		w.changed.Broadcast()
		w.mu.Unlock()
		_, err := w.conn.Write(batch)
		w.mu.Lock()
		w.writing = false
		w.spare = batch
		if err != nil {
			w.fail(err)
			return
		}
	}
}

// setWriteDeadline gives the next or running write its time. Called with mu held.
func (w *wire) setWriteDeadline() error {
	var by time.Time
	if !w.held {
		by = time.Now().Add(w.writeTimeout)
	}
	if !w.limit.IsZero() && (by.IsZero() || w.limit.Before(by)) {
		by = w.limit
	}
	return w.conn.SetWriteDeadline(by)
}

// fail makes the wire dead for the given reason. Called with mu held.
func (w *wire) fail(err error) {
	if w.err == nil {
		w.err = err
		w.changed.Broadcast()
	}
	// The socket, not conn: closing TLS would write once more.
	_ = w.socket.Close()
}

// kill closes the socket at once. Every Read and Write fails from then on. The
// first reason is kept.
func (w *wire) kill(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(reason)
}

// cause is why the wire is dead; nil while it lives or after a plain Close.
func (w *wire) cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// hold suspends (or restores) the limits on writing. While a memory or disk
// alarm lasts the broker does not read, for as long as it takes.
func (w *wire) hold(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == on || w.err != nil {
		return
	}
	w.held = on
	if on {
		w.stalls(w.socket, 0)
	} else {
		w.stalls(w.socket, w.writeTimeout)
	}
	if w.writing {
		if err := w.setWriteDeadline(); err != nil {
			w.fail(err)
		}
	}
}

// isHeld reports whether the broker holds publishers up.
func (w *wire) isHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held && w.err == nil
}

// deadline makes reads and writes fail after t; a zero t removes the limit.
func (w *wire) deadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = t
	if err := w.conn.SetReadDeadline(t); err != nil {
		return err
	}
	return w.setWriteDeadline()
}

// watch ends the handshake: from now on a silence longer than idle is a fault.
func (w *wire) watch(idle time.Duration) error {
	if err := w.deadline(time.Time{}); err != nil {
		return err
	}
	// The reader is already inside a read that knows of no limit yet.
	if err := w.conn.SetReadDeadline(time.Now().Add(idle)); err != nil {
		return err
	}
	w.idle.Store(int64(idle))
	return nil
}

// part lets the goodbye run until t at the latest. Later reads do not renew it.
func (w *wire) part(t time.Time) error {
	w.idle.Store(0)
	return w.deadline(t)
}

// Close flushes what has gathered, within wireGoodbye or an earlier deadline,
// and closes. The library calls it, holding its locks.
func (w *wire) Close() error {
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return nil
	}
	w.closing = true
	if by := time.Now().Add(wireGoodbye); w.limit.IsZero() || by.Before(w.limit) {
		w.limit = by
	}
	err := w.setWriteDeadline()
	w.changed.Broadcast()
	w.mu.Unlock()
	if err == nil {
		<-w.flushed
	}
	return w.socket.Close()
}

var _ io.ReadWriteCloser = (*wire)(nil)
