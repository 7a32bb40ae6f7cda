package amqpbus_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/support/brokertest"
)

const patience = 20 * time.Second

// ledger counts outcomes.
type ledger struct {
	mu       sync.Mutex
	outcomes map[bus.Outcome]int
	arrived  chan bus.Outcome
}

func newLedger() *ledger {
	return &ledger{outcomes: map[bus.Outcome]int{}, arrived: make(chan bus.Outcome, 1<<16)}
}

func (l *ledger) settle(_ uint64, o bus.Outcome) {
	l.mu.Lock()
	l.outcomes[o]++
	l.mu.Unlock()
	l.arrived <- o
}

func (l *ledger) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, count := range l.outcomes {
		n += count
	}
	return n
}

func within[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

func open(t *testing.T, cfg amqpbus.Config, spec bus.SessionSpec) bus.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := amqpbus.New(cfg).Open(ctx, spec)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s
}

func quorum(names ...string) bus.Topology {
	t := bus.Topology{Mode: bus.Declare}
	for _, name := range names {
		t.Queues = append(t.Queues, bus.Queue{Name: name, Kind: bus.Quorum, DeliveryLimit: 100})
	}
	return t
}

// A network that dies without a word, while a publisher fills every buffer on
// the way: the library's shutdown would wait for the publisher, and the
// publisher for the kernel, which gives up after a quarter of an hour.
func TestBlackholeWithFullBuffersEndsTheSession(t *testing.T) {
	t.Parallel()
	p, u := newProxy(t, brokertest.Vhost(t).URL, nil)
	cfg := config(t, u.String())
	cfg.Heartbeat = time.Hour // leaves it to the write deadline
	cfg.WriteTimeout, cfg.CloseTimeout = 500*time.Millisecond, time.Second
	ledger := newLedger()
	s := open(t, cfg, bus.SessionSpec{Name: "t", Topology: quorum("q"), Window: 4096, OnSettled: ledger.settle})

	p.freeze()
	accepted, stopped := 0, make(chan error, 1)
	body := make([]byte, 256<<10)
	go func() {
		for {
			err := s.Publish(bus.Publication{Key: "q", Body: body})
			if err != nil {
				stopped <- err
				return
			}
			accepted++
		}
	}()
	within(t, "the session to end", s.Done())
	if err := within(t, "the publisher to be freed", stopped); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("Publish gives %v, want ErrClosed", err)
	}
	if accepted < 4 || ledger.total() != accepted || ledger.outcomes[bus.Confirmed] != 0 {
		t.Errorf("%d accepted, settled as %v; want at least 1 MiB of them, all unknown", accepted, ledger.outcomes)
	}
	if s.Err() == nil || !strings.Contains(s.Err().Error(), "publish connection") {
		t.Errorf("Err = %v, want it to name the connection", s.Err())
	}
}

func TestSilenceEndsTheSession(t *testing.T) {
	t.Parallel()
	p, u := newProxy(t, brokertest.Vhost(t).URL, nil)
	cfg := config(t, u.String())
	cfg.Heartbeat = time.Second // a fault after 1.5 s
	s := open(t, cfg, bus.SessionSpec{Name: "t"})
	p.freeze()
	within(t, "the session to end", s.Done())
}

func TestRequestsHaveATimeLimit(t *testing.T) {
	t.Parallel()
	p, u := newProxy(t, brokertest.Vhost(t).URL, nil)
	cfg := config(t, u.String())
	open(t, cfg, bus.SessionSpec{Name: "declares", Topology: quorum("q")})
	cfg.RequestTimeout, cfg.CloseTimeout = 300*time.Millisecond, 300*time.Millisecond
	s := open(t, cfg, bus.SessionSpec{Name: "t", Topology: bus.Topology{Mode: bus.Off}})
	p.freeze()
	if _, err := s.Depth(t.Context(), "q"); err == nil || !strings.Contains(err.Error(), "no answer within 300ms") {
		t.Errorf("Depth gives %v, want the time limit", err)
	}
	within(t, "the session to end", s.Done())
	if s.Err() == nil || !strings.Contains(s.Err().Error(), "no answer") {
		t.Errorf("Err = %v, want the time limit", s.Err())
	}
}

func TestGivingUpOnAnAnswerDoesNotCostTheSession(t *testing.T) {
	t.Parallel()
	p, u := newProxy(t, brokertest.Vhost(t).URL, nil)
	cfg := config(t, u.String())
	cfg.CloseTimeout = 300 * time.Millisecond
	s := open(t, cfg, bus.SessionSpec{Name: "t", Topology: quorum("q")})
	p.freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Depth(ctx, "q"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Depth gives %v, want the end of its context", err)
	}
	select {
	case <-s.Done():
		t.Errorf("the session ended: %v", s.Err())
	default:
	}
}

func TestOpenOnADeadNetworkEnds(t *testing.T) {
	t.Parallel()
	p, u := newProxy(t, brokertest.Vhost(t).URL, nil)
	p.freeze()
	cfg := config(t, u.String())
	cfg.DialTimeout = 300 * time.Millisecond
	if _, err := amqpbus.New(cfg).Open(t.Context(), bus.SessionSpec{}); err == nil || errors.Is(err, bus.ErrAccess) {
		t.Errorf("Open gives %v, want a transport fault: silence is not a wrong password", err)
	}
	cfg.DialTimeout = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := amqpbus.New(cfg).Open(ctx, bus.SessionSpec{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open gives %v, want the end of its context", err)
	}
}

func TestConfirmsThatStopEndTheSession(t *testing.T) {
	t.Parallel()
	p, u := newProxy(t, brokertest.Vhost(t).URL, nil)
	cfg := config(t, u.String())
	cfg.ConfirmTimeout, cfg.CloseTimeout = 600*time.Millisecond, 300*time.Millisecond
	ledger := newLedger()
	s := open(t, cfg, bus.SessionSpec{Name: "t", Topology: quorum("q"), OnSettled: ledger.settle})
	if err := s.Publish(bus.Publication{Key: "q"}); err != nil {
		t.Fatal(err)
	}
	if got := within(t, "the confirm", ledger.arrived); got != bus.Confirmed {
		t.Fatalf("%v, want confirmed", got)
	}
	p.freeze()
	if err := s.Publish(bus.Publication{Key: "q"}); err != nil {
		t.Fatal(err)
	}
	within(t, "the session to end", s.Done())
	if got := <-ledger.arrived; got != bus.Unknown {
		t.Errorf("%v, want unknown", got)
	}
	if s.Err() == nil || !strings.Contains(s.Err().Error(), "no publisher confirm within 600ms") {
		t.Errorf("Err = %v, want the time limit", s.Err())
	}
}

// During a memory alarm the broker reads nothing from publishers. That is no
// fault, however long it lasts: every time limit here is shorter than the alarm.
func TestAlarm(t *testing.T) {
	t.Parallel()
	node := brokertest.Private(t, brokertest.Options{})
	cfg := config(t, node.URL)
	cfg.WriteTimeout, cfg.ConfirmTimeout, cfg.RequestTimeout = time.Second, 300*time.Millisecond, 5*time.Second
	ledger := newLedger()
	blocked := make(chan bool, 16)
	s := open(t, cfg, bus.SessionSpec{
		Name: "t", Topology: quorum("q"), Window: 1 << 14, OnSettled: ledger.settle,
		OnBlocked: func(on bool, _ string) { blocked <- on },
	})
	got := make(chan bus.Delivery, 1<<15)
	err := s.Subscribe(t.Context(),
		bus.Subscription{Queue: "q", Prefetch: 1000, Handle: func(d bus.Delivery) { s.Ack(d.Tag); got <- d }})
	if err != nil {
		t.Fatal(err)
	}
	node.Ctl(t, "set_vm_memory_high_watermark", "0.000001")
	accepted := make(chan int, 1)
	stop := make(chan struct{})
	go func() {
		n := 0
		for body := make([]byte, 64<<10); ; n++ {
			select {
			case <-stop:
				accepted <- n
				return
			default:
			}
			if s.Publish(bus.Publication{Key: "q", Body: body}) != nil {
				accepted <- n
				return
			}
		}
	}()
	if !within(t, "OnBlocked(true)", blocked) {
		t.Fatal("unblocked first")
	}
	during := open(t, cfg, bus.SessionSpec{Name: "opened during the alarm", Topology: quorum("q2")})
	if _, err := during.Depth(t.Context(), "q"); err != nil {
		t.Errorf("Depth during the alarm: %v", err)
	}
	select {
	case <-s.Done():
		t.Fatalf("the alarm ended the session: %v", s.Err())
	case <-time.After(3 * time.Second): // the alarm lasts; nothing tells when "nothing" has happened
	}
	close(stop)
	node.Ctl(t, "set_vm_memory_high_watermark", "0.6")
	if within(t, "OnBlocked(false)", blocked) {
		t.Fatal("blocked again")
	}
	n := within(t, "the publisher to go on", accepted)
	for range n {
		if o := within(t, "a settlement", ledger.arrived); o != bus.Confirmed {
			t.Fatalf("%v after the alarm, want confirmed", o)
		}
		within(t, "a delivery", got)
	}
	if n == 0 {
		t.Error("nothing was published during the alarm: the test shows nothing")
	}
}

func TestReturnsAreToldApart(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	outcomes := map[uint64]bus.Outcome{}
	all := make(chan struct{})
	const n = 2000
	s := open(t, config(t, brokertest.Vhost(t).URL), bus.SessionSpec{
		Name: "t", Topology: quorum("q1", "q2"), Window: 256,
		OnSettled: func(token uint64, o bus.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			if outcomes[token] = o; len(outcomes) == n {
				close(all)
			}
		},
	})
	// No ids, equal bodies: only the key differs, and every third goes nowhere.
	keys := [...]string{"q1", "nowhere", "q2"}
	for i := range uint64(n) {
		if err := s.Publish(bus.Publication{Token: i, Key: keys[i%3], Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	within(t, "all settlements", all)
	for token, got := range outcomes {
		want := bus.Confirmed
		if token%3 == 1 {
			want = bus.Unroutable
		}
		if got != want {
			t.Errorf("token %d: %v, want %v", token, got, want)
		}
	}
}

// The library checks nothing of this; the broker or the library itself would
// close the channel or the connection.
func TestLargestHeadersAreSent(t *testing.T) {
	t.Parallel()
	ledger := newLedger()
	s := open(t, config(t, brokertest.Vhost(t).URL),
		bus.SessionSpec{Name: "t", Topology: quorum("q"), OnSettled: ledger.settle})
	sent, refused := 0, 0
	// The frame holds 131,072 bytes, 8 of them its own; the properties take at
	// most 100 more beside the header's value.
	for size := 131_072 - 200; size < 131_072+100; size += 10 {
		err := s.Publish(bus.Publication{Key: "q", Properties: bus.Properties{
			MessageID: "m", Timestamp: time.Now(), Headers: map[string]any{"h": strings.Repeat("x", size)},
		}})
		var cannot *bus.EncodingError
		switch {
		case errors.As(err, &cannot):
			refused++
		case err != nil:
			t.Fatalf("%d bytes: %v", size, err)
		case within(t, "the confirm", ledger.arrived) != bus.Confirmed:
			t.Fatalf("%d bytes were not confirmed: %v", size, s.Err())
		default:
			sent++
		}
	}
	if sent == 0 || refused == 0 {
		t.Errorf("%d sent, %d refused: the limit is not between", sent, refused)
	}
}
