package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// What is said of a task in its lane.

// Two tasks of the group wait here, and one after the other is moved to its lane: behind those
// that wait and what is in the lane before it.
func TestPlaceInALane(t *testing.T) {
	for name, quotas := range map[string]bool{"without groups": false, "by turns": true} {
		t.Run(name, func(t *testing.T) {
			r := busy(t, 2, "team")
			if quotas {
				p := *r.Policy()
				p.Quotas = &quotasOf().group("team", 1, nil).group("else", 1, nil).Quotas
				r.apply(coordinator.PolicyChanged{Policy: &p})
			}
			task := func(i int) *taskBuilder {
				b := job(coordinator.TaskID(fmt.Sprint("t", i))).of("team").tokens(50, 25)
				b.AcceptedAt = epoch.Add(time.Duration(i) * time.Second)
				return b
			}
			here := func(i, ahead, inLane int) {
				t.Helper()
				waiting := 2
				if !quotas { // of all that wait for the same agents, here and in lanes
					waiting += inLane
				}
				if p := r.place(task(i)); p.Lane != "" || p.InLane != inLane || p.Ahead != ahead || p.AtLeast ||
					p.Waiting != waiting {
					t.Errorf("t%d waits here: %+v; want %d ahead, and %d in its lane", i, p, ahead, inLane)
				}
			}
			laned := func(i, ahead, inLane int) {
				t.Helper()
				p := r.place(task(i))
				if p.Lane != "team" || p.InLane != inLane || p.Ahead != ahead || p.AtLeast || p.Quotas != quotas ||
					(p.Bound > 0) != quotas {
					t.Errorf("t%d: %+v; want it in lane team of %d tasks, and %d ahead", i, p, inLane, ahead)
				}
			}
			r.assign(task(1))
			r.assign(task(2))
			want(t, r.assign(task(3)), "move t3 to team")
			laned(3, 2, 0) // on its way
			want(t, r.moved(4, coordinator.PublishConfirmed), "ack 4")
			laned(3, 2, 1)
			want(t, r.assign(task(4)), "move t4 to team")
			want(t, r.moved(5, coordinator.PublishConfirmed), "ack 5")
			laned(4, 3, 2) // t1, t2, t3
			here(1, 0, 2)
			here(2, 1, 2)
			want(t, r.withdraw("t1"), "fail t1 cancelled", "cancel t1: done")
			want(t, r.laneHas("team", 2), "read team: 1")
			want(t, r.comes("team", task(3), false))
			here(3, 1, 1)
			laned(4, 2, 1) // t2, t3
			engine.CheckIndexes(t, r.Engine)
		})
	}
}

// What is said is true: of a task that waits in a lane when all is seen, no more tasks of its group
// and priority go before it than was said, no more of these were there, and no more cost is
// dispatched before it, as every task costs what was thought: within what is likely.
func TestPlaceInALaneHolds(t *testing.T) {
	const tasks, room = 400, 100
	for _, tt := range []struct {
		name         string
		flood, other int64 // weights
		low          bool  // what the other sends is of low priority
	}{
		{"equal weights", 1, 1, false},
		{"one has three times the weight", 1, 3, false},
		{"one has a third of it", 3, 1, false},
		{"the other's is of low priority", 1, 1, true},
	} {
		for name, lanes := range whoseLanes {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				p := limitedFleet(lanes, nil)
				p.Quotas = &quotasOf().group("flood", tt.flood, nil).group("other", tt.other, nil).Quotas
				p.LaneRoom = room
				d := newDepot(t, p)
				d.narrow(2 * room)
				d.service = 10 * time.Second
				others := from("other")
				if tt.low {
					others.prio(coordinator.PriorityLow)
				}
				for range tasks {
					d.inTurn(1, from("flood"))
					d.inTurn(1, others)
				}
				d.until(time.Second, func() bool { return len(d.queues[""].tasks) == 0 && d.e.Moving() == 0 })
				dispatched := len(d.begun)
				rest := map[string]int{"flood": tasks - d.of("flood", 0), "other": tasks - d.of("other", 0)}
				said := make(map[coordinator.TaskID]engine.Place)
				for lane, q := range d.queues {
					for _, task := range q.tasks {
						p, waits := d.e.Place(d.now, task)
						if !waits || p.Lane != lane || p.InLane != len(q.tasks) || p.Group != task.Group ||
							p.Ahead > rest[task.Group]-1 || p.Unbounded != "" {
							t.Fatalf("%s in lane %q of %d, and %d of its group: %+v, %v", task.ID, lane, len(q.tasks), rest[task.Group], p,
								waits)
						}
						said[task.ID] = p
					}
				}
				if len(said) < 2*tasks-10-room {
					t.Fatalf("%d are in lanes", len(said))
				}
				d.until(time.Hour, func() bool { return len(d.begun) == 2*tasks })
				before, cost := map[string]int{}, int64(0)
				for _, s := range d.begun[dispatched:] {
					p, laned := said[s.task.ID]
					if laned && (before[s.task.Group] > p.Ahead || cost > p.Likely || p.Likely > p.Bound) {
						t.Fatalf("%s starts after %d of its group and a cost of %d; its place: %+v", s.task.ID, before[s.task.Group],
							cost, p)
					}
					before[s.task.Group]++
					cost += floodCost
				}
			})
		}
	}
}
