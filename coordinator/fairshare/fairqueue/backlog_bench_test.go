package fairqueue

import (
	"fmt"
	"testing"
)

// tenants is a tree of that many groups below that many others: the products of fanouts
// are groups at each level. Weights are 1 to 7.
func tenants(t testing.TB, fanouts ...int) (s *Shares, leaves []int) {
	var nodes []Node
	last := []int{-1}
	for _, n := range fanouts {
		var level []int
		for _, parent := range last {
			for range n {
				level = append(level, len(nodes))
				nodes = append(nodes, Node{Name: fmt.Sprint("g", len(nodes)), Parent: parent, Weight: int64(len(nodes)%7 + 1)})
			}
		}
		last = level
	}
	s = NewShares()
	if err := s.Install(nodes); err != nil {
		t.Fatal(err)
	}
	for _, i := range last {
		leaves = append(leaves, s.Leaf(nodes[i].Name))
	}
	return s, leaves
}

// BenchmarkDispatch is one dispatch out of a full backlog: finding the next item, the charge, its removal,
// and what comes in its stead.
func BenchmarkDispatch(b *testing.B) { benchmarkBacklog(b, false) }

// BenchmarkDispatchAndSettle has the bill of each as well.
func BenchmarkDispatchAndSettle(b *testing.B) { benchmarkBacklog(b, true) }

func benchmarkBacklog(b *testing.B, settle bool) {
	for _, bench := range []struct {
		name         string
		fanouts      []int
		levels, each int // priorities in which each tenant waits, and with how much
	}{
		{"10,000 tenants", []int{10_000}, 1, 4},
		{"10,000 tenants, one task each", []int{10_000}, 1, 1},
		{"1,000 tenants in 3 levels", []int{10, 10, 10}, 1, 4},
		{"1,000 tenants in 3 levels, 4 priorities", []int{10, 10, 10}, 4, 4},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s, next := fullBacklog(b, bench.fanouts, bench.levels, bench.each)
			b.ReportAllocs()
			for b.Loop() {
				x := next()
				if settle {
					s.Correct(x.leaf, 500, x.cost)
				}
			}
		})
	}
}

// fullBacklog is one in which each tenant waits at that many levels with so many items;
// next dispatches the first, and pushes it again.
func fullBacklog(t testing.TB, fanouts []int, levels, each int) (s *Shares, next func() *waiting) {
	s, leaves := tenants(t, fanouts...)
	b := newWaiting(s)
	arrival := 0
	for range each {
		for _, leaf := range leaves {
			for level := range levels {
				arrival++
				b.Push(leaf, level, &waiting{arrival: arrival, leaf: leaf, level: level, cost: int64(arrival*7919%1000 + 1)})
			}
		}
	}
	return s, func() *waiting {
		head, _ := b.First(0)
		x := head.Item
		s.Served(x.level, b.Serving())
		s.Charge(x.leaf, 500)
		b.Remove(x.leaf, x.level, x.index)
		arrival++
		x.arrival = arrival
		b.Push(x.leaf, x.level, x)
		return x
	}
}

// TestBacklogAllocations: nothing is allocated in the steady state, whether leaves empty
// again and again or not.
func TestBacklogAllocations(t *testing.T) {
	for _, each := range []int{1, 3} {
		s, next := fullBacklog(t, []int{5, 5}, 2, each)
		for range 1000 {
			next()
		}
		if n := testing.AllocsPerRun(1000, func() {
			x := next()
			s.Correct(x.leaf, 500, x.cost)
		}); n != 0 {
			t.Errorf("%v allocations with %d items each", n, each)
		}
	}
}
