package fairshare

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// TestLowPriorities: over 10,000 turns in which all four wait, the lower three get exactly
// their share together, and a third of it each.
func TestLowPriorities(t *testing.T) {
	for _, low := range []int64{0, 1, 7, 10, 33, 50} {
		s := NewShares()
		if err := s.Install(nil, low); err != nil {
			t.Fatal(err)
		}
		var got [Levels]int64
		for range 10_000 {
			level := s.Turn(0b1111)
			s.Served(level, 0b1111)
			got[level]++
		}
		lower := 10_000 * low / 100
		if got[3] != 10_000-lower {
			t.Errorf("%d %%: the highest has %d turns, want %d", low, got[3], 10_000-lower)
		}
		for level := range 3 {
			if n := got[level]; n != lower/3 && n != lower/3+1 {
				t.Errorf("%d %%: level %d has %d turns, want a third of %d", low, level, n, lower)
			}
		}
	}
}

func TestTurns(t *testing.T) {
	s := NewShares()
	if err := s.Install(nil, 25); err != nil {
		t.Fatal(err)
	}
	turn := func(waiting uint8) int {
		level := s.Turn(waiting)
		s.Served(level, waiting)
		return level
	}
	if s.Turn(0) != -1 {
		t.Error("it is somebody's turn where nobody waits")
	}
	// One in four; whoever waits alone owes nobody anything, and is owed nothing.
	for i, want := range []int{3, 3, 3, 1, 3, 3, 3, 1} {
		if got := turn(0b1010); got != want {
			t.Errorf("turn %d is level %d's, want %d's", i, got, want)
		}
		if got := turn(0b0001); got != 0 {
			t.Errorf("level %d goes, and only 0 waits", got)
		}
	}
	// Level 2 begins to wait: 0 was passed over more often than it, then they alternate.
	for range 2 {
		turn(0b1001)
	}
	for i, want := range []int{3, 0, 3, 3, 3, 2, 3, 3, 3, 0} {
		if got := turn(0b1101); got != want {
			t.Errorf("turn %d is level %d's, want %d's", i, got, want)
		}
	}
	// A lower one whose turn it is but that is not served is owed one turn, and no more.
	for range 100 {
		s.Served(3, 0b1001)
	}
	for i, want := range []int{0, 3, 3, 3, 0, 3, 3, 3, 0} { // 99 + 25 − 100 = 24, and one in four again
		if got := turn(0b1001); got != want {
			t.Errorf("afterwards turn %d is level %d's, want %d's", i, got, want)
		}
	}
}

// TestEvery: while any set of levels waits, whatever was before, each of them has one turn
// of any so many as Every says.
func TestEvery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewShares()
		if err := s.Install(nil, rapid.Int64Range(0, MaxLowPercent).Draw(t, "low")); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 50).Draw(t, "before") {
			waiting := rapid.Uint8Range(1, 15).Draw(t, "waiting")
			level := rapid.IntRange(0, 3).Draw(t, "served")
			s.Served(level, waiting|1<<level) // not always whose turn it is
		}
		waiting := rapid.Uint8Range(1, 15).Draw(t, "waiting")
		var since [Levels]int64
		for range 700 {
			level := s.Turn(waiting)
			s.Served(level, waiting)
			for l := range Levels {
				if since[l]++; l == level {
					since[l] = 0
				}
				every, bounded := s.Every(l, waiting)
				if bounded != (s.turns.low > 0 || l == bits.Len8(waiting)-1) && waiting>>l&1 == 1 {
					t.Fatalf("level %d of %b: bounded is %v", l, waiting, bounded)
				}
				if waiting>>l&1 == 1 && bounded && since[l] >= every {
					t.Fatalf("level %d of %b was passed over %d times, of %d", l, waiting, since[l], every)
				}
			}
		}
	})
}
