package agent

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A memory holds the values that were added last, within both of its bounds, and
// nothing else: it is what bounds an agent that runs for years.
func TestMemoryHoldsTheLatest(t *testing.T) {
	type value struct{ serial, size int }
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		bytes := rapid.SampledFrom([]int{0, 3 * (entryOverhead + 1 + 100)}).Draw(t, "bytes") // 3 values of 100 bytes
		m := memory[value]{limit: limit, bytes: bytes, size: func(v value) int { return v.size }}
		var keys []string // oldest first
		values := map[string]value{}
		cost := func() (n int) {
			for key, v := range values {
				n += entryOverhead + len(key) + v.size
			}
			return n
		}
		for serial, key := range rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"})).
			Draw(t, "keys") {
			keys = slices.DeleteFunc(keys, func(k string) bool { return k == key })
			delete(values, key)
			if rapid.Bool().Draw(t, "remove") {
				m.remove(key)
			} else {
				v := value{serial, rapid.SampledFrom([]int{0, 100, 1000}).Draw(t, "size")}
				m.add(key, v)
				keys, values[key] = append(keys, key), v
			}
			for len(keys) > limit || bytes > 0 && cost() > bytes {
				delete(values, keys[0])
				keys = keys[1:]
			}
			held := map[string]value{}
			for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
				if v, known := m.get(key); known {
					held[key] = v
				}
			}
			if got, want := fmt.Sprint(held), fmt.Sprint(values); got != want {
				t.Fatalf("holds %s, want %s", got, want)
			}
			if want := cost(); bytes > 0 && m.held != want || m.order.Len() != len(values) {
				t.Fatalf("counts %d bytes in %d values, want %d in %d", m.held, m.order.Len(), want, len(values))
			}
		}
	})
}
