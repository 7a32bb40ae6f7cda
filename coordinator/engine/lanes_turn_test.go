package engine_test

import (
	"fmt"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestTurns: no more than so many lanes are read at once, each for a while.
func TestTurns(t *testing.T) {
	keys := make([]string, engine.MaxLanesRead+1)
	for i := range keys {
		keys[i] = fmt.Sprintf("g%02d", i)
	}
	r := busy(t, 0, keys...)
	for i, key := range keys {
		r.laneKnown(key)
		got := r.laneHas(key, 1)
		if read := len(got) == 1; read != (i < engine.MaxLanesRead) {
			t.Fatalf("lane %d: %v", i, got)
		}
	}
	want(t, r.laneHas("g00", 1))
	r.pass(engine.LaneTurn)
	want(t, r.laneHas("g00", 1), "read g00: 0", "read g64: 64")
	want(t, r.laneHas("g00", 1)) // it waits for its turn now
	want(t, r.apply(coordinator.LaneEnded{Lane: "g64"}), "read g00: 64")
	engine.CheckIndexes(t, r.Engine)
}

// TestTurnsByShares: of those that wait for it the lane is read first whose group has had least by
// its weight: of 600 each, a at weight 1, b at 3 and c at 2, it is b. New weights count at once: a
// at 6 has had 100 for each, c 300, b 600.
func TestTurnsByShares(t *testing.T) {
	tree := func(a, b, c int64) *quotaTree {
		q := quotasOf().group("a", a, nil).group("b", b, nil).group("c", c, nil)
		for i := range engine.MaxLanesRead {
			q.group(fmt.Sprintf("g%02d", i), 1, nil)
		}
		return q
	}
	for _, tt := range []struct {
		name string
		then *quotaTree // weights that come while they wait; nil: none
		want []string
	}{
		{"by the weights they had", nil, []string{"b", "c", "a"}},
		{"by new weights", tree(6, 1, 2), []string{"a", "c", "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lanes := []string{"a", "b", "c"}
			for i := range engine.MaxLanesRead {
				lanes = append(lanes, fmt.Sprintf("g%02d", i))
			}
			p := policyOf(worker("w")).quotas(tree(1, 3, 2)).lanes(0, lanes...)
			r := ready(t, p)
			r.give(job("first").of("g00"))
			for _, key := range lanes[3:] {
				r.laneKnown(key)
				want(t, r.laneHas(key, 1), "read "+key+": 64")
			}
			for _, key := range lanes[:3] {
				r.Shares().Charge(r.Shares().Leaf(key), 600)
				r.laneKnown(key)
				want(t, r.laneHas(key, 1))
			}
			if tt.then != nil {
				next := *p
				next.Quotas = &tt.then.Quotas
				r.apply(coordinator.PolicyChanged{Policy: &next.Policy})
			}
			engine.CheckIndexes(t, r.Engine)
			for i, next := range tt.want {
				want(t, r.apply(coordinator.LaneEnded{Lane: lanes[3+i]}), "read "+next+": 64")
			}
		})
	}
}

// TestTurnIsOver: a lane that has given what it is read for makes way as soon as another waits.
func TestTurnIsOver(t *testing.T) {
	keys := make([]string, engine.MaxLanesRead+1)
	for i := range keys {
		keys[i] = fmt.Sprintf("g%02d", i)
	}
	r := busy(t, 0, keys...)
	for _, key := range keys[:engine.MaxLanesRead] {
		r.laneKnown(key)
		want(t, r.laneHas(key, 2), "read "+key+": 64")
	}
	want(t, r.comes("g07", job("t1").group("g07"), false)) // one more is in it
	r.laneKnown("g64")
	want(t, r.laneHas("g64", 2))
	want(t, r.comes("g07", job("t2").group("g07"), false), "read g07: 0", "read g64: 64")
	engine.CheckIndexes(t, r.Engine)
}
