package proxy

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"
)

// The peers here are no AMQP client and no broker: they send frames and read bytes.

// line is one connection through a proxy, with a test at both ends.
type line struct {
	t              *testing.T
	proxy          *Proxy
	client, server net.Conn
	listener       net.Listener
}

func newLine(t *testing.T) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(listener.Addr().String(), nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := &line{t: t, proxy: p, listener: listener}
	t.Cleanup(func() {
		p.Close()
		_ = listener.Close()
	})
	l.connect()
	return l
}

// connect makes a connection, in place of the one before.
func (l *line) connect() {
	l.t.Helper()
	through, err := l.proxy.URL("amqp://u:p@127.0.0.1:1/")
	if err != nil {
		l.t.Fatal(err)
	}
	u, err := url.Parse(through)
	if err != nil {
		l.t.Fatal(err)
	}
	before := l.proxy.Accepted()
	if l.client, err = net.Dial("tcp", u.Host); err != nil {
		l.t.Fatal(err)
	}
	if l.server, err = l.listener.Accept(); err != nil {
		l.t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for l.proxy.Accepted() == before { // the broker's side may have it a moment before the proxy counts it
		if time.Now().After(deadline) {
			l.t.Fatal("the proxy does not count the connection")
		}
		time.Sleep(time.Millisecond)
	}
	for _, c := range []net.Conn{l.client, l.server} {
		_ = c.SetDeadline(deadline)
		l.t.Cleanup(func() { _ = c.Close() })
	}
}

// body is a frame of which one can see which it is.
func body(which byte, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = which
	}
	return wire(KindBody, 1, b)
}

func (l *line) send(c net.Conn, raw []byte) {
	l.t.Helper()
	if _, err := c.Write(raw); err != nil {
		l.t.Fatal(err)
	}
}

// gets reads exactly these bytes, and tells how long that took.
func (l *line) gets(c net.Conn, want []byte) time.Duration {
	l.t.Helper()
	begun := time.Now()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil {
		l.t.Fatalf("after %d of %d bytes: %v", n, len(want), err)
	}
	if string(got) != string(want) {
		l.t.Fatalf("other bytes came out than went in")
	}
	return time.Since(begun)
}

// ends reads until the connection ends, and says how.
func (l *line) ends(c net.Conn) (read int, withReset bool) {
	l.t.Helper()
	n, err := io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.t.Fatal("the connection does not end")
	}
	return int(n), errors.Is(err, syscall.ECONNRESET)
}

// silent asserts that nothing comes for a while.
func (l *line) silent(c net.Conn) {
	l.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := c.Read(make([]byte, 1))
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		l.t.Fatalf("%d bytes came, %v; want silence", n, err)
	}
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
}

func (l *line) fired(f Fault, least int) {
	l.t.Helper()
	if n := l.proxy.Fired(f); n < least {
		l.t.Errorf("%s fired %d times, want at least %d", f, n, least)
	}
}

func TestNothingHappensByItself(t *testing.T) {
	l := newLine(t)
	for i := range byte(50) {
		l.send(l.client, body(i, int(i)*1000))
		l.send(l.server, body(i, int(i)*500))
		l.gets(l.server, body(i, int(i)*1000))
		l.gets(l.client, body(i, int(i)*500))
	}
	for _, f := range []Fault{Latency, Bandwidth, Slicer, Blackhole, Timeout, LimitData, SlowClose, ResetPeer, Finish,
		Refuse} {
		if n := l.proxy.Fired(f); n != 0 {
			t.Errorf("%s fired %d times", f, n)
		}
	}
	_ = l.client.Close()
	if n, withReset := l.ends(l.server); n != 0 || withReset {
		t.Errorf("the client's end reached the broker with %d bytes, reset %t", n, withReset)
	}
}

func TestToxics(t *testing.T) {
	const size = 1000
	both := append(body(1, size), body(2, size)...)
	for _, tt := range []struct {
		name  string
		toxic Toxic
		play  func(t *testing.T, l *line)
		fault Fault
	}{
		{"latency keeps the order", Toxic{Latency: 80 * time.Millisecond, Jitter: 60 * time.Millisecond},
			func(t *testing.T, l *line) {
				l.send(l.client, both)
				if took := l.gets(l.server, both); took < 20*time.Millisecond {
					t.Errorf("took %v, want at least 80-60 ms", took)
				}
				l.send(l.server, body(3, 1)) // one way only
				if took := l.gets(l.client, body(3, 1)); took > 20*time.Millisecond {
					t.Errorf("the other way took %v", took)
				}
			}, Latency},
		{"bandwidth", Toxic{BytesPerSecond: 20_000}, func(t *testing.T, l *line) {
			l.send(l.client, both)
			// 2,016 bytes at 20,000 a second are 101 ms.
			if took := l.gets(l.server, both); took < 90*time.Millisecond {
				t.Errorf("took %v, want 100 ms", took)
			}
		}, Bandwidth},
		{"slicer", Toxic{Slice: 1}, func(_ *testing.T, l *line) {
			l.send(l.client, both)
			l.gets(l.server, both)
		}, Slicer},
		{"blackhole", Toxic{Blackhole: true}, func(_ *testing.T, l *line) {
			l.send(l.client, both)
			l.silent(l.server)
			l.proxy.Heal()
			l.gets(l.server, both)
		}, Blackhole},
		{"timeout", Toxic{Timeout: true}, func(t *testing.T, l *line) {
			l.send(l.client, both)
			l.silent(l.server)
			l.proxy.Heal()
			if n, withReset := l.ends(l.client); n != 0 || !withReset {
				t.Errorf("a connection that has lost bytes must be reset in the end: %d bytes, reset %t", n, withReset)
			}
			l.connect()
			l.send(l.client, both)
			l.gets(l.server, both)
		}, Timeout},
		{"limit_data", Toxic{LimitData: 1500}, func(t *testing.T, l *line) {
			l.send(l.client, both)
			if n, _ := l.ends(l.server); n != 1500 {
				t.Errorf("%d bytes came, want 1,500: in the middle of the second frame", n)
			}
		}, LimitData},
		{"what is late still comes when its sender has ended", Toxic{Latency: 80 * time.Millisecond},
			func(_ *testing.T, l *line) {
				l.send(l.client, both)
				_ = l.client.Close()
				l.gets(l.server, both)
			}, Latency},
		{"slow_close", Toxic{SlowClose: 100 * time.Millisecond}, func(t *testing.T, l *line) {
			begun := time.Now()
			_ = l.client.Close()
			if _, withReset := l.ends(l.server); withReset || time.Since(begun) < 90*time.Millisecond {
				t.Errorf("the end came after %v, reset %t", time.Since(begun), withReset)
			}
		}, SlowClose},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			l.proxy.Toxic(Client, tt.toxic)
			tt.play(t, l)
			l.fired(tt.fault, 1)
		})
	}
}

// A blackhole keeps a sender's buffers full: that is what makes it block.
func TestBlackholeFillsTheSendersBuffers(t *testing.T) {
	l := newLine(t)
	l.proxy.Toxic(Client, Toxic{Blackhole: true})
	_ = l.client.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	written := 0
	for {
		n, err := l.client.Write(body(1, 1<<16))
		written += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil || written > 64<<20 {
			t.Fatalf("%d bytes were taken, %v: nobody blocked", written, err)
		}
	}
}

func TestConnectionsAreEnded(t *testing.T) {
	l := newLine(t)
	if n := l.proxy.Finish(); n != 1 {
		t.Errorf("%d connections were ended, want 1", n)
	}
	if _, withReset := l.ends(l.client); withReset {
		t.Error("a FIN arrived as RST")
	}
	l.connect()
	l.proxy.Reset()
	if _, withReset := l.ends(l.client); !withReset {
		t.Error("a RST arrived as FIN")
	}
	if _, withReset := l.ends(l.server); !withReset {
		t.Error("the broker's side was not reset")
	}
	l.fired(ResetPeer, 1)
	l.fired(Finish, 1)
	if l.proxy.Accepted() != 2 || l.proxy.Open() != 0 {
		t.Errorf("%d connections accepted, %d open; want 2 and 0", l.proxy.Accepted(), l.proxy.Open())
	}

	l.proxy.Refuse(true)
	through, err := net.Dial("tcp", l.proxy.listener.Addr().String())
	switch {
	case errors.Is(err, syscall.ECONNRESET): // that quickly
	case err != nil:
		t.Fatal(err)
	default:
		defer through.Close()
		_ = through.SetDeadline(time.Now().Add(10 * time.Second))
		if _, withReset := l.ends(through); !withReset {
			t.Error("a refused connection was not reset")
		}
	}
	l.fired(Refuse, 1)
}

func publish(key string, size int) []byte {
	b := wire(KindMethod, 1, method(Publish, uint16(0), "", key, byte(0)))
	b = append(b, wire(KindHeader, 1, header(uint64(size), "", ""))...)
	return append(b, body('b', size)...)
}

func confirm(tag uint64) []byte { return wire(KindMethod, 1, method(Ack, tag, byte(0))) }

func TestRulesSeeFrames(t *testing.T) {
	one, two, three := publish("one", 10), publish("two", 10), publish("three", 10)
	for _, tt := range []struct {
		name string
		rule Rule
		play func(t *testing.T, l *line)
	}{
		{"cut before the third publish", Rule{From: Client, Match: Is(Publish), After: 2, Action: Cut},
			func(t *testing.T, l *line) {
				l.send(l.client, one)
				l.send(l.client, two)
				l.gets(l.server, append(append([]byte{}, one...), two...))
				l.send(l.client, three)
				if n, withReset := l.ends(l.server); n != 0 || !withReset {
					t.Errorf("%d bytes of the third came, reset %t", n, withReset)
				}
			}},
		{"cut after the second publish", Rule{From: Client, Match: Is(Publish), After: 1, Action: CutAfter},
			func(t *testing.T, l *line) {
				l.send(l.client, append(append(append([]byte{}, one...), two...), three...))
				if n, _ := l.ends(l.server); n != len(one)+len(two) {
					t.Errorf("%d bytes came, want the first two messages, whole: %d", n, len(one)+len(two))
				}
			}},
		{"cut after an ack", Rule{From: Server, Match: Is(Ack), Action: CutAfter}, func(t *testing.T, l *line) {
			l.send(l.server, append(confirm(1), confirm(2)...))
			if n, _ := l.ends(l.client); n != len(confirm(1)) {
				t.Errorf("%d bytes came, want one confirm", n)
			}
		}},
		{"swallow the next ack", Rule{From: Server, Match: Is(Ack), Action: Swallow}, func(_ *testing.T, l *line) {
			l.send(l.server, append(confirm(1), confirm(2)...))
			l.gets(l.client, confirm(2))
		}},
		{"swallow a message to one queue", Rule{From: Client, Match: PublishTo("", "tw"), Action: Swallow, Times: Always},
			func(_ *testing.T, l *line) {
				l.send(l.client, append(append(append([]byte{}, two...), two...), three...))
				l.gets(l.server, three)
			}},
		{"delay acks, and what follows on their channel only",
			Rule{From: Server, Match: Is(Ack), Action: Delay, For: 100 * time.Millisecond}, func(t *testing.T, l *line) {
				elsewhere := wire(KindHeartbeat, 0, nil)
				l.send(l.server, append(append(confirm(1), body('x', 3)...), elsewhere...))
				if took := l.gets(l.client, elsewhere); took > 60*time.Millisecond {
					t.Errorf("another channel waited %v", took)
				}
				if took := l.gets(l.client, append(confirm(1), body('x', 3)...)); took < 50*time.Millisecond {
					t.Errorf("the ack took %v, want 100 ms", took)
				}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			l.proxy.Both(Toxic{}) // changes nothing
			armed := l.proxy.Add(tt.rule)
			tt.play(t, l)
			select {
			case <-armed.Acted():
			default:
				t.Error("the rule says that it has not acted")
			}
			if armed.Fired() < 1 {
				t.Error("the rule has not fired")
			}
		})
	}
}

// A hook runs at an instant of the protocol: what is behind it waits.
func TestHookHoldsTheFrameBack(t *testing.T) {
	l := newLine(t)
	held := make(chan struct{})
	l.proxy.Add(Rule{From: Client, Match: Is(Publish), Hook: func() { <-held }})
	l.send(l.client, publish("one", 10))
	l.silent(l.server)
	close(held)
	l.gets(l.server, publish("one", 10))
}

// A consumer's queue is known by its tag, also when the broker has chosen the tag.
func TestDeliveriesAreKnownByQueue(t *testing.T) {
	l := newLine(t)
	fromOne := l.proxy.Add(Rule{From: Server, Match: DeliverFrom("one"), Times: Always})
	fromTwo := l.proxy.Add(Rule{From: Server, Match: DeliverFrom("two"), Times: Always})
	exchange := func(from, to net.Conn, m []byte) {
		l.send(from, wire(KindMethod, 1, m))
		l.gets(to, wire(KindMethod, 1, m))
	}
	exchange(l.client, l.server, method(Consume, uint16(0), "one", "mine", byte(0)))
	exchange(l.client, l.server, method(Consume, uint16(0), "two", "", byte(0)))
	exchange(l.server, l.client, method(ConsumeOK, "yours"))
	exchange(l.server, l.client, method(Deliver, "mine", uint64(1), byte(0), "", ""))
	exchange(l.server, l.client, method(Deliver, "yours", uint64(2), byte(0), "", ""))
	exchange(l.server, l.client, method(Deliver, "yours", uint64(3), byte(0), "", ""))
	acked := l.proxy.Add(Rule{From: Client, Match: AckOf("two"), Times: Always})
	exchange(l.client, l.server, method(Ack, uint64(3), byte(1))) // of the channel that began to read "two" last
	if acked.Fired() != 1 {
		t.Errorf("%d acknowledgements, want 1", acked.Fired())
	}
	if fromOne.Fired() != 1 || fromTwo.Fired() != 2 {
		t.Errorf("%d deliveries of the one, %d of the two", fromOne.Fired(), fromTwo.Fired())
	}
}
