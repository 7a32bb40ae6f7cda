package faults

import (
	"fmt"

	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/view"
)

// Crashes on the way into a lane and back out of it. A window of 40 has room for 20 waiting
// tasks; what comes beyond is moved.

// withLanes are four agents with five slots, and lanes.
var withLanes = fleet(4, 5, "window: 40", "lanes: []")

// laneCrashes are the points on that way, and how often one is passed before it counts.
var laneCrashes = []struct {
	point failpoint.Point
	hit   int
	short bool
}{
	{failpoint.AfterLanePublish, 10, false},
	{failpoint.AfterLaneConfirm, 10, true},
	{failpoint.BeforeLaneAck, 10, false},
	{failpoint.AfterLaneDeliver, 15, true},
}

func laneCells() (all []cell) {
	for _, at := range laneCrashes {
		all = append(all, cell{name: fmt.Sprintf("crash %s, task", at.point), short: at.short, config: withLanes,
			holds: decidedOnce, play: func(r *rig) {
				r.serve().stop() // the queues are there, and agents are heard
				r.work(4, 5, slow)
				r.submit(many("t", "build", 300)...)
				c := r.armed(at.point, at.hit)
				r.dies(c, at.point)
				c = r.serve()
				r.resumes()
				if at.point != failpoint.AfterLaneDeliver { // else all that is to be moved has been by then
					c.awaitStatus("tasks have been moved", func(s view.Status) bool { return s.Counters.Moved > 0 })
				}
			}})
	}
	return all
}
