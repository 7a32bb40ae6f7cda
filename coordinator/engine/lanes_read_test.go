package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestReadingBack: a lane is read as soon as a task of its group waits that came after what is
// in it, although the window is crowded: what comes out of the lane does not make room, and of
// the others the last does. The room is 8, of which the lane has half.
func TestReadingBack(t *testing.T) {
	r := busy(t, 8, "a")
	for i := range 8 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("x", i))).group("a"))
	}
	want(t, r.assign(job("y").group("a")), "move y to a")
	want(t, r.moved(r.last, coordinator.PublishConfirmed), "ack 10")
	want(t, r.laneHas("a", 1)) // x0 to x7 all go before it
	done, given := "first", coordinator.Handle(1)
	finish := func(next string, more ...string) {
		t.Helper()
		want(t, r.tell(says("a", coordinator.TaskID(done))),
			append(more, "completed "+done+".1 a succeeded", "dispatch "+next+".1 a")...)
		given++
		r.confirm(given)
		done = next
	}
	finish("x0")
	accepted := r.now // x0 to x7 were then, too
	r.pass(time.Second)
	want(t, r.assign(job("z").group("a"))) // in the place of x0
	want(t, r.laneHas("a", 1), "read a: 4")
	y := job("y").group("a")
	y.AcceptedAt = accepted
	want(t, r.comes("a", y, false), "move z to a")
	engine.CheckIndexes(t, r.Engine)
	want(t, r.moved(r.last-1, coordinator.PublishConfirmed), "ack 11")
	for _, next := range []string{"x1", "x2", "x3", "x4", "x5", "x6", "x7"} {
		want(t, r.laneHas("a", 1))
		finish(next)
	}
	if n := r.PendingTotal(); n != 1 || r.HeldTask(r.last).State() != engine.StateWaiting {
		t.Errorf("%d wait, want y", n)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestReadingInACrowd: where many groups have few tasks each, a lane is read nevertheless; the
// longest of the others makes room, which is that of the group that most wait of.
func TestReadingInACrowd(t *testing.T) {
	keys := []string{"g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7"}
	r := busy(t, 8, keys...)
	r.assign(job("t").group("g0"))
	for i, key := range keys[:7] {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).group(key))
	}
	r.laneKnown("g7")
	want(t, r.laneHas("g7", 3), "read g7: 4") // half of the room is the only lane's that has anything
	want(t, r.comes("g7", job("v").group("g7"), false), "move t0 to g0")
	want(t, r.moved(3, coordinator.PublishConfirmed), "ack 3") // t goes before it: nothing is gained
	r.laneKnown("g1")
	r.laneKnown("g2")
	want(t, r.laneHas("g7", 2), "read g7: 0") // and now four
	want(t, r.tell(says("a", "first")), "completed first.1 a succeeded", "read g7: 1", "dispatch v.1 a")
	engine.CheckIndexes(t, r.Engine)
}

// TestRotation: tasks that have been held for long out of a lane in which others may be behind
// them that could go make way for those, if they do not get on.
func TestRotation(t *testing.T) {
	r := busy(t, 0, "a")
	r.laneKnown("a")
	want(t, r.laneHas("a", 100), "read a: 64")
	for i := range 64 { // of two groups
		want(t, r.comes("a", job(coordinator.TaskID(fmt.Sprint("t", i))).group([]string{"a", "b"}[i%2]), false))
	}
	r.laneHas("a", 36)
	if got := r.beats(engine.HeldLong); len(got) != 64 || got[0] != "move t0 to a" {
		t.Fatalf("%d moves, want all that were held: %v", len(got), got)
	}
	want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2") // it is being read already
}

// TestNoRotation: where all that is behind them is of their kind they keep their place.
func TestNoRotation(t *testing.T) {
	r := busy(t, 0, "a")
	r.laneKnown("a")
	want(t, r.laneHas("a", 100), "read a: 64")
	for i := range 64 {
		want(t, r.comes("a", job(coordinator.TaskID(fmt.Sprint("t", i))).group("a"), false))
	}
	r.laneHas("a", 36)
	want(t, r.beats(engine.HeldMost-time.Second))
	if got := r.beats(time.Second); len(got) != 64 || got[0] != "move t0 to ~held" {
		t.Fatalf("%d moves, want all that were held: %v", len(got), got)
	}
	want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2", "read ~held: 2000")
	engine.CheckIndexes(t, r.Engine)
}

// laneKnown has the engine know of a lane.
func (r *rig) laneKnown(key string) { r.KnowLane(key) }

// TestOrphan: a lane whose group has left the policy is read until it is empty, and dropped.
func TestOrphan(t *testing.T) {
	r := busy(t, 2, "a")
	for _, key := range []string{coordinator.LaneOther, coordinator.LaneHeld} {
		r.apply(coordinator.LaneSeen{Lane: key, Missing: true})
	}
	r.Record(true)
	for i := range 3 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).group("a"))
	}
	want(t, r.moved(4, coordinator.PublishConfirmed), "ack 4")
	for _, id := range []coordinator.TaskID{"t0", "t1"} {
		r.withdraw(id)
	}
	p := *r.Policy()
	p.Lanes = []string{"b"}
	r.apply(coordinator.PolicyChanged{Policy: &p})
	if got := r.LanesWatched(r.now, 10); !slices.Equal(got, []string{"a", "b"}) { // b is new
		t.Fatalf("looked at are %v", got)
	}
	r.apply(coordinator.LaneSeen{Lane: "b", Missing: true})
	r.laneHas("a", 1)
	want(t, r.comes("a", job("t2").group("a"), false))
	r.pass(engine.LaneQuiet)
	want(t, r.laneHas("a", 0), "read a: 0") // and it is held out of it yet
	want(t, r.withdraw("t2"), "fail t2 cancelled", "cancel t2: done")
	want(t, r.laneHas("a", 0), "drop a")
	r.Records(nil)
	want(t, r.apply(coordinator.LaneSeen{Lane: "a", Missing: true, Dropped: true}))
	records := r.Records(nil)
	if len(records) != 1 || *records[0].(*coordinator.LaneKnown) != (coordinator.LaneKnown{Lane: "a"}) ||
		r.Lane("a") != nil {
		t.Fatalf("recorded: %v", records)
	}
}

// TestLaneThatIsBack: a lane whose group had left the configuration when the journal was deleted is known to
// no one. Listed again, by a reload or before a start, it is looked at once, although there is a journal, and
// read until it is empty. Lanes of which the journal tells are not looked at again.
func TestLaneThatIsBack(t *testing.T) {
	before := leader(t)
	listing := func(lanes ...string) *coordinator.Policy {
		return &policyOf(worker("a").slots(2), worker("b").slots(2)).lanes(1, lanes...).Policy
	}
	before.apply(coordinator.PolicyChanged{Policy: listing("a", "b")})
	for _, key := range []string{"a", "b", coordinator.LaneOther, coordinator.LaneHeld} {
		before.apply(coordinator.LaneSeen{Lane: key, Missing: key != "b"})
	}
	for n := range engine.AsksAhead {
		before.apply(coordinator.LaneSeen{Lane: coordinator.LaneBeside("b", n+1), Missing: true})
	}
	looks := func(t *testing.T, r *rig, want ...string) {
		t.Helper()
		r.pass(engine.LaneLook)
		if got := r.LanesWatched(r.now, 10); !slices.Equal(got, want) {
			t.Fatalf("looked at are %v, want %v", got, want)
		}
	}
	for how, journal := range map[string][]coordinator.Record{"records": before.Records(nil),
		"snapshot": before.imaged()} {
		for back, listed := range map[string]bool{"reload": false, "start": true} {
			t.Run(how+", "+back, func(t *testing.T) {
				before.SetPolicy(listing("a", "b"))
				if listed {
					before.SetPolicy(listing("a", "b", "c", "d"))
				}
				r := before.heirOf(before.now, journal)
				if !listed {
					looks(t, r)
					r.apply(coordinator.PolicyChanged{Policy: listing("a", "b", "c", "d")})
				}
				looks(t, r, "c", "d")
				want(t, r.apply(coordinator.LaneSeen{Lane: "c", Missing: true}))
				want(t, r.laneHas("d", 3), "read d: 1")
				if r.Lane("c") != nil || !r.Lane("d").Known {
					t.Error("c is remembered, or d is not")
				}
				for _, reload := range []*coordinator.Policy{listing("a", "d"), listing("a", "b", "d")} {
					r.apply(coordinator.PolicyChanged{Policy: reload})
				}
				for n := range engine.AsksAhead {
					r.apply(coordinator.LaneSeen{Lane: coordinator.LaneBeside("d", n+1), Missing: true})
				}
				looks(t, r, "b", "d")
			})
		}
	}
}

// TestLanesOfAnOlderJournal: a leader without a journal looks at all lanes of the policy once,
// and where there is one at those that may be beside it.
func TestLanesOfAnOlderJournal(t *testing.T) {
	r := busy(t, 0, "a", "b")
	looks := func(want ...string) {
		t.Helper()
		r.pass(engine.LaneLook)
		if got := r.LanesWatched(r.now, 100); !slices.Equal(got, want) {
			t.Fatalf("looked at are %v, want %v", got, want)
		}
	}
	looks("a", "b", coordinator.LaneOther, coordinator.LaneHeld)
	for _, key := range []string{"a", coordinator.LaneOther, coordinator.LaneHeld} {
		r.apply(coordinator.LaneSeen{Lane: key, Missing: true})
	}
	want(t, r.laneHas("b", 3), "read b: 64")
	looks("b", "b~1", "b~2", "b~3", "b~4", "b~5", "b~6", "b~7", "b~8")
	for n := range engine.AsksAhead {
		if key := coordinator.LaneBeside("b", n+1); n != 6 {
			r.apply(coordinator.LaneSeen{Lane: key, Missing: true})
		}
	}
	want(t, r.laneHas("b~7", 1), "read b~7: 64")
	looks("b", "b~10", "b~11", "b~12", "b~13", "b~14", "b~15", "b~7", "b~8", "b~9")
}
