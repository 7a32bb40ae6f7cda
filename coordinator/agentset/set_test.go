package agentset

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A set does what a list of members does, in fleets of one word and of several.
func TestSetIsItsMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 63, 64, 65, 200}).Draw(t, "agents")
		draw := func(name string) (s Set, has []bool) {
			s, has = New(n), make([]bool, n)
			for _, i := range rapid.SliceOf(rapid.IntRange(0, n-1)).Draw(t, name) {
				has[i] = !has[i]
				s.Put(i, has[i])
			}
			return s, has
		}
		a, inA := draw("a")
		b, inB := draw("b")
		c, inC := draw("c")
		var members, union, kept []int
		common, without, first := 0, 0, -1
		for i := range n {
			if a.Has(i) != inA[i] {
				t.Fatalf("agent %d is in %v: %v", i, a, a.Has(i))
			}
			if inA[i] {
				members = append(members, i)
			}
			if inA[i] || inB[i] {
				union = append(union, i)
			}
			if inA[i] && inB[i] {
				if kept = append(kept, i); first < 0 {
					first = i
				}
				if common++; !inC[i] {
					without++
				}
			}
		}
		if !slices.Equal(listed(a), members) || a.Len() != len(members) || a.Empty() != (len(members) == 0) {
			t.Fatalf("%v has %v, want %v", a, listed(a), members)
		}
		if a.Common(b) != common || a.Without(b, c) != without || a.First(b) != first {
			t.Fatalf("%d common, %d without c, first %d; want %d, %d, %d",
				a.Common(b), a.Without(b, c), a.First(b), common, without, first)
		}
		all, some := slices.Clone(a), slices.Clone(a)
		if all.Unite(b); !slices.Equal(listed(all), union) {
			t.Fatalf("united %v, want %v", listed(all), union)
		}
		if some.Keep(b); !slices.Equal(listed(some), kept) {
			t.Fatalf("kept %v, want %v", listed(some), kept)
		}
		if some.Keep(nil); !some.Empty() {
			t.Fatalf("kept %v of none", listed(some))
		}
	})
}

func listed(s Set) (members []int) {
	s.Each(func(i int) { members = append(members, i) })
	return members
}
