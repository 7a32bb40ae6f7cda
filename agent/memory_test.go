package agent

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// A memory holds the latest distinct keys, up to its limit, and nothing else: it is
// what bounds an agent that runs for years.
func TestMemoryHoldsTheLatest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		m := memory[int]{limit: limit}
		var order []string // distinct keys, oldest first, as they were first added
		values := map[string]int{}
		for i, key := range rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"})).Draw(t, "keys") {
			m.add(key, i)
			if _, known := values[key]; !known {
				order = append(order, key)
			}
			values[key] = i
			if len(order) > limit {
				delete(values, order[0])
				order = order[1:]
			}
			if got, want := fmt.Sprint(m.values), fmt.Sprint(values); got != want {
				t.Fatalf("holds %s, want %s", got, want)
			}
		}
	})
}
