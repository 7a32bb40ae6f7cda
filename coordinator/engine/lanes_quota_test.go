package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// What a group has no quota for waits in its lane, and comes out of it when the quota is back.

// left is how many tasks wait, are on their way into a lane, or are in a queue.
func (d *depot) left() int {
	n := d.e.Backlog() + d.e.Moving()
	for _, ready := range d.ready() {
		n += ready
	}
	return n
}

// 2,500 tasks of a group with a budget for 1,000 of them a day, 75,000 tokens: the first 1,000 go
// out before noon is over, 500 of what is left find room for 200 of them. At midnight the next
// 1,000 do, in the order in which they were accepted, although 800 of them are in the lane and the
// 200 before it have been made new messages every ten minutes. All slots are busy all the time: ten
// of them with tasks of 100 ms are through with 1,000 after 10 s. The budget is then used to the
// unit, and the last 500 wait for the day after.
func TestLaneIsReadWhenTheBudgetIsBack(t *testing.T) {
	const each, room = 1000, 200
	midnight := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	for name, lanes := range whoseLanes {
		t.Run(name, func(t *testing.T) {
			p := limitedFleet(lanes, daily(each*floodTokens))
			p.LaneRoom = room
			d := newDepot(t, p)
			d.narrow(2 * room)
			d.service = 100 * time.Millisecond
			d.inTurn(2*each+each/2, from("flood"))
			d.until(time.Minute, func() bool { return len(d.begun) == each })
			d.until(12*time.Hour, func() bool { return !d.now.Before(midnight.Add(-time.Second)) })
			if n := len(d.begun); n != each || d.left() != each+each/2 || d.e.Backlog() > room {
				t.Fatalf("just before midnight %d have begun, %d are left, of which %d wait here; want %d, %d and %d at most",
					n, d.left(), d.e.Backlog(), each, each+each/2, room)
			}
			d.until(time.Minute, func() bool { return len(d.begun) == 2*each })
			if late := d.now.Sub(midnight); late > 10*time.Second {
				t.Errorf("the budget of the day is given after %v, want 10 s", late)
			}
			d.until(time.Hour, func() bool { return !d.now.Before(midnight.Add(30 * time.Minute)) })
			for i, s := range d.begun {
				if want := coordinator.TaskID(fmt.Sprint("flood", i+1)); s.task.ID != want || i >= each && s.at.Before(midnight) {
					t.Fatalf("the dispatch at %d is of %s, want %s, at %v", i, s.task.ID, want, s.at)
				}
			}
			n, _ := d.e.Ledger().Node(d.now, "pool/flood")
			if b := n.Budgets[0]; b.Used != each*floodTokens || b.Reserved != 0 || len(d.begun) != 2*each || d.left() != each/2 {
				t.Errorf("of the budget %d are used and %d set aside after %d dispatches, and %d are left; want %d, 0, %d and %d",
					b.Used, b.Reserved, len(d.begun), d.left(), each*floodTokens, 2*each, each/2)
			}
			engine.CheckIndexes(t, d.e)
		})
	}
}

// A flood that comes faster than it can be moved, 10,000 tasks at once: the first of it, which wait
// here when it is all seen, begin in the order in which they were accepted: ten for the slots, and
// as many as have room. What is read of the lane does not displace them, while it is not yet seen
// how much else does.
func TestFirstOfAFloodKeepTheirOrder(t *testing.T) {
	for name, lanes := range whoseLanes {
		t.Run(name, func(t *testing.T) {
			d := newDepot(t, sharedFleet(lanes))
			d.service = 100 * time.Millisecond
			d.inTurn(10_000, from("flood"))
			const first = 10 + depotWindow/2
			d.until(time.Hour, func() bool { return len(d.begun) >= first })
			for i, s := range d.begun[:first] {
				if want := coordinator.TaskID(fmt.Sprint("flood", i+1)); s.task.ID != want {
					t.Fatalf("the dispatch at %d is of %s, want %s", i, s.task.ID, want)
				}
			}
			engine.CheckIndexes(t, d.e)
		})
	}
}
