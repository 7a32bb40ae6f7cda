package amqpbus_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/support/brokertest"
)

// A deletion belongs to the lock, as publications do: a session that has lost it between the look at a
// queue and the deletion takes nothing away from the one that has it now.
func TestWhoLostTheLockDropsNoQueue(t *testing.T) {
	t.Parallel()
	broker := brokertest.Vhost(t)
	next := newLedger()
	s := open(t, config(t, broker.URL), bus.SessionSpec{Name: "next", Topology: quorum("q"), OnSettled: next.settle})
	p, u := newProxy(t, broker.URL, nil)
	b := amqpbus.New(config(t, u.String()))
	var once sync.Once
	b.SetBetween(func(step string) {
		if step != "drop q" {
			return
		}
		once.Do(func() {
			p.lose(0) // it publishes over the one that it opens first
			lead(t, s)
			if err := s.Publish(bus.Publication{Key: "q", Body: []byte("from the next")}); err != nil {
				t.Error(err)
			}
			if got := within(t, "the confirm", next.arrived); got != bus.Confirmed {
				t.Errorf("%v, want confirmed", got)
			}
		})
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	holder, err := b.Open(ctx, bus.SessionSpec{Name: "holder@" + broker.VHost, Topology: quorum("q"),
		OnSettled: func(uint64, bus.Outcome) {}})
	if err != nil {
		t.Fatal(err)
	}
	lead(t, holder)
	dropping, giveUp := context.WithCancel(ctx)
	time.AfterFunc(time.Second, giveUp) // whether it has heard by then of what has become of it or not
	if gone, err := holder.DropQueue(dropping, "q"); gone || err == nil {
		t.Errorf("DropQueue = %v, %v; want false and an error", gone, err)
	}
	var bodies []string
	for _, d := range broker.Drain(t, "q") {
		bodies = append(bodies, string(d.Body))
	}
	if len(bodies) != 1 || bodies[0] != "from the next" {
		t.Errorf("the queue has %q, want what the next has published", bodies)
	}
}
