package fairqueue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestParts(t *testing.T) {
	for _, c := range []struct {
		tree   string
		active string
		want   map[string]string
	}{
		// 2:2:1 of all; then of the two that are there, 2/3 and 1/3.
		{"a 2; b 2; c 1", "abc", map[string]string{"a": "0.400", "b": "0.400", "c": "0.200"}},
		{"a 2; b 2; c 1", "bc", map[string]string{"a": "0.000", "b": "0.667", "c": "0.333"}},
		// Halves of which one is divided 3:2; when b is gone all of its half is a's.
		{"X 1; Y 1; a 3 X; b 2 X", "abY", map[string]string{"a": "0.300", "b": "0.200", "Y": "0.500"}},
		{"X 1; Y 1; a 3 X; b 2 X", "aY", map[string]string{"a": "0.500", "b": "0.000", "Y": "0.500"}},
		// Without weight: nothing beside one with weight, equal parts among themselves.
		{"a 1; b 0; c 0", "abc", map[string]string{"a": "1.000", "b": "0.000", "c": "0.000"}},
		{"a 1; b 0; c 0", "bc", map[string]string{"a": "0.000", "b": "0.500", "c": "0.500"}},
		{"a 1; b 1", "", map[string]string{"a": "0.000", "b": "0.000"}},
	} {
		q := queue(t, c.tree)
		parts := q.Parts(func(leaf int) bool {
			return slices.Contains([]byte(c.active), q.Name(leaf)[0]) &&
				!q.groups[leaf].own
		})
		for name, want := range c.want {
			expect(t, fmt.Sprintf("%s, active %s: %s", c.tree, c.active, name), fmt.Sprintf("%.3f", parts[q.Leaf(name)]), want)
		}
	}
}

// Preceding is what sorting says, and Leaves counts what was pushed, whatever was pushed and
// removed.
func TestPrecedingAndLeaves(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := queue(t, "a 1; b 1")
		var all []*waiting
		for range rapid.IntRange(1, 60).Draw(rt, "items") {
			if len(all) > 0 && rapid.IntRange(0, 3).Draw(rt, "what") == 0 {
				i := rapid.IntRange(0, len(all)-1).Draw(rt, "whom")
				q.backlog.Remove(all[i].leaf, all[i].level, all[i].index)
				all = slices.Delete(all, i, i+1)
				continue
			}
			x := &waiting{group: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "group"),
				level: rapid.IntRange(0, 1).Draw(rt, "level"), arrival: rapid.IntRange(0, 1000).Draw(rt, "arrival")}
			x.leaf = q.Leaf(x.group)
			q.backlog.Push(x.leaf, x.level, x)
			all = append(all, x)
		}
		counts := map[[2]int]int{}
		for _, x := range all {
			counts[[2]int{x.leaf, x.level}]++
			ahead := 0
			for _, y := range all {
				if y.leaf == x.leaf && y.level == x.level && y.arrival < x.arrival {
					ahead++
				}
			}
			if got := q.backlog.Preceding(x.leaf, x.level, x, 1000); got != ahead {
				rt.Fatalf("%d go before it, want %d", got, ahead)
			}
			if got := q.backlog.Preceding(x.leaf, x.level, x, 3); got != min(ahead, 3) {
				rt.Fatalf("%d of at most 3 go before it, want %d", got, min(ahead, 3))
			}
		}
		q.backlog.Park(q.Leaf("b"))
		q.backlog.Leaves(func(leaf, level, n int, parked bool) {
			if key := [2]int{leaf, level}; n != counts[key] || parked != (leaf == q.Leaf("b")) {
				rt.Fatalf("%d wait at %v, parked %v; want %d", n, key, parked, counts[key])
			} else {
				delete(counts, key)
			}
		})
		if len(counts) > 0 {
			rt.Fatalf("not told of %v", counts)
		}
	})
}
