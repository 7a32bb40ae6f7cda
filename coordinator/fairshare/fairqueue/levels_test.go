package fairqueue

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// ordered is what takes turns by these weights, from low to critical.
func ordered(o coordinator.PriorityOrder) *Shares {
	s := NewShares()
	s.Order(o)
	return s
}

// next serves whichever level has its turn.
func (s *Shares) next(waiting uint8) int {
	level := s.Turn(waiting)
	s.Served(level, waiting)
	return level
}

// TestPrioritiesHaveTheirWeight: of 8,500 dispatches for which all four compete they have 64, 16, 4 and 1
// of every 85; of those for which fewer compete what their weights say among these.
func TestPrioritiesHaveTheirWeight(t *testing.T) {
	tests := []struct {
		waiting    uint8
		dispatches int
		want       [Levels]int // low, normal, high, critical
	}{
		{0b1111, 8500, [Levels]int{100, 400, 1600, 6400}},
		{0b1001, 6500, [Levels]int{100, 0, 0, 6400}},
		{0b0110, 500, [Levels]int{0, 100, 400, 0}},
		{0b0010, 7, [Levels]int{0, 7, 0, 0}},
	}
	for _, tt := range tests {
		s, got := ordered(coordinator.PriorityOrder{}), [Levels]int{}
		for range tt.dispatches {
			got[s.next(tt.waiting)]++
		}
		for level, n := range got { // the last round may be a dispatch off: parts of 1/85 are rounded
			if d := n - tt.want[level]; d < -1 || d > 1 {
				t.Errorf("%04b: level %d has %d of %d dispatches, want %d", tt.waiting, level, n, tt.dispatches, tt.want[level])
			}
		}
	}
}

// TestPriorityTurns: a dispatch at a time.
func TestPriorityTurns(t *testing.T) {
	s := ordered(coordinator.PriorityOrder{Weights: [Levels]int64{1, 1, 1, 3}})
	if s.Turn(0) != -1 {
		t.Error("a level has its turn where nothing waits")
	}
	// critical earns 3/4 of each dispatch, low 1/4: they have 0, 0; then -1/4, 1/4 (critical paid for both);
	// then -1/2, 1/2, and with what they earn of the third 1/4 and 3/4: it is low's.
	for i, want := range []int{3, 3, 0, 3, 3, 3, 0, 3} {
		if got := s.next(0b1001); got != want {
			t.Errorf("dispatch %d goes to level %d, want %d", i, got, want)
		}
	}
	// What waits alone neither earns nor pays.
	before := s.turns.credit
	for range 100 {
		if got := s.next(0b0001); got != 0 {
			t.Fatalf("level %d goes, and only 0 waits", got)
		}
	}
	// Nor does it where another was served although it was not its turn: what has the turn could not be.
	other := 3 - s.Turn(0b1001)
	if s.Served(other, 0b1001); s.turns.credit != before {
		t.Errorf("they have %v, want %v", s.turns.credit, before)
	}
}

// TestUrgentGoesAtOnce: behind any backlog of lower priorities the first critical task is next, and
// a low one has its part of a flood of critical ones from its 33rd dispatch on: it has earned
// 33/65 by then, and critical 64/65 - 32/65.
func TestUrgentGoesAtOnce(t *testing.T) {
	s := ordered(coordinator.PriorityOrder{})
	for range 1000 {
		s.next(0b0010) // nothing but normal
	}
	if got := s.next(0b1010); got != 3 {
		t.Errorf("level %d goes, want the critical one", got)
	}
	s = ordered(coordinator.PriorityOrder{})
	var low []int
	for i := range 200 {
		if s.next(0b1001) == 0 {
			low = append(low, i)
		}
	}
	if len(low) != 3 || low[0] != 32 || low[1] != 97 || low[2] != 162 { // and then every 65th
		t.Errorf("low goes at %v, want 32, 97, 162", low)
	}
}

func TestStrictOrder(t *testing.T) {
	s := ordered(coordinator.PriorityOrder{})
	s.next(0b1111)
	s.Order(coordinator.PriorityOrder{Strict: true})
	for range 1000 {
		if got := s.next(0b0111); got != 2 {
			t.Fatalf("level %d goes, want 2", got)
		}
	}
	if n, bounded := s.Within(2, 0b0111, 5); n != 5 || !bounded {
		t.Errorf("the highest has 5 of %d dispatches, %v; want of 5", n, bounded)
	}
	if _, bounded := s.Within(1, 0b0111, 5); bounded {
		t.Error("a lower one is promised some")
	}
	if s.Part(2, 0b0111) != 1 || s.Part(1, 0b0111) != 0 {
		t.Error("the highest has every dispatch")
	}
}

func drawOrder(t *rapid.T) coordinator.PriorityOrder {
	var o coordinator.PriorityOrder
	if rapid.Bool().Draw(t, "own weights") {
		for l := range o.Weights {
			o.Weights[l] = rapid.Int64Range(1, 100).Draw(t, "weight")
		}
	}
	return o
}

// TestPriorityBounds: whatever competes for which dispatch, and also when the weights change, no level has
// or owes more than 3/2 of a dispatch. So of any dispatches running for which it competes it has what its
// weight earns it, less 3 at most: also one that is low in a flood of critical ones.
func TestPriorityBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := ordered(drawOrder(t))
		sets := rapid.SliceOfN(rapid.Uint8Range(1, 15), 1, 12).Draw(t, "sets")
		for i := range rapid.IntRange(1, 600).Draw(t, "dispatches") {
			if i == 300 {
				s.Order(drawOrder(t))
			}
			waiting := sets[i%len(sets)]
			if rapid.IntRange(0, 9).Draw(t, "another") == 0 {
				waiting = rapid.Uint8Range(1, 15).Draw(t, "waiting")
			}
			s.next(waiting)
			sum := int64(0)
			for l, c := range s.turns.credit {
				if sum += c; c > maxCredit || c < -maxCredit {
					t.Fatalf("after %d dispatches level %d has %d of %d", i+1, l, c, int64(maxCredit))
				}
			}
			if sum != 0 {
				t.Fatalf("what they have adds up to %d", sum)
			}
		}
	})
}

// TestWithin: while a set of levels waits, whatever was before, each of them has n of any so many
// dispatches running as Within says. Among them is what a critical task waits for behind k others: with
// weights of 64:16:4:1 no more than k/3 + 4 dispatches of lower priorities, however many wait.
func TestWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOrder(t)
		s := ordered(o)
		for range rapid.IntRange(0, 50).Draw(t, "before") {
			s.next(rapid.Uint8Range(1, 15).Draw(t, "competing"))
		}
		waiting, n := rapid.Uint8Range(1, 15).Draw(t, "waiting"), rapid.IntRange(1, 8).Draw(t, "n")
		var turns [Levels][]int // at which dispatch each was served
		for i := range 2000 {
			l := s.next(waiting)
			turns[l] = append(turns[l], i)
		}
		for l := range Levels {
			if waiting>>l&1 == 0 {
				continue
			}
			within, bounded := s.Within(l, waiting, int64(n))
			if !bounded {
				t.Fatal("there is no bound")
			}
			last := append([]int{-1}, turns[l]...) // any n of its turns running, and what went before the first
			for i := n; i < len(last); i++ {
				if got := last[i] - last[i-n]; int64(got) > within {
					t.Fatalf("level %d of %04b has %d of %d dispatches, want of %d at most", l, waiting, n, got, within)
				}
			}
		}
		if o.Weights == [Levels]int64{} && waiting>>3 == 1 {
			for k, at := range turns[3] {
				if others := at - k; others > k/3+4 {
					t.Fatalf("%d others go before the critical task with %d critical ones before it", others, k)
				}
			}
		}
	})
}

// TestPrecedingOfPriorities counts by playing it.
func TestPrecedingOfPriorities(t *testing.T) {
	s := ordered(coordinator.PriorityOrder{})
	for name, c := range map[string]struct {
		level   int
		waiting [Levels]int
		want    int
	}{
		"alone":                               {1, [Levels]int{}, 0},
		"critical behind 4,000 normal":        {3, [Levels]int{0, 4000, 0, 0}, 0},
		"critical behind 2, and 4,000 normal": {3, [Levels]int{0, 4000, 0, 2}, 2},
		"normal behind 4,000 normal":          {1, [Levels]int{0, 4000, 0, 0}, 4000},
		"low behind 10 critical":              {0, [Levels]int{0, 0, 0, 10}, 10},
		"low behind 100 critical":             {0, [Levels]int{0, 0, 0, 100}, 32}, // see TestUrgentGoesAtOnce
		"beyond what is counted":              {0, [Levels]int{99_999, 0, 0, 0}, 10_000},
	} {
		if got := s.Preceding(c.level, c.waiting, 10_000); got != c.want {
			t.Errorf("%s: %d go before it, want %d", name, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := ordered(drawOrder(t))
		for range rapid.IntRange(0, 50).Draw(t, "before") {
			s.next(rapid.Uint8Range(1, 15).Draw(t, "competing"))
		}
		var waiting [Levels]int
		for l := range waiting {
			waiting[l] = rapid.IntRange(0, 40).Draw(t, "waiting")
		}
		level := rapid.IntRange(0, Levels-1).Draw(t, "level")
		told := s.Preceding(level, waiting, 1000)
		got, left := 0, waiting
		for ; ; got++ {
			levels := uint8(1) << level
			for l, n := range left {
				if n > 0 {
					levels |= 1 << l
				}
			}
			next := s.next(levels)
			if next == level && left[level] == 0 {
				break
			}
			left[next]--
		}
		if got != told {
			t.Fatalf("%d go before it, told were %d", got, told)
		}
	})
}

// TestPriorityCreditSurvives a restart, and what cannot be is not believed.
func TestPriorityCreditSurvives(t *testing.T) {
	s := ordered(coordinator.PriorityOrder{})
	for range 30 {
		s.next(0b1111)
	}
	heir := ordered(coordinator.PriorityOrder{})
	heir.Import(s.Export())
	if heir.turns.credit != s.turns.credit || bits.OnesCount64(uint64(s.turns.credit[0])) == 0 {
		t.Errorf("it has %v, want %v", heir.turns.credit, s.turns.credit)
	}
	for what, credit := range map[string][Levels]int64{
		"beyond the bound":     {maxCredit + 1, -maxCredit, -1, 0},
		"not adding up to 0":   {1, 0, 0, 0},
		"counts of an earlier": {0, 7, 99, 3},
	} {
		heir := NewShares()
		if heir.Import(Image{Credit: credit}); heir.turns.credit != [Levels]int64{} {
			t.Errorf("%s is taken over: %v", what, heir.turns.credit)
		}
	}
}
