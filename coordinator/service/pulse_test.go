package service

import (
	"testing"
	"time"

	"taskbus/coordinator/bus"
)

// TestAnAlarmFailsNoFinishedWork: an alarm that lasts longer than a lease. The coordinator
// has nothing to publish and must hear of it all the same; what the agent could not tell in
// the alarm counts after it.
func TestAnAlarmFailsNoFinishedWork(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("t-1", "build", `,"timeout_seconds":20`)
		a1.report("t-1")
		r.pass(time.Second)
		r.broker.Block(true)
		r.pass(10 * time.Second)
		if ready := r.service.Ready(t.Context()); ready.State != "blocked" {
			t.Errorf("during the alarm: %+v", ready)
		}
		a1.finish("succeeded", "") // it is held up
		r.pass(90 * time.Second)
		r.broker.Block(false)
		r.pass(time.Second)
		r.empty(bus.QueueFailed)
		if task, _ := r.service.Task(t.Context(), "t-1"); task.State != "succeeded" || r.status().Counters.TimedOut != 0 {
			t.Errorf("in /tasks: %+v, %d timed out", task, r.status().Counters.TimedOut)
		}
	})
}

// TestAnOutageFailsNoFinishedWork: what was left of a lease when the session was lost is left
// when it is back, although another engine goes on: agents connect again in their own time.
func TestAnOutageFailsNoFinishedWork(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("t-1", "build", `,"timeout_seconds":60`)
		a1.report("t-1")
		r.pass(time.Second)
		r.broker.SetOpenError(bus.ErrAccess)
		r.broker.Cut()
		r.pass(100 * time.Second)
		r.broker.SetOpenError(nil)
		r.pass(backoffMax)
		r.connect()
		r.pass(15 * time.Second)
		r.result("a1", "t-1", "succeeded", `,"dispatch_id":"t-1.1"`)
		r.pass(time.Second)
		r.empty(bus.QueueFailed)
		if task, _ := r.service.Task(t.Context(), "t-1"); task.State != "succeeded" {
			t.Errorf("in /tasks: %+v", task)
		}
	})
}
