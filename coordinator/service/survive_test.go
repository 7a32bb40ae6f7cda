package service

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// TestFaultCostsOneMessage: a fault of the program that one message brings out costs that message,
// whatever it is: what stands in a stream would be read again by every coordinator that starts, and what is
// in a queue handed out again, until none is left. The fault here is that there is no decoder for a moment.
func TestFaultCostsOneMessage(t *testing.T) {
	for _, one := range []struct {
		queue, body, becomes string
		parked               bool
	}{
		{bus.QueueAssign, `{"message_type":"task.assign"}`, "parked", true},
		{bus.QueueReassign, `{"message_type":"task.dispatch"}`, "parked", true},
		{bus.QueueRequest, `{"message_type":"task.cancel"}`, "parked", true},
		{bus.StreamStatus, `{"message_type":"agent.status"}`, "ignored", false},
		{bus.StreamResult, `{"message_type":"task.result"}`, "ignored", false},
	} {
		inRig(t, fleet, func(r *rig) {
			synctest.Wait()
			vet := r.service.current.Load().vet
			whole := vet.Decoder
			vet.Decoder = nil
			r.publish(one.queue, one.body)
			synctest.Wait()
			vet.Decoder = whole
			if one.parked {
				if m := r.only(bus.QueueDead); string(m.Body) != one.body {
					t.Errorf("%s: parked %s", one.queue, m.Body)
				}
			} else {
				r.empty(bus.QueueDead)
			}
			if log := r.log.String(); !strings.Contains(log, "a fault of the program") || !strings.Contains(log, one.becomes) {
				t.Errorf("%s: the log says nothing of it:\n%s", one.queue, log)
			}
			a1 := r.worker("a1", true) // life goes on
			r.task("t-1", "build", "")
			if got := a1.has(); len(got) != 1 {
				t.Errorf("%s: after that a1 has %v, want t-1", one.queue, got)
			}
			a1.finish("succeeded", "")
			if c := r.status().Counters; c.Results["succeeded"] != 1 {
				t.Errorf("%s: results %v", one.queue, c.Results)
			}
		})
	}
}

// TestAcceptedAtIsNoLaterThanNow: when a task was accepted stands in the headers of its dispatch,
// by the clock of the coordinator that made it, and decides the order. One that comes back from a
// coordinator
// whose clock is ahead goes before those that come after it.
func TestAcceptedAtIsNoLaterThanNow(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		task := taskNamed("t-1", time.Now().AddDate(1, 0, 0))
		task.ContentHash, task.Priority = 7, coordinator.PriorityNormal
		d := dispatchOf(task, "a9", 1, time.Now())
		d.Queue, d.Timeout = "agent.a9", time.Minute
		r.publish(bus.QueueReassign, string(messages.AppendDispatch(nil, d, []byte(`{}`))), func(p *bus.Properties) {
			p.Headers = map[string]any{messages.HeaderTask: messages.EncodeTaskHeader(task),
				messages.HeaderDeathReason: "expired"}
		})
		r.pass(2 * time.Second) // its back-off: at most 250 ms
		r.task("t-2", "build", "")
		a1 := r.worker("a1", true)
		if got := a1.has(); len(got) != 1 || got[0] != "t-1" {
			t.Errorf("a1, with its one slot, has %v, want t-1: it came first", got)
		}
	})
}
