package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

const testWriteTimeout = 20 * time.Second

// newPipeWire is a wire whose other end is in the test's hand. A pipe has no
// buffer of its own: a write lasts until the other end has read it.
func newPipeWire(t *testing.T) (w *Wire, peer net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	w = New(near, near, testWriteTimeout)
	t.Cleanup(func() {
		w.Kill(net.ErrClosed)
		_ = far.Close()
	})
	return w, far
}

func mustWrite(t *testing.T, w *Wire, text string) {
	t.Helper()
	if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
}

func mustRead(t *testing.T, from io.Reader, want string) {
	t.Helper()
	got := make([]byte, 1<<12)
	n, err := from.Read(got)
	if err != nil || string(got[:n]) != want {
		t.Fatalf("the other end read %q, %v; want %q", got[:n], err, want)
	}
}

func TestWireFlushesAtOnceWhenIdleAndGathersWhenBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := newPipeWire(t)
		mustWrite(t, w, "a")
		synctest.Wait() // the flusher is inside the write of "a"
		mustWrite(t, w, "b")
		mustWrite(t, w, "c")
		mustWrite(t, w, "d")
		mustRead(t, peer, "a")
		mustRead(t, peer, "bcd") // one write for three
	})
}

func TestWireWriteWaitsWhileTheBufferIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := newPipeWire(t)
		mustWrite(t, w, "a")
		synctest.Wait()
		half := string(bytes.Repeat([]byte{'x'}, writeBuffer/2))
		mustWrite(t, w, half)
		mustWrite(t, w, half) // exactly full
		written := false
		go func() {
			_, _ = w.Write([]byte("b"))
			written = true
		}()
		synctest.Wait()
		if written {
			t.Fatal("a write beyond the buffer did not wait")
		}
		mustRead(t, peer, "a") // the gathered megabyte becomes the running write
		synctest.Wait()
		if !written {
			t.Fatal("the write still waits, although the buffer is empty")
		}
	})
}

func TestWireEndsWhenThePeerTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newPipeWire(t)
		mustWrite(t, w, "a")
		synctest.Wait()
		mustWrite(t, w, string(make([]byte, writeBuffer)))
		start := time.Now()
		_, err := w.Write([]byte("b")) // waits for room that never comes
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the waiting write gives %v, want the deadline of the flush", err)
		}
		if waited := time.Since(start); waited != testWriteTimeout {
			t.Errorf("it took %v, want %v", waited, testWriteTimeout)
		}
		if _, err := w.Read(make([]byte, 1)); err == nil {
			t.Error("a dead wire can be read")
		}
	})
}

func TestWireHeldByTheBrokerDoesNotTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := newPipeWire(t)
		mustWrite(t, w, "a")
		synctest.Wait()
		w.Hold(true) // while the write is running
		time.Sleep(10 * testWriteTimeout)
		mustWrite(t, w, "b")
		mustRead(t, peer, "a")
		synctest.Wait()
		time.Sleep(10 * testWriteTimeout) // a write begun while held
		w.Hold(false)
		time.Sleep(testWriteTimeout - time.Nanosecond)
		synctest.Wait()
		if err := w.Cause(); err != nil {
			t.Fatalf("before its time: %v", err)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if err := w.Cause(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("after the time that follows the alarm: %v, want the deadline", err)
		}
	})
}

func TestWireKillFreesEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newPipeWire(t)
		mustWrite(t, w, "a")
		synctest.Wait()
		mustWrite(t, w, string(make([]byte, writeBuffer)))
		reason := errors.New("no answer")
		results := make(chan error, 2)
		go func() {
			_, err := w.Write([]byte("b"))
			results <- err
		}()
		go func() {
			_, err := w.Read(make([]byte, 1))
			results <- err
		}()
		synctest.Wait()
		w.Kill(reason)
		w.Kill(errors.New("a later reason"))
		for range 2 {
			if err := <-results; err == nil {
				t.Error("nil from a killed wire")
			}
		}
		if w.Cause() != reason {
			t.Errorf("cause is %v, want the first reason", w.Cause())
		}
	})
}

func TestWireCloseSendsWhatHasGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := newPipeWire(t)
		mustWrite(t, w, "a")
		synctest.Wait()
		mustWrite(t, w, "close-ok")
		go func() { _ = w.Close() }()
		synctest.Wait()
		if _, err := w.Write([]byte("late")); err == nil {
			t.Error("a closing wire accepts more")
		}
		mustRead(t, peer, "a")
		mustRead(t, peer, "close-ok")
		if _, err := peer.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after that the other end reads %v, want EOF", err)
		}
		if w.Cause() != nil {
			t.Errorf("cause of a plain Close is %v", w.Cause())
		}
	})
}

func TestWireCloseDoesNotWaitForADeadPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newPipeWire(t)
		mustWrite(t, w, "never read")
		start := time.Now()
		_ = w.Close()
		if waited := time.Since(start); waited != goodbye {
			t.Errorf("Close took %v, want %v", waited, goodbye)
		}
	})
}

func TestWireSilenceIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 15 * time.Second
		w, peer := newPipeWire(t)
		if err := w.Watch(idle); err != nil {
			t.Fatal(err)
		}
		for range 5 { // 5 × 10 s are far beyond the limit, but never silent for long
			time.Sleep(10 * time.Second)
			go func() { _, _ = peer.Write([]byte("beat")) }()
			if _, err := w.Read(make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if _, err := w.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("silence gives %v", err)
		}
		if waited := time.Since(start); waited != idle {
			t.Errorf("it took %v, want %v", waited, idle)
		}
		if w.Cause() == nil {
			t.Error("the wire outlived a read error: a writer would wait for ever")
		}
	})
}

// Reading that is in no hurry lets messages gather, unless there is a backlog.
func TestWireInNoHurryReadsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := newPipeWire(t)
		buffer := make([]byte, readBuffer)
		// A pipe hands over one write at a time, as soon as it is read.
		reads := func(what string, bytes int, want time.Duration) {
			t.Helper()
			go func() { _, _ = peer.Write(make([]byte, bytes)) }()
			begun := time.Now()
			if n, err := w.Read(buffer); n != bytes || err != nil {
				t.Fatalf("%s: read %d, %v; want %d", what, n, err, bytes)
			}
			if took := time.Since(begun); took != want {
				t.Errorf("%s took %v, want %v", what, took, want)
			}
			synctest.Wait()
		}
		reads("a hurried read", 1, 0)
		hurry := w.CalmDown()
		reads("the first read", 1, 0)
		reads("after a little", 1, readTogether)
		reads("after a little, again", readMuch-1, readTogether)
		reads("the beginning of a backlog", readMuch, readTogether)
		reads("the backlog", readMuch, 0)
		reads("its end", 1, 0)
		time.Sleep(readTogether - time.Millisecond)
		reads("what comes 9 ms later", 1, time.Millisecond)
		hurry()
		reads("a hurried read", 1, 0)
	})
}

// BenchmarkWire shows what gathering saves: writes/message is 1 without it.
func BenchmarkWire(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if peer, err := listener.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, peer)
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	counting := &countingConn{Conn: conn}
	w := New(counting, conn, testWriteTimeout)
	message := make([]byte, 700)
	for b.Loop() {
		if _, err := w.Write(message); err != nil {
			b.Fatal(err)
		}
	}
	_ = w.Close()
	b.ReportMetric(float64(counting.writes)/float64(b.N), "writes/message")
}

type countingConn struct {
	net.Conn
	writes int
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}
