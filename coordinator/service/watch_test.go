package service

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/journaling"
)

// slowBroker takes its time to tell a queue's depth.
type slowBroker struct {
	bus.Bus
	takes              time.Duration
	asked, now, atOnce atomic.Int64
}

type slowSession struct {
	bus.Session
	b *slowBroker
}

func (b *slowBroker) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	s, err := b.Bus.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return slowSession{s, b}, nil
}

func (s slowSession) Depth(ctx context.Context, queue string) (bus.Depth, error) {
	if queue == "agent.a1" || queue == "agent.a2" {
		s.b.asked.Add(1)
		s.b.atOnce.Store(max(s.b.atOnce.Load(), s.b.now.Add(1)))
		defer s.b.now.Add(-1)
		time.Sleep(s.b.takes)
	}
	return s.Session.Depth(ctx, queue)
}

// Looking at queues is worth no delay of anything else: with a broker that takes
// three seconds for each look, rounds are left out, none overlaps, and tasks go
// their way.
func TestSlowLooksDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wide)
		slow := &slowBroker{Bus: r.broker, takes: 3 * time.Second}
		r.service.options.Bus = slow
		r.start()
		defer r.close()
		a1, a2 := r.worker("a1", true), r.worker("a2", true)
		r.task("t-1", "build", "")
		r.task("t-2", "build", "")
		r.pass(30 * time.Second) // within the agents' threshold
		// Two queues of three seconds each, at once: a round takes 3 s, so there are 10 of them.
		if asked, atOnce := slow.asked.Load(), slow.atOnce.Load(); asked < 18 || asked > 22 || atOnce != 2 {
			t.Errorf("%d looks, %d of them at once; want about 20, one at each queue", asked, atOnce)
		}
		begun := time.Now()
		r.task("t-3", "build", "")
		if n := len(a1.has()) + len(a2.has()); n != 3 || time.Since(begun) > journaling.Pause+journaling.Linger {
			t.Errorf("%d tasks assigned after %s, want 3 at once", n, time.Since(begun))
		}
	})
}

// Only queues of which something is expected are looked at.
func TestIdleQueuesAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wide)
		counted := &slowBroker{Bus: r.broker}
		r.service.options.Bus = counted
		r.start()
		defer r.close()
		a1 := r.worker("a1", true)
		r.pass(4 * time.Second)
		before := counted.asked.Load() // a2 was never heard: it is looked at now and then
		r.task("t-1", "build", "")
		r.pass(5 * time.Second)
		if n := counted.asked.Load() - before; n < 4 || n > 7 {
			t.Errorf("%d looks in 5 s while a1 had work, want about one a second", n)
		}
		a1.finish("succeeded", "")
		a1.report()
	})
}
