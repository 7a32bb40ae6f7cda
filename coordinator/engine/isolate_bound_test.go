package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// However many tasks must be alone and find no agent, an event costs the same while another agent
// is idle: 2,000 events with 5,000 of them took 4 s before.
func TestManyThatMustBeAlone(t *testing.T) {
	const tasks, events = 5000, 2000
	p := policyOf(worker("a").slots(tasks).can("gpu"), worker("b").slots(tasks).can("gpu"), worker("c").can("gpu"),
		worker("idle")).route("render", "gpu").set(func(s *coordinator.Settings) {
		s.PoisonedAfter, s.AssignmentTimeout, s.MaxQueueSize, s.DedupeMaxIDs = 2, time.Hour, tasks, 2*tasks
	})
	r := tracking(t, p)
	r.order("b", coordinator.OrderCordon)
	r.order("c", coordinator.OrderCordon)
	r.hear(beat("a").running().available(tasks))
	var sent []coordinator.Dispatch
	for i := range tasks {
		sent = append(sent, r.give(job(coordinator.TaskID(fmt.Sprint("t", i))).kind("render")))
	}
	r.look("a", 0, 1)
	r.miss("a", tasks)
	for _, d := range sent {
		r.returns(d, coordinator.ReturnTakenBack, true)
	}
	if n := r.PendingTotal(); n != tasks {
		t.Fatalf("%d tasks wait", n)
	}
	begun := time.Now()
	for range events {
		r.apply(coordinator.Tick{})
	}
	took := time.Since(begun)
	t.Logf("%v for each event", took/events)
	if took > time.Second {
		t.Errorf("%d events took %v", events, took)
	}
	r.order("b", coordinator.OrderUncordon) // and each is given all the same
	for i := range 10 {
		d := r.latest()
		if d.Agent != "b" || d.Task.ID != sent[i].Task.ID {
			t.Fatalf("%s went to %s", d.Task.ID, d.Agent)
		}
		r.confirm(d.Handle)
		r.tell(says("b", d.Task.ID).of(d.DispatchID))
	}
}
