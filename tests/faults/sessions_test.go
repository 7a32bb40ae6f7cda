package faults

import (
	"context"
	"runtime"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/faults/proxy"
	"taskbus/tests/support/brokertest"
)

// L6: two hundred sessions that end by a fault leave no goroutine behind. (The program
// itself pauses for longer and longer between two of them: it would take half an hour.)
func TestTwoHundredSessionsLeaveNothingBehind(t *testing.T) {
	rounds := 40
	if *wholeMatrix {
		rounds = 200
	}
	b := brokertest.Vhost(t)
	r := &rig{t: t, broker: b}
	p, err := proxy.New(r.host(), nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	through, err := p.URL(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := amqpbus.New(amqpbus.Config{URL: through})
	b.DeclareQueue(t, "work", nil)
	counts := make([]int, 0, rounds)
	for i := range rounds {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		s, err := transport.Open(ctx, bus.SessionSpec{Name: "l6", Window: 16, OnSettled: func(uint64, bus.Outcome) {}})
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		if err := s.Subscribe(ctx, bus.Subscription{Queue: "work", Prefetch: 10,
			Handle: func(d bus.Delivery) { s.Ack(d.Tag) }}); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		if err := s.Publish(bus.Publication{Key: "work", Body: []byte("x")}); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		if i%2 == 0 {
			p.Reset()
		} else {
			p.Finish()
		}
		select {
		case <-s.Done():
		case <-time.After(patience):
			t.Fatalf("session %d does not end", i)
		}
		if err := s.Close(ctx); err != nil {
			t.Logf("session %d: %v", i, err) // it has ended by a fault
		}
		cancel()
		counts = append(counts, runtime.NumGoroutine())
	}
	if n := p.Fired(proxy.ResetPeer) + p.Fired(proxy.Finish); n < rounds {
		t.Fatalf("%d connections were cut in %d rounds", n, rounds)
	}
	// What is under way when one counts varies; what is left behind adds up.
	least := func(of []int) int {
		m := of[0]
		for _, n := range of {
			m = min(m, n)
		}
		return m
	}
	early, late := least(counts[:rounds/4]), least(counts[rounds-rounds/4:])
	if late > early+3 {
		t.Errorf("%d goroutines after %d sessions, %d in the beginning", late, rounds, early)
	}
}
