package amqpbus_test

import (
	"errors"
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/support/brokertest"
)

// What a topology has put on a broker goes with all that is in it, but not while a coordinator leads.
func TestClear(t *testing.T) {
	t.Parallel()
	broker := amqpbus.New(amqpbus.Config{URL: brokertest.Vhost(t).URL})
	want := bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a"})
	settled := make(chan bus.Outcome, 1)
	s, err := broker.Open(t.Context(),
		bus.SessionSpec{Name: "test", Topology: want, OnSettled: func(_ uint64, o bus.Outcome) { settled <- o }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(bus.Publication{Token: 1, Key: bus.QueueAssign, Body: []byte("{}")}); err != nil ||
		<-settled != bus.Confirmed {
		t.Fatalf("publish: %v", err)
	}
	if err := s.TakeLock(t.Context(), bus.QueueLeader, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := broker.Clear(t.Context(), want); !errors.Is(err, bus.ErrInUse) || n != 0 {
		t.Errorf("while a coordinator leads %d queues are deleted: %v", n, err)
	}
	if d, err := s.Depth(t.Context(), bus.QueueAssign); err != nil || d.Ready != 1 {
		t.Errorf("then task.assign has %+v, %v", d, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := broker.Clear(t.Context(), want); err != nil || n != len(want.Queues) {
		t.Errorf("%d queues are deleted, want %d: %v", n, len(want.Queues), err)
	}
	if n, err := broker.Clear(t.Context(), want); err != nil || n != 0 {
		t.Errorf("once more %d queues are deleted, want none: %v", n, err)
	}
	if s, err = broker.Open(t.Context(),
		bus.SessionSpec{Name: "test", Topology: bus.Topology{Mode: bus.Off}}); err != nil {
		t.Fatal(err)
	}
	for _, q := range want.Queues {
		if _, err := s.Depth(t.Context(), q.Name); !errors.Is(err, bus.ErrNoQueue) {
			t.Errorf("%s afterwards: %v", q.Name, err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
