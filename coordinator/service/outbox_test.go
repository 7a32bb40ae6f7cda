package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/schemas"
)

func TestEverythingSentMatchesItsSchema(t *testing.T) {
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	inRig(t, fleet+"events: {task_dispatched: true}\n", func(r *rig) {
		bindAll(r)
		r.heartbeat("a1", 0)
		r.task("t-1", "build", `,"deadline":"2100-01-01T00:00:00Z"`)
		r.task("t-1", "build", `,"deadline":"2100-01-01T00:00:00Z"`) // a second copy
		r.task("t-2", "paint", "")
		r.task("t-3", "build", `,"excluded_agents":["a1"]`)
		seen := make(map[string]bool)
		check := func(queue string) {
			for _, m := range r.in(queue) {
				seen[m.Type] = true
				if err := set.Validate(m.Type, any(m.fields)); err != nil {
					t.Errorf("%s: %v\n%s", m.Type, err, m.Body)
				}
			}
		}
		check("agent.a1")
		r.pass(121 * time.Second) // t-3 fails, a1 goes stale
		check(bus.QueueFailed)
		check("everything")
		for _, want := range []string{"task.dispatch", "assignment.failed", "task.duplicate", "task.dispatched",
			"agent.online", "agent.offline"} {
			if !seen[want] {
				t.Errorf("no %s was sent", want)
			}
		}
	})
}

// bindAll makes a queue that gets every event.
func bindAll(r *rig) {
	s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "listener", Topology: bus.Topology{
		Mode:     bus.Declare,
		Queues:   []bus.Queue{{Name: "everything", Kind: bus.Classic}},
		Bindings: []bus.Binding{{Exchange: bus.ExchangeEvents, Queue: "everything", Key: "#"}},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// In verify mode it is not known of a plain queue whether it gives back what expires.
func TestNoExpirationWithoutKnowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fleet+"topology: off\n")
		s, err := r.broker.Open(context.Background(),
			bus.SessionSpec{Name: "operator", Topology: bus.Standard(bus.Declare, bus.ProfileQuorum,
				[]string{"agent.a1", "agent.a2"})})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		r.start()
		defer r.close()
		r.heartbeat("a1", 0)
		r.task("t-1", "build", "")
		if m := r.only("agent.a1"); m.Expiration != 0 {
			t.Errorf("expiration %s in a queue that was not looked at", m.Expiration)
		}
	})
}

// In a plain queue nothing gives back what expires, so nothing may expire there.
func TestNoExpirationWhereItWouldLoseTheTask(t *testing.T) {
	t.Run("classic profile", func(t *testing.T) {
		inRig(t, fleet+"queues: classic\n", func(r *rig) {
			r.heartbeat("a1", 0)
			r.task("t-1", "build", "")
			if m := r.only("agent.a1"); m.Expiration != 0 {
				t.Errorf("expiration %s", m.Expiration)
			}
		})
	})
	t.Run("a queue that the agent declared itself", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, fleet)
			s, err := r.broker.Open(context.Background(), bus.SessionSpec{Name: "agent", Topology: bus.Topology{
				Mode: bus.Declare, Queues: []bus.Queue{{Name: "agent.a1", Kind: bus.Classic}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(context.Background())
			r.start()
			defer r.close()
			r.heartbeat("a1", 0)
			r.heartbeat("a2", 0)
			r.task("plain", "build", `,"excluded_agents":["a2"]`)
			r.task("quorum", "build", `,"excluded_agents":["a1"]`)
			if m := r.only("agent.a1"); m.Expiration != 0 {
				t.Errorf("in the plain queue: expiration %s", m.Expiration)
			}
			if m := r.only("agent.a2"); m.Expiration != 60*time.Second {
				t.Errorf("in our own queue: expiration %s", m.Expiration)
			}
			if f := r.status().Broker.Findings; len(f) != 1 || f[0].Object != "agent.a1" {
				t.Errorf("findings in /status: %+v", f)
			}
		})
	})
}

// A broker that holds up publishers must not cost memory without bound.
func TestAnnouncementsAreBounded(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "build", "")
		r.broker.Block(true)
		synctest.Wait()
		body := taskBody("t-1", "build", "")
		other, err := r.broker.Open(context.Background(),
			bus.SessionSpec{Name: "flood", Window: 1, Topology: bus.Topology{Mode: bus.Off}})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(context.Background())
		session := r.service.current.Load()
		for range 3 * outbox.Most {
			session.announce("task.duplicate", "task.duplicate", "t-1", "trace", []byte(body))
		}
		if n := session.outbox.Waiting(); n > outbox.Most {
			t.Errorf("%d announcements wait, want at most %d", n, outbox.Most)
		}
		r.broker.Block(false)
		synctest.Wait()
	})
}
