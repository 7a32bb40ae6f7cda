package engine

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIDIndex holds the index against a map over random putting and dropping, with
// keys of which many belong into the same few slots.
func TestIDIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 16
		ring := make([]record, size)
		x, naive := newIDIndex(size), make(map[idKey]uint32)
		free := make([]uint32, size)
		for i := range free {
			free[i] = uint32(i)
		}
		keys := rapid.Custom(func(t *rapid.T) idKey {
			// Tags with equal low bits, equal tags, and keys that differ in the second half.
			return idKey{rapid.SampledFrom([]uint64{0, 1, 31, 32, 33, 63, 1 << 32, 1<<32 | 31}).Draw(t, "first"), uint64(rapid.IntRange(0, 3).Draw(t, "second"))}
		})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				place, known := naive[key]
				if !known {
					if len(free) == 0 {
						t.Skip("the ring is full")
					}
					place, free = free[0], free[1:]
				}
				ring[place].key = key
				naive[key] = place
				x.put(ring, key, place)
			},
			"drop": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				x.drop(ring, key)
				if place, known := naive[key]; known {
					free = append(free, place)
					delete(naive, key)
				}
			},
			"": func(t *rapid.T) {
				if x.used != len(naive) {
					t.Fatalf("%d are in use, want %d", x.used, len(naive))
				}
				for key, place := range naive {
					if got, ok := x.find(ring, key); !ok || got != place {
						t.Fatalf("%v is at %d, %v; want %d", key, got, ok, place)
					}
				}
				key := keys.Draw(t, "other")
				_, known := naive[key]
				if _, ok := x.find(ring, key); ok != known {
					t.Fatalf("%v is found: %v, want %v", key, ok, known)
				}
			},
		})
	})
}
