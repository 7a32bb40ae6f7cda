package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/tests/support/brokertest"
)

func open(t *testing.T, url string) *broker {
	t.Helper()
	b, err := openBroker(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestBrokerOfSomebodyElseIsLeftAlone(t *testing.T) {
	url := brokertest.Vhost(t).URL
	conn, channel, err := dial(url, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare(bus.QueueAssign, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openBroker(url); err == nil || !strings.Contains(err.Error(), "not the benchmark's own") {
		t.Errorf("openBroker: %v, want a refusal", err)
	}
}

func TestOwnBrokerIsKnownAgain(t *testing.T) {
	url := brokertest.Vhost(t).URL
	b := open(t, url)
	if err := b.declare(bus.QueueAssign); err != nil {
		t.Fatal(err)
	}
	again := open(t, url)
	if err := again.clean(); err != nil {
		t.Fatal(err)
	}
	if exists, err := again.exists(bus.QueueAssign); err != nil || exists {
		t.Errorf("after clean the queue exists: %v, %v", exists, err)
	}
}

// The relay must do the whole work, or beating it would mean nothing.
func TestRelayMovesEveryTaskOnceAndAcknowledges(t *testing.T) {
	const n = 3000 // more than its prefetch
	url := brokertest.Vhost(t).URL
	b := &bench{broker: open(t, url)}
	c, _ := contenders()
	if err := b.broker.declare(append(c.queues, c.input)...); err != nil {
		t.Fatal(err)
	}
	if err := b.broker.fill(c.input, 0, n); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- relay(ctx, url, in) }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the relay says %q (%v)", line, err)
	}
	for arrived, by := 0, time.Now().Add(30*time.Second); arrived < n && time.Now().Before(by); {
		var err error
		if arrived, err = b.broker.ready(c.queues...); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(afterwork) // for the last acknowledgements, as a run gives it
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got, err := b.broker.ready(relayQueue(0)); err != nil || got != n/fleetSize {
		t.Errorf("the first agent has %d tasks (%v), want %d/%d", got, err, n, fleetSize)
	}
	if err := b.verify(c, n); err != nil {
		t.Error(err)
	}
}

func TestWhatAConsumerHeldIsWaitedFor(t *testing.T) {
	url := brokertest.Vhost(t).URL
	b := open(t, url)
	if err := b.declare(bus.QueueAssign); err != nil {
		t.Fatal(err)
	}
	if err := b.fill(bus.QueueAssign, 0, 3); err != nil {
		t.Fatal(err)
	}
	conn, channel, err := dial(url, "holder")
	if err != nil {
		t.Fatal(err)
	}
	held, err := channel.Consume(bus.QueueAssign, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-held
	}
	left := make(chan error, 1)
	time.AfterFunc(100*time.Millisecond, func() { left <- conn.Close() })
	if n, err := b.awaitReady(bus.QueueAssign, 3); err != nil || n != 3 {
		t.Errorf("%d tasks are ready (%v), want the 3 that were held", n, err)
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
}

func TestStatusesAreSentAsOrdered(t *testing.T) {
	url := brokertest.Vhost(t).URL
	b := open(t, url)
	if err := b.declare(bus.StreamStatus); err != nil {
		t.Fatal(err)
	}
	orders, tell := io.Pipe()
	hear, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- reportStatuses(t.Context(), url, orders, answers) }()
	if _, err := io.WriteString(tell, "0 10 0\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(hear).ReadString('\n'); line != "ok\n" {
		t.Fatalf("the generator answers %q (%v)", line, err)
	}
	if err := tell.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	// One round, and no more at a rate of 0.
	if n, err := b.ready(bus.StreamStatus); err != nil || n != fleetSize {
		t.Errorf("%d statuses (%v), want one of each of %d agents", n, err, fleetSize)
	}
}
