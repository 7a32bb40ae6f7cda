package service

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator/bus"
)

// A claim from end to end: the agent that asks gets the task that waits for it, hears
// how many were granted, and the decision counts under what it was, no strategy.
func TestClaimedTasksAreCounted(t *testing.T) {
	const pulling = `
agents:
  a1: {capabilities: [go], max_concurrent_tasks: 4, health_check_interval: 5, mode: pull}
task_routing:
  build: {required_capabilities: [go]}
`
	inRig(t, pulling, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("t-1", "build", "")
		if got := a1.has(); got != nil {
			t.Fatalf("it was given %v and had not asked", got)
		}
		r.publish(bus.QueueRequest,
			`{"message_type":"task.claim","agent_id":"a1","claim_id":"c-1","max_items":4,"pending_items":0}`)
		r.pass(time.Millisecond)
		if got := a1.has(); !slices.Equal(got, []string{"t-1"}) {
			t.Errorf("it was given %v, want what it claimed; log:\n%s", got, r.log)
		}
		if told := a1.told(); len(told) != 1 || told[0].Type != "task.granted" || told[0].fields["granted"] != 1.0 {
			t.Errorf("it was told %v, want one grant of one task", told)
		}
		const counted = `taskbus_assignments_total{reason="",result="assigned",strategy="pull"}`
		if n := scraped(t, r.service.options.Registry)[counted]; n != 1 {
			t.Errorf("%s = %v, want 1", counted, n)
		}
		a1.finish("succeeded", "")
	})
}
