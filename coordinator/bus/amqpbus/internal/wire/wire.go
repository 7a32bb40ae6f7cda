package wire

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// writeBuffer bounds the bytes gathered and not yet written; a Write beyond it waits.
	writeBuffer = 1 << 20
	// readBuffer lets one read fetch many deliveries; the library's own buffer
	// of 4 KiB holds a handful.
	readBuffer = 64 << 10
	// goodbye bounds the flush of what is left when the library closes.
	goodbye = 2 * time.Second
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

// Wire is the stream between the library and the broker.
//
// Write appends to a buffer, and one flusher goroutine writes whatever has
// gathered: an idle wire is flushed at once, a busy one gathers while the system
// call of the previous flush runs. The library calls Write once per publish, so
// that this is the difference between one system call per message and one per
// batch.
//
// It is deliberately not a net.Conn. The library would then hand every frame it
// reads to another goroutine, only to move the read deadline.
type Wire struct {
	conn         net.Conn // TCP, or TLS over socket
	socket       net.Conn // closing it ends every wait at once
	in           *bufio.Reader
	writeTimeout time.Duration
	idle         atomic.Int64 // how long reading may be silent, ns; 0: as set by deadline
	deadlineSet  time.Time    // last renewal of the read deadline; reader goroutine only
	calm         atomic.Int32 // above 0: reading is in no hurry
	lastRead     time.Time    // that brought little; reader goroutine only

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

// New takes ownership of conn and socket (the same for plain TCP) and starts
// the flusher.
func New(conn, socket net.Conn, writeTimeout time.Duration) *Wire {
	w := &Wire{
		conn: conn, socket: socket, writeTimeout: writeTimeout,
		flushed: make(chan struct{}),
	}
	w.changed.L = &w.mu
	w.in = bufio.NewReaderSize(readerFunc(w.readConn), readBuffer)
	limitStalls(socket, writeTimeout)
	go w.flush()
	return w
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Read is called by the library's one reader goroutine.
func (w *Wire) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	if err != nil {
		// The library's shutdown waits for a publisher that may wait in Write.
		w.Kill(err)
	}
	return n, err
}

func (w *Wire) readConn(p []byte) (int, error) {
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

// CalmDown lets reading take its time until the returned function is called.
func (w *Wire) CalmDown() (hurry func()) {
	w.calm.Add(1)
	return func() { w.calm.Add(-1) }
}

// Write accepts p for sending. It waits while the buffer is full and fails once
// the wire is dead; it never reports the fate of the bytes themselves.
func (w *Wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.closing && len(w.pending) > 0 && len(w.pending)+len(p) > writeBuffer {
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

func (w *Wire) flush() {
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
func (w *Wire) setWriteDeadline() error {
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
func (w *Wire) fail(err error) {
	if w.err == nil {
		w.err = err
		w.changed.Broadcast()
	}
	// The socket, not conn: closing TLS would write once more.
	_ = w.socket.Close()
}

// Kill closes the socket at once. Every Read and Write fails from then on. The
// first reason is kept.
func (w *Wire) Kill(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(reason)
}

// Cause is why the wire is dead; nil while it lives or after a plain Close.
func (w *Wire) Cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Hold suspends (or restores) the limits on writing. While a memory or disk
// alarm lasts the broker does not read, for as long as it takes.
func (w *Wire) Hold(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == on || w.err != nil {
		return
	}
	w.held = on
	if on {
		limitStalls(w.socket, 0)
	} else {
		limitStalls(w.socket, w.writeTimeout)
	}
	if w.writing {
		if err := w.setWriteDeadline(); err != nil {
			w.fail(err)
		}
	}
}

// Held reports whether the broker holds publishers up.
func (w *Wire) Held() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held && w.err == nil
}

// Deadline makes reads and writes fail after t; a zero t removes the limit.
func (w *Wire) Deadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = t
	if err := w.conn.SetReadDeadline(t); err != nil {
		return err
	}
	return w.setWriteDeadline()
}

// Watch ends the handshake: from now on a silence longer than idle is a fault.
func (w *Wire) Watch(idle time.Duration) error {
	if err := w.Deadline(time.Time{}); err != nil {
		return err
	}
	// The reader is already inside a read that knows of no limit yet.
	if err := w.conn.SetReadDeadline(time.Now().Add(idle)); err != nil {
		return err
	}
	w.idle.Store(int64(idle))
	return nil
}

// Part lets the goodbye run until t at the latest. Later reads do not renew it.
func (w *Wire) Part(t time.Time) error {
	w.idle.Store(0)
	return w.Deadline(t)
}

// Close flushes what has gathered, within goodbye or an earlier deadline,
// and closes. The library calls it, holding its locks.
func (w *Wire) Close() error {
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return nil
	}
	w.closing = true
	if by := time.Now().Add(goodbye); w.limit.IsZero() || by.Before(w.limit) {
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

var _ io.ReadWriteCloser = (*Wire)(nil)
