package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// crowds sends so many tasks of a kind, and gives the lanes to which some are moved, in order.
func (r *rig) crowds(n int, b *taskBuilder) (lanes []string) {
	r.t.Helper()
	for range n {
		next := *b
		next.ID = coordinator.TaskID(fmt.Sprint(b.ID, r.last))
		for _, line := range r.assign(&next) {
			if _, lane, moved := strings.Cut(line, " to "); moved {
				lanes = append(lanes, lane)
			}
		}
		for _, t := range r.HeldInOrder() {
			if t.State() == engine.StateMoving {
				r.moved(t.Handle(), coordinator.PublishConfirmed)
			}
		}
	}
	engine.CheckIndexes(r.t, r.Engine)
	return lanes
}

// times repeats a lane.
func times(n int, lane string) (all []string) {
	for range n {
		all = append(all, lane)
	}
	return all
}

// kinds is a busy fleet with room for four waiting tasks, and a group with a lane.
func kinds(t *testing.T) *rig {
	r := busy(t, 4, "team")
	p := *r.Policy()
	p.Routes = map[string]coordinator.Route{"any": {}, "go": {Required: []string{"go"}}}
	p.Agents = append(p.Agents, worker("away").can("go").AgentSpec)
	p.Quotas = &quotasOf().group("team", 1, nil).group("else", 1, nil).Quotas
	r.apply(coordinator.PolicyChanged{Policy: &p})
	return r
}

// TestOneKindToALane: the first kind has the lane of its group. The first few of another share one
// beside it with others of which there is little; then it has its own.
func TestOneKindToALane(t *testing.T) {
	r := kinds(t)
	want(t, r.crowds(20, job("n").group("team")), times(16, "team")...)
	// The four that wait make way for as many that are urgent, and then the last of these for the
	// next. When five wait and four have been moved, that is more than fewOfKind.
	urgent := job("u").group("team").prio(coordinator.PriorityCritical)
	want(t, r.crowds(16, urgent), append(append(times(4, "team"), times(4, "team~1")...), times(8, "team~2")...)...)
	// The longer row makes room, so that those which no agent can take now leave half of it to the
	// others; and of them there is little.
	want(t, r.crowds(4, job("g").group("team").kind("go")), "team~2", "team~2", "team~1", "team~1")
}

// TestLanesBesideAreDropped: a lane beside another is no orphan, and is gone when it is empty.
func TestLanesBesideAreDropped(t *testing.T) {
	r := kinds(t)
	r.crowds(5, job("n").group("team"))
	want(t, r.crowds(5, job("u").group("team").prio(coordinator.PriorityCritical)), "team", "team", "team", "team",
		"team~1")
	for _, l := range r.Snapshot(r.now).Lanes {
		if l.Orphan {
			t.Errorf("%s is an orphan", l.Lane)
		}
	}
	r.pass(engine.LaneQuiet)
	want(t, r.laneHas("team~1", 0), "read team~1: 0", "drop team~1")
	want(t, r.laneHas("team~1", 0)) // a look of before
	want(t, r.apply(coordinator.LaneSeen{Lane: "team~1", Dropped: true}))
	want(t, r.laneHas("team~1", 0), "drop team~1") // once more
	want(t, r.apply(coordinator.LaneSeen{Lane: "team~1", Missing: true, Dropped: true}))
	if r.Lane("team~1") != nil {
		t.Error("it is remembered")
	}
	want(t, r.laneHas("team", 0), "read team: 0") // this one stays
	engine.CheckIndexes(t, r.Engine)
}

// TestNothingIsMovedToALaneThatIsDropped: from the order to delete its queue until the answer, another
// lane has its kind; whatever a look says meanwhile.
func TestNothingIsMovedToALaneThatIsDropped(t *testing.T) {
	r := kinds(t)
	r.crowds(5, job("n").group("team"))
	urgent := job("u").group("team").prio(coordinator.PriorityCritical)
	want(t, r.crowds(5, urgent), "team", "team", "team", "team", "team~1")
	r.pass(engine.LaneQuiet)
	want(t, r.laneHas("team~1", 0), "read team~1: 0", "drop team~1")
	want(t, r.crowds(1, urgent), "team~2")
	r.apply(coordinator.LaneSeen{Lane: "team~1", Missing: true})
	r.laneHas("team~1", 1) // another publisher has put something there
	want(t, r.crowds(2, urgent), "team~2", "team~2")
	r.apply(coordinator.LaneSeen{Lane: "team~1", Dropped: true})
	engine.CheckIndexes(t, r.Engine)
}

// TestALaneComesBackWhileItIsDropped: an orphan that the policy has again has to wait for the answer.
func TestALaneComesBackWhileItIsDropped(t *testing.T) {
	r := kinds(t)
	with, without := *r.Policy(), *r.Policy()
	without.Lanes = []string{}
	r.laneKnown("team")
	r.apply(coordinator.PolicyChanged{Policy: &without})
	r.pass(engine.LaneQuiet)
	want(t, r.laneHas("team", 0), "drop team")
	r.apply(coordinator.PolicyChanged{Policy: &with})
	want(t, r.crowds(6, job("n").group("team")), "team~1", "team~1")
	r.apply(coordinator.SessionLost{}) // there will be no answer
	r.apply(coordinator.SessionOpened{})
	if l := r.Lane("team"); l == nil || !l.Known || l.Dropping {
		t.Errorf("after another session: %+v", l)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestOrphansGetNothing: what is moved after a group has lost its lane goes where the policy says.
func TestOrphansGetNothing(t *testing.T) {
	r := kinds(t)
	want(t, r.crowds(5, job("n").group("team")), "team")
	p := *r.Policy()
	p.Lanes = []string{}
	r.apply(coordinator.PolicyChanged{Policy: &p})
	want(t, r.comes("team", job("old").group("team"), false), "move n4 to other")
	r.moved(5, coordinator.PublishConfirmed)
	want(t, r.crowds(2, job("n").group("team")), "other", "other")
	p.Lanes = []string{"team"}
	r.apply(coordinator.PolicyChanged{Policy: &p})
	want(t, r.crowds(1, job("n").group("team")), "team")
	engine.CheckIndexes(t, r.Engine)
}

// TestLaneOfAGroupWithoutQuotas: a group that quotas.yaml does not have takes its turns with all
// others of that sort, and still has its own lane, and the same ones beside it.
func TestLaneOfAGroupWithoutQuotas(t *testing.T) {
	r := kinds(t)
	p := *r.Policy()
	p.Lanes, p.Quotas = []string{"mine", "team"}, &quotasOf().group("team", 1, nil).group("else", 1, nil).open().Quotas
	r.apply(coordinator.PolicyChanged{Policy: &p})
	want(t, r.crowds(14, job("n").group("mine")), times(10, "mine")...)
	urgent := job("u").group("mine").prio(coordinator.PriorityCritical)
	want(t, r.crowds(10, urgent), append(append(times(4, "mine"), times(4, "mine~1")...), times(2, "mine~2")...)...)
}

// TestKindOfALaneIsSeen: the next leader does not know what is in a lane until the first task comes
// out; until then nothing else is moved there.
func TestKindOfALaneIsSeen(t *testing.T) {
	r := kinds(t)
	r.laneKnown("team")
	want(t, r.crowds(5, job("n").group("team")), "team~1")
	want(t, r.comes("team", job("old").group("team"), false), "move n4 to team")
}

// TestTooManyLanes: where so many lanes hold something, a group's own is shared by all kinds of it.
func TestTooManyLanes(t *testing.T) {
	r := kinds(t)
	r.crowds(5, job("n").group("team"))
	for i := range engine.MaxLanes - 1 {
		r.laneKnown(fmt.Sprint("x", i))
	}
	want(t, r.crowds(5, job("u").group("team").prio(coordinator.PriorityCritical)), times(5, "team")...)
	if l := r.Lane("team"); !l.Mixed {
		t.Error("nothing says that it has several kinds")
	}
}

// TestWhoFloodsMakesRoom: it is the group with most that does, whatever else is in its lane; those
// that share one are told apart.
func TestWhoFloodsMakesRoom(t *testing.T) {
	r := kinds(t)
	want(t, r.crowds(2, job("little").group("else").prio(coordinator.PriorityLow)))
	want(t, r.crowds(10, job("n").group("team").prio(coordinator.PriorityCritical)), times(8, "team")...)
	want(t, r.crowds(2, job("little").group("else").prio(coordinator.PriorityLow)), "other", "other")
}

// TestEqualsMakeRoomOneAfterTheOther: where all groups have as much, the first goes on making room
// until it has two thirds of what the others have: a queue for each task would cost more than it is.
func TestEqualsMakeRoomOneAfterTheOther(t *testing.T) {
	var groups []string
	for i := range 10 {
		groups = append(groups, fmt.Sprint("g", i))
	}
	r := busy(t, 300, groups...)
	moved := make(map[string]int)
	for i := range 330 {
		for _, lane := range r.crowds(1, job("t").group(groups[i%10])) {
			moved[lane]++
		}
	}
	// 30 are moved of 10 groups that have 30 to 33 each: from 31 or more down to 20 or 21.
	if n := moved["g0"] + moved["g1"] + moved["g2"]; n != 30 || len(moved) > 3 {
		t.Errorf("%v, want 30 of the first three", moved)
	}
}

// TestNoRoomAmongTheHeld: no more keep their place for long than may be held at a time; what is more
// goes to its lane.
func TestNoRoomAmongTheHeld(t *testing.T) {
	r := busy(t, 0)
	r.laneKnown(coordinator.LaneHeld)
	for i := range engine.HeldAtOnce - 1 {
		r.comes(coordinator.LaneHeld, job(coordinator.TaskID(fmt.Sprint("held", i))), false)
	}
	r.assign(job("last"))
	r.assign(job("more"))
	want(t, r.beats(engine.HeldLong), "move last to ~held", "move more to other")
	engine.CheckIndexes(t, r.Engine)
}
