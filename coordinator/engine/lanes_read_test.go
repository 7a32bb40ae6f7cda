package engine

import (
	"fmt"
	"slices"
	"testing"

	"taskbus/coordinator"
)

// TestReadingBack: a lane is read as soon as few of its tasks wait, a window at a time.
func TestReadingBack(t *testing.T) {
	r := busy(t, 8, "a") // the window of a lane is half of the room: 4
	for i := range 8 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("x", i))).group("a"))
	}
	want(t, r.assign(job("y").group("a")), "move y to a")
	want(t, r.moved(r.last, coordinator.PublishConfirmed), "ack 10") // 8 wait: nothing is read
	done, given := "first", coordinator.Handle(1)
	var got []string
	for i := range 7 { // one after the other is done, until one of them waits, which is less than half of 4
		got = append(got, r.tell(says("a", coordinator.TaskID(done)))...)
		given++
		got = append(got, r.confirm(given)...)
		done = fmt.Sprint("x", i)
	}
	if !slices.Contains(got, "read a: 4") || got[len(got)-2] != "read a: 4" && got[len(got)-3] != "read a: 4" {
		t.Fatalf("the lane is not read when one task waits: %v", got)
	}
	want(t, r.comes("a", job("y").group("a"), false))
	want(t, r.laneHas("a", 0))
	r.pass(laneQuiet)
	want(t, r.laneHas("a", 0), "read a: 0")
	checkIndexes(t, r.Engine)
}

// TestNoReadingInACrowd: where many groups have few tasks each, what is read back would be
// moved again at once.
func TestNoReadingInACrowd(t *testing.T) {
	keys := []string{"g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7"}
	r := busy(t, 8, keys...)
	for i, key := range keys {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).group(key))
	}
	want(t, r.assign(job("more").group("g7")), "move more to g7")
	want(t, r.moved(r.last, coordinator.PublishConfirmed), "ack 10")
	want(t, r.laneHas("g7", 1))
	want(t, r.tell(says("a", "first")), "completed first.1 a succeeded", "dispatch t0.1 a")
	want(t, r.laneHas("g7", 1)) // 7 wait, and 4 more would be one too many
	r.withdraw("t1")
	r.withdraw("t2")
	r.withdraw("t3") // now there is room: 4 wait, and 4 are read
	want(t, r.laneHas("g7", 1), "read g7: 4")
}

// TestRotation: tasks that have been held for long out of a lane make way for those behind
// them.
func TestRotation(t *testing.T) {
	r := busy(t, 0, "a")
	r.laneKnown("a")
	want(t, r.laneHas("a", 100), "read a: 64")
	for i := range 64 {
		want(t, r.comes("a", job(coordinator.TaskID(fmt.Sprint("t", i))).group("a"), false))
	}
	r.laneHas("a", 36)
	if got := r.beats(heldLong); len(got) != 64 || got[0] != "move t0 to a" {
		t.Fatalf("%d moves, want all that were held: %v", len(got), got)
	}
	want(t, r.moved(2, coordinator.PublishConfirmed), "ack 2") // it is being read already
}

// laneKnown has the engine know of a lane.
func (r *rig) laneKnown(key string) { r.knowLane(r.lanes.lane(key)) }

// TestTurns: no more than so many lanes are read at once, each for a while.
func TestTurns(t *testing.T) {
	keys := make([]string, maxLanesRead+1)
	for i := range keys {
		keys[i] = fmt.Sprintf("g%02d", i)
	}
	r := busy(t, 0, keys...)
	for i, key := range keys {
		r.laneKnown(key)
		got := r.laneHas(key, 1)
		if read := len(got) == 1; read != (i < maxLanesRead) {
			t.Fatalf("lane %d: %v", i, got)
		}
	}
	want(t, r.laneHas("g00", 1))
	r.pass(laneTurn)
	want(t, r.laneHas("g00", 1), "read g00: 0", "read g64: 64")
	want(t, r.laneHas("g00", 1)) // it waits for its turn now
	want(t, r.apply(coordinator.LaneEnded{Lane: "g64"}), "read g00: 64")
	checkIndexes(t, r.Engine)
}

// TestOrphan: a lane whose group has left the policy is read until it is empty, and dropped.
func TestOrphan(t *testing.T) {
	r := busy(t, 2, "a")
	r.laneHas(coordinator.LaneOther, 0)
	r.Record(true)
	for i := range 3 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).group("a"))
	}
	want(t, r.moved(4, coordinator.PublishConfirmed), "ack 4")
	for _, id := range []coordinator.TaskID{"t0", "t1"} {
		r.withdraw(id)
	}
	p := *r.policy
	p.Lanes = []string{"b"}
	r.apply(coordinator.PolicyChanged{Policy: &p})
	if got := r.LanesWatched(r.now, 10); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("looked at are %v", got)
	}
	r.laneHas("a", 1)
	want(t, r.comes("a", job("t2").group("a"), false))
	r.pass(laneQuiet)
	want(t, r.laneHas("a", 0), "read a: 0") // and it is held out of it yet
	want(t, r.withdraw("t2"), "fail t2 cancelled", "cancel t2: done")
	want(t, r.laneHas("a", 0), "drop a")
	r.Records(nil)
	want(t, r.apply(coordinator.LaneSeen{Lane: "a", Missing: true}))
	records := r.Records(nil)
	if len(records) != 1 || *records[0].(*coordinator.LaneKnown) != (coordinator.LaneKnown{Lane: "a"}) || r.lanes.byKey["a"] != nil {
		t.Fatalf("recorded: %v", records)
	}
}

// TestLanesOfAnOlderJournal: whoever has no journal to go by looks at all lanes of the policy once.
func TestLanesOfAnOlderJournal(t *testing.T) {
	r := busy(t, 0, "a", "b")
	if got := r.LanesWatched(r.now, 10); !slices.Equal(got, []string{"a", "b", coordinator.LaneOther}) {
		t.Fatalf("looked at are %v", got)
	}
	r.apply(coordinator.LaneSeen{Lane: "a", Missing: true})
	r.laneHas(coordinator.LaneOther, 0)
	want(t, r.laneHas("b", 3), "read b: 64")
	r.pass(laneLook)
	if got := r.LanesWatched(r.now, 10); !slices.Equal(got, []string{"b"}) {
		t.Fatalf("looked at are %v", got)
	}
}
