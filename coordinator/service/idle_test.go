package service

import (
	"testing"
	"time"
)

// TestKilledWhileIdleGetsNothing: an agent that is killed while it has nothing to do is gone
// within five seconds, and what was sent to it meanwhile is with another within five more;
// the same when the coordinator was started anew in between.
func TestKilledWhileIdleGetsNothing(t *testing.T) {
	for name, restart := range map[string]bool{"": false, "and the coordinator is started anew": true} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				a1 := r.worker("a1", true)
				r.pass(2 * time.Second)
				if restart {
					a1.vanish()
					r.broker.Cut()
					r.pass(backoffMax + time.Second)
					r.connect()
					r.reportTasks("a1") // sent before, read now
				} else {
					a1.vanish()
					r.pass(5 * time.Second)
				}
				r.task("t-1", "build", "")
				r.pass(2 * time.Second)
				r.empty("agent.a1")
				a2 := r.worker("a2", true)
				r.pass(time.Second)
				if has := a2.has(); len(has) != 1 {
					t.Errorf("a2 has %v, want t-1", has)
				}
				a2.finish("succeeded", "")
			})
		})
	}
}
