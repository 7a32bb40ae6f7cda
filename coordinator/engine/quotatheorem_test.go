package engine_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// The theorems of fair shares (algorithms.md 1.3 and 1.5) with tasks: publish, dispatch, result.

// drawnTree are groups in groups, drawn; the first group is number 0, and those at the top are of
// parent -1.
type drawnTree struct {
	parent []int
	weight []int64
	leaf   []bool
}

func drawTree(t *rapid.T, most int) (tree drawnTree) {
	depth := make([]int, most)
	for i := range rapid.IntRange(2, most).Draw(t, "groups") {
		parent := rapid.IntRange(-1, i-1).Draw(t, "parent")
		if parent >= 0 && depth[parent] == 2 {
			parent = -1
		}
		if parent >= 0 {
			depth[i], tree.leaf[parent] = depth[parent]+1, false
		}
		tree.parent, tree.leaf = append(tree.parent, parent), append(tree.leaf, true)
		tree.weight = append(tree.weight, rapid.Int64Range(1, 9).Draw(t, "weight"))
	}
	return tree
}

func (tree drawnTree) quotas() *quotaTree {
	q := quotasOf()
	for i, p := range tree.parent {
		if p < 0 {
			q.group(fmt.Sprint("g", i), tree.weight[i], nil)
		} else {
			q.in(fmt.Sprint("g", p), fmt.Sprint("g", i), tree.weight[i], nil)
		}
	}
	return q
}

// way is a group and all that it is part of.
func (tree drawnTree) way(i int) (way []int) {
	for ; i >= 0; i = tree.parent[i] {
		way = append(way, i)
	}
	return way
}

// groupOf is the number of the group of that name.
func groupOf(name string) (i int) {
	_, _ = fmt.Sscanf(name, "g%d", &i)
	return i
}

// TestQuotaFairnessTheorem: between any two siblings that wait all the time, anywhere in any tree,
// after every dispatch,
//
//	|W_i/w_i − W_j/w_j| ≤ K_i·c_i/w_i + K_j·c_j/w_j
//
// where W is the cost of what was dispatched, as its results tell it, c the most that a task cost
// or was said to, and K how many were open at a time, the one that is dispatched included; however
// wrong producers are, and in whichever order results come.
func TestQuotaFairnessTheorem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree := drawTree(rt, 7)
		slots := rapid.IntRange(1, 6).Draw(rt, "slots")
		r := ready(t, patient(policyOf(worker("a").slots(slots)).quotas(tree.quotas())))
		dearest := rapid.SampledFrom([]int{1, 10, 1000}).Draw(rt, "dearest")
		usage := func() *coordinator.Usage {
			draw := func() float64 { return float64(rapid.IntRange(1, dearest).Draw(rt, "tokens")) }
			return &coordinator.Usage{InputTokens: draw(), OutputTokens: draw()}
		}
		cost := func(u *coordinator.Usage) int64 { return int64(u.InputTokens + 2*u.OutputTokens) }
		type tally struct{ served, dearest, open, most int64 }
		groups, takes := make([]tally, len(tree.parent)), make(map[coordinator.TaskID]*coordinator.Usage)
		publish := func(i int) {
			b := job(coordinator.TaskID(fmt.Sprint("t", len(takes)))).of(fmt.Sprint("g", i))
			b.EstimatedUsage = usage()
			takes[b.ID] = usage()
			r.assign(b)
		}
		// Every group waits before the first is dispatched.
		r.hear(beat("a").status(coordinator.StatusOffline))
		for i, leaf := range tree.leaf {
			if leaf {
				for range slots + 1 { // it waits on when all slots are its own at once
					publish(i)
				}
			}
		}
		r.hear(beat("a").available(slots))
		seen, open := 0, []coordinator.Dispatch(nil)
		look := func() {
			for ; seen < len(r.dispatches); seen++ {
				d := r.dispatches[seen]
				open = append(open, d)
				for _, i := range tree.way(groupOf(d.Task.Group)) {
					g := &groups[i]
					g.open++
					g.served += cost(takes[d.Task.ID])
					g.most, g.dearest = max(g.most, g.open), max(g.dearest, cost(takes[d.Task.ID]), cost(d.Task.EstimatedUsage))
				}
				for i := range groups {
					for j := range groups {
						if i == j || tree.parent[i] != tree.parent[j] {
							continue
						}
						x, y, wx, wy := groups[i], groups[j], tree.weight[i], tree.weight[j] // times both weights
						if gap, bound := x.served*wy-y.served*wx, x.most*x.dearest*wy+y.most*y.dearest*wx; gap > bound {
							rt.Fatalf("g%d has %+v at weight %d, g%d %+v at %d: a gap of %d beyond %d", i, x, wx, j, y, wy, gap, bound)
						}
					}
				}
				publish(groupOf(d.Task.Group)) // it waits on
			}
		}
		for look(); seen < 100; look() {
			k := rapid.IntRange(0, len(open)-1).Draw(rt, "which ends")
			d := open[k]
			open = append(open[:k], open[k+1:]...)
			for _, i := range tree.way(groupOf(d.Task.Group)) {
				groups[i].open--
			}
			r.confirm(d.Handle)
			b := says("a", d.Task.ID)
			b.Usage = takes[d.Task.ID]
			if r.tell(b); len(r.dispatches) != seen+1 {
				rt.Fatalf("%d follow %s", len(r.dispatches)-seen, d.DispatchID)
			}
		}
	})
}

// fill divides capacity by weights among demands by filling up from below (water-filling): one that
// needs less than its part has what it needs, and the others share the rest. It knows of no time.
func fill(capacity float64, weights, demands []float64) []float64 {
	got := make([]float64, len(weights))
	for left := make(map[int]bool); ; {
		rest, sum := capacity, 0.0
		for i := range weights {
			if left[i] {
				rest -= got[i]
			} else {
				sum += weights[i]
			}
		}
		again := false
		for i := range weights {
			if part := rest * weights[i] / sum; !left[i] {
				if got[i] = min(part, demands[i]); got[i] < part {
					left[i], again = true, true
				}
			}
		}
		if !again {
			return got
		}
	}
}

// TestQuotaConvergesToMaxMin: with constant demands, on any tree, everybody has in the end what
// weighted max-min gives it, within 5 % of all there is. One slot does 60 units of cost in a
// second, for 80 s.
func TestQuotaConvergesToMaxMin(t *testing.T) {
	const seconds, capacity = 80, 60
	rapid.Check(t, func(rt *rapid.T) {
		tree := drawTree(rt, 5)
		r := ready(t, patient(policyOf(worker("a")).quotas(tree.quotas())))
		n := len(tree.parent)
		each, cost, demand := make([]int, n), make([]float64, n), make([]float64, n) // a second's tasks, and what they cost
		for i, leaf := range tree.leaf {
			if leaf {
				each[i] = rapid.SampledFrom([]int{0, 1, 3, 10}).Draw(rt, "tasks a second")
				cost[i] = float64(rapid.IntRange(1, 3).Draw(rt, "tokens of each kind"))
				for _, up := range tree.way(i) {
					demand[up] += float64(each[i]) * 3 * cost[i] // in + 2 · out
				}
			}
		}
		served, busy := make([]float64, n), false
		work := 0.0 // that the slot can do by now
		for range seconds {
			for i := range each {
				for range each[i] {
					if r.WaitingOf(fmt.Sprint("g", i)) > 3*capacity {
						break // more than can be served need not pile up
					}
					b := job(coordinator.TaskID(fmt.Sprint("t", r.last))).of(fmt.Sprint("g", i)).tokens(cost[i], cost[i])
					busy = len(r.assign(b)) > 0 || busy
				}
			}
			for work += capacity; work > 0; {
				if !busy {
					work = 0
					break
				}
				d := r.latest()
				r.confirm(d.Handle)
				before, took := len(r.dispatches), d.Task.EstimatedUsage.InputTokens
				r.tell(says("a", d.Task.ID).used(took, took))
				busy = len(r.dispatches) > before
				work -= 3 * took
				for _, i := range tree.way(groupOf(d.Task.Group)) {
					served[i] += 3 * took
				}
			}
			r.pass(time.Second)
		}
		want := make([]float64, n)
		for parent := -1; parent < n; parent++ {
			var kids []int
			var weights, demands []float64
			for i := range tree.parent {
				if tree.parent[i] == parent {
					kids = append(kids, i)
					weights, demands = append(weights, float64(tree.weight[i])), append(demands, demand[i])
				}
			}
			whole := float64(capacity)
			if parent >= 0 {
				whole = want[parent]
			}
			for k, part := range fill(whole, weights, demands) {
				want[kids[k]] = part
			}
		}
		for i := range want {
			if math.Abs(served[i]-want[i]*seconds) > 0.05*capacity*seconds {
				rt.Errorf("g%d, weight %d, wants %v and has %v, want %v", i, tree.weight[i], demand[i]*seconds, served[i],
					want[i]*seconds)
			}
		}
	})
}
