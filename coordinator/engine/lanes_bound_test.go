package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// What a flood of 100,000 tasks does to others, of its own group and of another with which it
// shares the fleet: ten slots, which a task takes for a second, and the default window. Every task
// takes 50 + 2·25 tokens, so it costs 100, as was thought.
const (
	floodTokens = 50 + 25
	floodCost   = 50 + 2*25
)

// whoseLanes are the ways in which two groups may have lanes: each its own, or one for both.
var whoseLanes = map[string][]string{"lanes of their own": {"flood", "other"}, "one lane for all": {}}

func sharedFleet(lanes []string) *policyBuilder { return limitedFleet(lanes, nil) }

// limitedFleet is the same with limits of the flood's group; nil: it has none.
func limitedFleet(lanes []string, limits func(*coordinator.QuotaNode)) *policyBuilder {
	a := worker("a").slots(10)
	a.Timeout = 240 * time.Hour
	return policyOf(a, worker("absent").can("gpu")).route("gpu", "gpu").
		quotas(quotasOf().group("flood", 1, limits).group("other", 1, nil)).lanes(depotWindow/2, lanes...)
}

func from(group string) *taskBuilder {
	return job(coordinator.TaskID(group)).of(group).tokens(50, 25)
}

// A tenant that floods 100,000 tasks delays another's first, which stands in the middle of them in
// task.assign, by no more than this:
//
//   - until it is seen: what crowds the window is moved, 256 at a time, for which the broker
//     takes 5 ms: 51,200 in a second. The 50,000 before it are out of the way in 977 ms, and what
//     is confirmed then in another 5;
//   - until it is its turn: Shares.Ahead, which is the bound of algorithms.md 1.3 at equal weights
//     with estimates that are right: W/1 − 0/1 ≤ 1·(c/1) is one task of the flood, in cost 100,
//     and a unit for rounding;
//   - until two slots are free: 1 s, for all of them end together.
//
// So it begins within 982 ms + 1 s, after the ten that filled the slots, ten more while it is not
// seen, and one. A flood that no agent can take now takes no slot: then it begins when it is seen.
// Nor does one that has no quota, but for what its limit has left: of a daily budget that five
// tasks use up these five, with seats for five as many, of a rate of one in a second the first.
func TestFloodDelaysNobodysFirst(t *testing.T) {
	const seen = 982 * time.Millisecond
	floods := []struct {
		name   string
		task   *taskBuilder
		limits func(*coordinator.QuotaNode) // of its group; nil: it has none
		ahead  int
		within time.Duration
	}{
		{"as urgent as the other", from("flood"), nil, 21, seen + time.Second},
		{"of low priority", from("flood").prio(coordinator.PriorityLow), nil, 21, seen + time.Second},
		{"that nobody can take now", from("flood").kind("gpu"), nil, 0, seen},
		{"that has used up its budget", from("flood"), daily(5 * floodTokens), 5, seen},
		{"at a slow rate", from("flood"), requests(1, 1), 1, seen},
		{"with few seats", from("flood"), seats(5), 5, seen},
	}
	for _, flood := range floods {
		for name, lanes := range whoseLanes {
			t.Run(flood.name+", "+name, func(t *testing.T) {
				d := newDepot(t, limitedFleet(lanes, flood.limits))
				d.send(50_000, flood.task)
				d.send(1, from("other"))
				d.send(50_000, flood.task)
				at, bound := d.now, int64(-1)
				d.until(time.Minute, func() bool {
					if bound < 0 && d.sees("other") {
						bound, _ = d.e.Shares().Ahead(d.e.Shares().Leaf("other"), 0, floodCost, floodCost, 0)
					}
					return d.of("other", 0) > 0
				})
				if ahead, late := d.of("flood", 0), d.now.Sub(at); ahead > flood.ahead || late > flood.within {
					t.Errorf("begun after %d tasks of the flood and %v, want at most %d and %v", ahead, late, flood.ahead,
						flood.within)
				}
				if bound > floodCost+1 {
					t.Errorf("when it is seen its bound is %d, want that of one task", bound)
				}
				engine.CheckIndexes(t, d.e)
			})
		}
	}
}

// The same while every slot is taken for ten minutes. The other's task has been held for long by
// then, and keeps its place: when slots are free it has the first or, by the bound above, the
// second.
func TestHeldForLongKeepsItsPlace(t *testing.T) {
	for name, lanes := range whoseLanes {
		t.Run(name, func(t *testing.T) {
			d := newDepot(t, sharedFleet(lanes))
			d.service = 10 * time.Minute
			d.send(10_000, from("flood"))
			d.send(1, from("other"))
			d.send(10_000, from("flood"))
			d.until(time.Hour, func() bool { return d.of("other", 0) > 0 })
			if ahead := d.of("flood", 10); ahead > 1 {
				t.Errorf("begun after %d more of the flood, want at most one", ahead)
			}
		})
	}
}

// What another sends in thousands is in a lane as well, behind only its own. From when it is
// seen both have the same, but for two tasks: |W/1 − W'/1| ≤ 1·(100/1 + 100/1).
func TestBothWaitInLanes(t *testing.T) {
	for name, lanes := range whoseLanes {
		t.Run(name, func(t *testing.T) {
			d := newDepot(t, sharedFleet(lanes))
			d.send(50_000, from("flood"))
			d.send(3_000, from("other"))
			d.until(time.Minute, func() bool { return d.of("other", 0) > 0 })
			flood, other := 0, 0
			for i := len(d.begun) - 1; i < 5_900; i++ {
				d.until(time.Minute, func() bool { return len(d.begun) > i })
				if d.begun[i].task.Group == "flood" {
					flood++
				} else {
					other++
				}
				if gap := max(flood-other, other-flood); gap > 2 {
					t.Fatalf("of %d dispatches since, %d are the other's", flood+other, other)
				}
			}
		})
	}
}

// A group's own flood of low priority hides nothing urgent of it: that has 64 of 65 dispatches,
// as the weights say, also when it is thousands of tasks that wait in lanes.
func TestOwnFloodOfLowPriority(t *testing.T) {
	for name, lanes := range whoseLanes {
		t.Run(name, func(t *testing.T) {
			d := newDepot(t, sharedFleet(lanes))
			d.send(20_000, from("flood").prio(coordinator.PriorityLow))
			d.send(5_000, from("flood").prio(coordinator.PriorityCritical))
			d.until(time.Minute, func() bool { return d.urgent(0) > 0 })
			n := len(d.begun) - 1
			d.until(time.Hour, func() bool { return len(d.begun) >= n+3_000 })
			if got := d.urgent(n); got < 3_000*64/65-1 {
				t.Errorf("%d of %d dispatches were urgent, want 64 of 65", got, len(d.begun)-n)
			}
		})
	}
}

// A group's own flood that no agent can take now keeps none from what they can: 5,000 tasks
// behind 95,000 take the ten slots 500 s. Until they are seen the 95,000 must be moved, at 51,200
// in a second: 1.9 s.
func TestOwnFloodThatNobodyCanTake(t *testing.T) {
	for name, lanes := range whoseLanes {
		t.Run(name, func(t *testing.T) {
			d := newDepot(t, sharedFleet(lanes))
			d.send(95_000, from("flood").kind("gpu"))
			d.send(5_000, from("flood"))
			at := d.now
			d.until(502*time.Second, func() bool { return len(d.begun) == 5_000 })
			t.Logf("all have begun after %v", d.now.Sub(at))
		})
	}
}

// 300 groups have a lane each, of which 64 are read at once, or one for all of them, beside which
// they get their own. The next one is read next: between any two of weight 1 or more the gap is
// that of algorithms.md 1.3, 1·(100/1 + 100/1) or two tasks; and by new weights it is so from when
// they come.
//
// A broker that takes a second to begin with a lane, ten times as long as a task has its slot,
// makes a difference while it takes, and it is made up for: after 15,000 dispatches, 25 for each
// weight, the gap is no more than twice what a lane gives in one turn (a window of 1,000 / 300, so 3) and
// those two.
func TestLanesAreReadByTurns(t *testing.T) {
	var groups []string
	for i := range 300 {
		groups = append(groups, fmt.Sprintf("g%03d", i))
	}
	oneToThree := func(i, phase int) int64 { return int64(1 + (i+phase)%3) }
	oneHasHalf := func(i, _ int) int64 { return map[int]int64{0: 299}[i] + 1 }
	for _, tt := range []struct {
		name       string
		lanes      []string
		weight     func(i, phase int) int64
		begins     time.Duration
		dispatches []int // by each weights
		gap        float64
	}{
		{"lanes of their own", groups, oneToThree, brokerTakes, []int{6_000, 6_000}, 2},
		{"one lane for all", nil, oneToThree, brokerTakes, []int{6_000, 6_000}, 2},
		{"one has the weight of all others", groups, oneHasHalf, brokerTakes, []int{6_000}, 2},
		{"a slow broker", groups, oneToThree, time.Second, []int{15_000}, 2*1000/300 + 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			policy := func(phase int) *policyBuilder {
				a := worker("a").slots(100)
				a.Timeout = 240 * time.Hour
				q := quotasOf()
				for i, g := range groups {
					q.group(g, tt.weight(i, phase), nil)
				}
				return policyOf(a).quotas(q).lanes(depotWindow/2, tt.lanes...)
			}
			d := newDepot(t, policy(0))
			d.service, d.spread, d.begins = 50*time.Millisecond, 100*time.Millisecond, tt.begins
			for range 20 {
				for i, g := range groups {
					d.send(int(min(tt.weight(i, 0), 50))*3, from(g))
				}
			}
			d.until(time.Minute, func() bool { return len(d.queues[""].tasks) == 0 })
			for phase, dispatches := range tt.dispatches {
				if phase > 0 {
					next := policy(phase)
					next.Settings = d.e.Policy().Settings
					d.apply(coordinator.PolicyChanged{Policy: &next.Policy})
				}
				since := len(d.begun)
				d.until(time.Hour, func() bool { return len(d.begun) >= since+dispatches })
				least, most := 1e9, 0.0
				for i, g := range groups {
					part := float64(d.of(g, since)) / float64(tt.weight(i, phase))
					least, most = min(least, part), max(most, part)
				}
				if t.Logf("by weight, groups had %.1f to %.1f tasks", least, most); most-least > tt.gap {
					t.Errorf("want a gap of %v at most", tt.gap)
				}
			}
			engine.CheckIndexes(t, d.e)
		})
	}
}
