package fairqueue

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAhead(t *testing.T) {
	q := queue(t, "A 2; B 1; Z 0; X 1; c 3 X")
	ahead := func(group string, position int, cost, most, open int64) int64 {
		service, bounded := q.Ahead(q.Leaf(group), position, cost, most, open)
		if !bounded {
			t.Errorf("%s is not bounded", group)
		}
		return service
	}
	// Tags are 0, costs 1. The others at the top are A 2, B 1, X 1, and "other" 1.
	// B's first: each of A, X, other may have a task that is due at 0.
	expect(t, "ahead of B's first", ahead("B", 0, 1, 1, 0), 3)
	// B's second is due at 1. Till then A has 2·1, X and other 1 each, and those due at 1:
	// 1 each. With B's own: (2+1) + (1+1) + (1+1) + 1.
	expect(t, "ahead of B's second", ahead("B", 1, 1, 1, 0), 8)
	// c's second is due at 1/3 in X. Till then X's own task has 1/3, which is none yet, and
	// the one at 1/3: with c's own first, X has 2, and its tag is 2. Till then A has 4 and
	// 1, B and other 2 and 1 each: 11 more.
	expect(t, "ahead of c's second", ahead("c", 1, 1, 1, 0), 2+11)
	// B's first, with one open call of 10 each: 2·10 of them may be put to B's account, till
	// 20: A 2·20, others 20 each, for each the same 20 and the 10 that is due then.
	expect(t, "ahead of B's first, with open calls", ahead("B", 0, 1, 10, 1), 40+20+20+3*(20+10))
	// A group that has been served is not ahead. A to 100/2: B is before it, X and other may be.
	q.Charge(q.Leaf("A"), 100)
	expect(t, "ahead of B's first, after A", ahead("B", 0, 1, 1, 0), 2)
	// A's next is due at 50: the three others have 50 and a task each.
	expect(t, "ahead of A's next", ahead("A", 0, 1, 1, 0), 3*51)

	if _, bounded := q.Ahead(q.Leaf("Z"), 0, 1, 1, 0); bounded {
		t.Error("what has no weight is bounded, beside what has")
	}
	expect(t, "ahead of the last of very many", ahead("B", math.MaxInt32, math.MaxInt64, 1, 0), math.MaxInt64)
}

// TestAheadIsTheMost: whatever was before, and however many items of all groups wait, at whatever cost: no
// item starts after more than Ahead has said.
func TestAheadIsTheMost(t *testing.T) {
	tightest := 0.0
	rapid.Check(t, func(t *rapid.T) {
		s := NewShares()
		s.DebtCap = costBound
		if err := s.Install(randomTree(t, 3, 7, rapid.Int64Range(0, 9))); err != nil {
			t.Fatal(err)
		}
		b := newWaiting(s)
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		dearest := rapid.SampledFrom([]int64{1, 10, 500}).Draw(t, "dearest")
		most := rapid.IntRange(0, 5).Draw(t, "open")
		var leaves []int
		for leaf := range s.ways() {
			leaves = append(leaves, leaf)
		}
		slices.Sort(leaves)
		arrival := 0
		push := func(leaf int) {
			arrival++
			b.Push(leaf, 0, &waiting{arrival: arrival, leaf: leaf, cost: dice.Int64N(dearest) + 1})
		}
		type call struct {
			leaf              int
			estimated, actual int64
		}
		var calls []call
		dispatch := func() *waiting {
			for len(calls) > 0 && (len(calls) > most || dice.IntN(4) == 0) {
				i := dice.IntN(len(calls))
				c := calls[i]
				calls = slices.Delete(calls, i, i+1)
				s.Correct(c.leaf, c.estimated, c.actual)
			}
			head, ok := b.First(0)
			if !ok {
				return nil
			}
			x := head.Item
			c := call{x.leaf, x.cost, x.cost}
			if most > 0 {
				c.estimated = dice.Int64N(dearest) + 1
			}
			s.Charge(c.leaf, c.estimated)
			b.Remove(x.leaf, 0, x.index)
			calls = append(calls, c)
			return x
		}
		for range dice.IntN(100) { // some come and go
			if dice.IntN(3) > 0 {
				push(leaves[dice.IntN(len(leaves))])
			} else {
				dispatch()
			}
		}
		leaf := leaves[dice.IntN(len(leaves))]
		position := held(b, leaf) + dice.IntN(4)
		for held(b, leaf) <= position {
			push(leaf)
		}
		last := arrival // of that leaf
		service, bounded := s.Ahead(leaf, position, dearest, dearest, int64(most))
		if !bounded {
			return
		}
		for dispatched := int64(0); ; {
			for _, other := range leaves {
				if held(b, other) < 2 {
					push(other)
				}
			}
			x := dispatch()
			if x.arrival == last {
				tightest = max(tightest, float64(dispatched)/float64(max(service, 1)))
				break
			}
			if dispatched += x.cost; dispatched > service {
				t.Fatalf("%d was dispatched before item %d of %s, more than %d", dispatched, position, s.Name(leaf), service)
			}
		}
	})
	t.Logf("at the most %.0f %% of the bound were used", 100*tightest)
	if tightest < 0.9 {
		t.Errorf("the bound is never come near to: %v", tightest)
	}
}
