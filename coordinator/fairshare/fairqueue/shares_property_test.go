package fairqueue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// randomTree draws groups of which up to depth lie in each other.
func randomTree(t *rapid.T, depth, most int, weights *rapid.Generator[int64]) (nodes []Node) {
	depths := []int{}
	for i := range rapid.IntRange(1, most).Draw(t, "groups") {
		parent := rapid.IntRange(-1, i-1).Draw(t, "parent")
		if parent >= 0 && depths[parent] >= depth {
			parent = -1
		}
		d := 1
		if parent >= 0 {
			d = depths[parent] + 1
		}
		depths = append(depths, d)
		nodes = append(nodes, Node{Name: fmt.Sprint("g", i), Parent: parent, Weight: weights.Draw(t, "weight")})
	}
	return nodes
}

// ways lists the groups of a leaf, up to the root, for every leaf.
func (s *Shares) ways() map[int][]int {
	all := map[int][]int{}
	for i := range s.groups {
		if s.groups[i].first == s.groups[i].end {
			for at := int32(i); at > 0; at = s.groups[at].parent {
				all[i] = append(all[i], int(at))
			}
		}
	}
	return all
}

// TestFairnessTheorem: between any two siblings that wait all the time, anywhere in any
// tree, after every dispatch,
//
//	|W_i/w_i − W_j/w_j| ≤ K_i·c_i/w_i + K_j·c_j/w_j
//
// where W is what was dispatched, at what it cost in the end, c the most that one call cost
// or was estimated, and K how many were open at a time, the one that is dispatched included;
// however wrong estimates are, and in whichever order they are put right.
func TestFairnessTheorem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewShares()
		s.DebtCap, s.LagCap = costBound, costBound
		if err := s.Install(randomTree(t, 3, 8, rapid.Int64Range(1, 50))); err != nil {
			t.Fatal(err)
		}
		b := newWaiting(s)
		type group struct{ served, dearest, open, mostOpen int64 }
		groups := make([]group, s.Leaves())
		ways := s.ways()
		arrival := 0
		push := func(leaf int) {
			arrival++
			b.Push(leaf, 0, &waiting{arrival: arrival, leaf: leaf})
		}
		for leaf := range groups {
			if len(ways[leaf]) > 0 {
				push(leaf)
				push(leaf)
			}
		}
		type call struct {
			leaf              int
			estimated, actual int64
		}
		var calls []call
		dearest := rapid.SampledFrom([]int64{1, 10, 1000}).Draw(t, "dearest")
		most := rapid.IntRange(0, 20).Draw(t, "open")
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 200 {
			for most > 0 && len(calls) > 0 && dice.IntN(4) == 0 || len(calls) > most {
				i := dice.IntN(len(calls))
				c := calls[i]
				calls = slices.Delete(calls, i, i+1)
				s.Correct(c.leaf, c.estimated, c.actual)
				for _, at := range ways[c.leaf] {
					groups[at].open--
				}
			}
			head, _ := b.First(0)
			c := call{head.Leaf, dice.Int64N(dearest) + 1, dice.Int64N(dearest) + 1}
			s.Charge(c.leaf, c.estimated)
			b.Remove(c.leaf, 0, head.Item.index)
			push(c.leaf)
			calls = append(calls, c)
			for _, at := range ways[c.leaf] {
				g := &groups[at]
				g.served += c.actual
				g.dearest = max(g.dearest, c.actual, c.estimated)
				g.open++
				g.mostOpen = max(g.mostOpen, g.open)
			}
			for _, i := range ways[c.leaf] {
				parent := s.groups[s.groups[i].parent]
				for j := int(parent.first); j < int(parent.end); j++ {
					// Multiplied by both weights.
					x, y, wx, wy := groups[i], groups[j], s.groups[i].weight, s.groups[j].weight
					gap := x.served*wy - y.served*wx
					if bound := x.mostOpen*x.dearest*wy + y.mostOpen*y.dearest*wx; max(gap, -gap) > bound {
						t.Fatalf("%s has %+v at weight %d, %s %+v at %d: a gap of %d beyond %d", s.Name(i), x, wx, s.Name(j), y, wy, gap,
							bound)
					}
				}
			}
		}
	})
}

// maxMin divides capacity by weights among demands by filling up from below: a demand below its part gets
// what it needs, and the others divide the rest. (The oracle:
// it knows nothing of time.)
func maxMin(capacity float64, weights, demands []float64) []float64 {
	got := make([]float64, len(weights))
	full := make([]bool, len(weights))
	for {
		rest, sum := capacity, 0.0
		for i := range weights {
			if full[i] {
				rest -= got[i]
			} else {
				sum += weights[i]
			}
		}
		again := false
		for i := range weights {
			if !full[i] {
				if got[i] = rest * weights[i] / sum; got[i] >= demands[i] {
					got[i], full[i], again = demands[i], true, true
				}
			}
		}
		if !again {
			return got
		}
	}
}

// TestSharesConvergeToMaxMin: with constant demands, on any tree, every leaf gets what
// weighted max-min gives it, but for what does not grow with time.
//
// How much that is: a group whose demand is less than its part has, whenever something of it
// waits, been served since it began to no less than its part, less c for itself and each
// sibling (the bound above) and what its parent lacks for the same reason; so never more of
// it waits than what arrives at once and (n+1)·c for each level. A leaf that gets the rest lacks
// or has what others have or lack, all leaves' together.
func TestSharesConvergeToMaxMin(t *testing.T) {
	const ticks, capacity = 1000, 100
	rapid.Check(t, func(t *rapid.T) {
		s := NewShares()
		if err := s.Install(randomTree(t, 3, 6, rapid.Int64Range(1, 9))); err != nil {
			t.Fatal(err)
		}
		b := newWaiting(s)
		ways := s.ways()
		demands := make([]float64, s.Leaves()) // for a tick, of inner groups their leaves'
		dearest := make([]int64, s.Leaves())
		for leaf := range demands {
			if way := ways[leaf]; len(way) > 0 {
				dearest[leaf] = rapid.Int64Range(1, 5).Draw(t, "cost")
				n := rapid.SampledFrom([]int64{0, 1, 5, 20, 60}).Draw(t, "arrivals")
				for _, at := range way {
					demands[at] += float64(n * dearest[leaf])
				}
			}
		}
		served := make([]float64, s.Leaves())
		arrival, budget := 0, int64(0)
		for range ticks {
			for leaf := range demands {
				if dearest[leaf] > 0 {
					// A tick's more than can ever be served need not pile up.
					for n := int64(demands[leaf]) / dearest[leaf]; n > 0 && held(b, leaf) < 4*capacity; n-- {
						arrival++
						b.Push(leaf, 0, &waiting{arrival: arrival, cost: dearest[leaf]})
					}
				}
			}
			budget += capacity
			for budget > 0 {
				head, ok := b.First(0)
				if !ok {
					budget = 0
					break
				}
				s.Charge(head.Leaf, head.Item.cost)
				b.Remove(head.Leaf, 0, head.Item.index)
				budget -= head.Item.cost
				for _, at := range ways[head.Leaf] {
					served[at] += float64(head.Item.cost)
				}
			}
		}
		got := make([]float64, s.Leaves())
		got[0] = capacity
		bound, leaves := 0.0, 0.0
		for i := range s.groups {
			if g := &s.groups[i]; g.first < g.end {
				var weights []float64
				for j := g.first; j < g.end; j++ {
					weights = append(weights, float64(s.groups[j].weight))
				}
				copy(got[g.first:g.end], maxMin(got[i], weights, demands[g.first:g.end]))
				bound = max(bound, 5*float64(g.end-g.first+1)*3)
			} else {
				leaves++
			}
		}
		bound = leaves * (bound + slices.Max(demands[1:]))
		for i, want := range got {
			if i > 0 && math.Abs(served[i]-want*ticks) > min(bound, 0.05*ticks*capacity) {
				t.Errorf("%s at weight %d, of a demand of %v, has %v, want %v within %v", s.Name(i), s.groups[i].weight,
					demands[i]*ticks, served[i], want*ticks, bound)
			}
		}
	})
}
