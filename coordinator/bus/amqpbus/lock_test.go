package amqpbus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

const lockName = "leader"

func lead(t *testing.T, s bus.Session) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.TakeLock(ctx, lockName, nil); err != nil {
		t.Fatalf("TakeLock: %v", err)
	}
}

// The holder stops, as a process does that is suspended or whose network is gone:
// it says no goodbye, and what it was about to send is still on its way. Once the
// broker has given the lock to another, none of that may arrive any more.
func TestWhoLostTheLockCannotPublish(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	p, u := newProxy(t, broker.URL, nil)
	cfg := config(t, u.String())
	cfg.Heartbeat = time.Second // the broker gives up on the holder after 2 of them
	cfg.CloseTimeout = 300 * time.Millisecond
	ledger := newLedger()
	holder := open(t, cfg, bus.SessionSpec{Name: "holder", Topology: quorum("q"), OnSettled: ledger.settle})
	lead(t, holder)
	send := func(s bus.Session, body string) {
		t.Helper()
		if err := s.Publish(bus.Publication{Key: "q", Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	send(holder, "while it leads")
	if got := within(t, "the confirm", ledger.arrived); got != bus.Confirmed {
		t.Fatalf("%v, want confirmed", got)
	}

	p.freeze()
	send(holder, "after it was stopped")
	next := newLedger()
	s := open(t, config(t, broker.URL), bus.SessionSpec{Name: "next", OnSettled: next.settle})
	lead(t, s)
	p.unfreeze()
	within(t, "the holder to end", holder.Done())
	if got := <-ledger.arrived; got != bus.Unknown {
		t.Errorf("what the holder published when it was stopped is %v, want unknown", got)
	}
	send(s, "from the next")
	if got := within(t, "the confirm", next.arrived); got != bus.Confirmed {
		t.Fatalf("%v, want confirmed", got)
	}
	p.close() // all that was on its way has been delivered or dropped
	var bodies []string
	for _, d := range broker.Drain(t, "q") {
		bodies = append(bodies, string(d.Body))
	}
	if len(bodies) != 2 || bodies[0] != "while it leads" || bodies[1] != "from the next" {
		t.Errorf("the queue has %q; want one message of each, sent while it held the lock", bodies)
	}
}

// On any other connection the lock would pass on while its holder can still publish.
func TestLockBelongsToTheConnectionThatPublishes(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	lead(t, open(t, config(t, broker.URL), bus.SessionSpec{Name: "holder@" + broker.VHost}))
	owner := ""
	for line := range strings.Lines(broker.Ctl(t, "-q", "list_queues", "-p", broker.VHost, "name", "owner_pid")) {
		if name, pid, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == lockName {
			owner = pid
		}
	}
	if owner == "" {
		t.Fatal("the broker shows no owner of the lock queue")
	}
	for line := range strings.Lines(broker.Ctl(t, "-q", "list_connections", "pid", "client_properties")) {
		if pid, properties, _ := strings.Cut(line, "\t"); pid == owner && strings.Contains(properties, `"holder/publish@`) {
			return
		}
	}
	t.Errorf("the owner of the lock, %s, is not the connection that publishes", owner)
}

// A session that waits for the lock may have published before, so that an alarm holds up its requests as
// well. That is no fault, and giving up waits for no answer.
func TestLockDuringAnAlarm(t *testing.T) {
	t.Parallel()
	node := brokertest.Private(t, brokertest.Options{})
	cfg := config(t, node.URL)
	cfg.RequestTimeout = 500 * time.Millisecond
	cfg.LockProbe = 50 * time.Millisecond
	holder := open(t, config(t, node.URL), bus.SessionSpec{Name: "holder", Topology: quorum("q")})
	lead(t, holder)
	blocked := make(chan bool, 16)
	specOf := func(name string) bus.SessionSpec {
		return bus.SessionSpec{Name: name, OnBlocked: func(on bool, _ string) { blocked <- on }}
	}
	standby, other := open(t, cfg, specOf("standby")), open(t, cfg, specOf("other"))
	node.Ctl(t, "set_vm_memory_high_watermark", "0.000001")
	for _, s := range []bus.Session{standby, other} {
		if err := s.Publish(bus.Publication{Key: "q"}); err != nil {
			t.Fatal(err)
		}
		if !within(t, "OnBlocked(true)", blocked) {
			t.Fatal("unblocked first")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*cfg.RequestTimeout)
	defer cancel()
	if err := other.TakeLock(ctx, lockName, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("TakeLock gives %v, want the end of its context", err)
	}
	taken := make(chan error, 1)
	go func() { taken <- standby.TakeLock(t.Context(), lockName, nil) }()
	if err := holder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	node.Ctl(t, "set_vm_memory_high_watermark", "0.6")
	if err := within(t, "the lock to pass on", taken); err != nil {
		t.Errorf("TakeLock after the alarm: %v", err)
	}
	select {
	case <-other.Done():
		t.Errorf("giving up during the alarm cost the session: %v", other.Err())
	default:
	}
	if err := standby.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lead(t, other) // what it gave up did not take the lock either
}

// Giving up at any moment, the one in which the lock is taken included, leaves the
// lock to others or with the session that was told so.
func TestGivingUpNeverKeepsTheLock(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	taken, given := 0, 0
	for patient := 100 * time.Microsecond; patient < 2*time.Second; patient += patient / 4 {
		s := open(t, config(t, broker.URL), bus.SessionSpec{Name: "hasty"})
		ctx, cancel := context.WithTimeout(t.Context(), patient)
		err := s.TakeLock(ctx, lockName, nil)
		cancel()
		if err == nil {
			taken++
		} else {
			if given++; !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("TakeLock gives %v, want the end of its context", err)
			}
			other := open(t, config(t, broker.URL), bus.SessionSpec{Name: "other"})
			lead(t, other)
			closeNow(t, other)
		}
		select {
		case <-s.Done():
			t.Fatalf("giving up after %v cost the session: %v", patient, s.Err())
		default:
		}
		closeNow(t, s)
	}
	if taken == 0 || given == 0 {
		t.Errorf("%d times taken and %d times given up: the moment in question was not met", taken, given)
	}
}

func closeNow(t *testing.T, s bus.Session) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
