package dedupe

import (
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// TestIndex holds the index against a map over random putting and dropping, with
// keys of which many belong into the same few slots, at numbers around those at which
// places begin anew, and so many that tables grow and shrink.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.SampledFrom([]uint64{0, 1<<31 - 40, 1<<32 - 40, 1<<33 - 1}).Draw(t, "begin")
		in := blocks{first: begin, next: begin}
		var x index
		naive := make(map[coordinator.TaskKey]uint64)
		firsts := rapid.SampledFrom([]uint64{
			0, 1, 1<<32 - 1, 1<<32 - 2, 1 << 31, // the first slots, the last and one between
			1 << 32, 1<<33 - 1, // the same tags in other keys
			1 << 63, 1<<63 | 1, // other tables
		})
		keys := rapid.Custom(func(t *rapid.T) coordinator.TaskKey {
			return coordinator.TaskKey{firsts.Draw(t, "first"), uint64(rapid.IntRange(0, 7).Draw(t, "second"))}
		})
		put := func(key coordinator.TaskKey) {
			number, known := naive[key]
			if !known {
				number = in.add()
				in.at(number).Key = key
				naive[key] = number
			}
			x.put(&in, &key, number)
		}
		drop := func(key coordinator.TaskKey) {
			x.drop(&in, &key)
			delete(naive, key)
		}
		t.Repeat(map[string]func(*rapid.T){
			"put":  func(t *rapid.T) { put(keys.Draw(t, "key")) },
			"drop": func(t *rapid.T) { drop(keys.Draw(t, "key")) },
			"move": func(t *rapid.T) { // to a record that is newer
				key := keys.Draw(t, "key")
				if _, known := naive[key]; known {
					number := in.add()
					in.at(number).Key = key
					x.put(&in, &key, number)
					naive[key] = number
				}
			},
			"put many": func(t *rapid.T) {
				for first := uint64(0); first < 1<<32; first += 1 << 26 { // 64 spread over one table
					put(coordinator.TaskKey{first, 9})
				}
			},
			"drop many": func(t *rapid.T) {
				for first := uint64(0); first < 1<<32; first += 1 << 26 {
					drop(coordinator.TaskKey{first, 9})
				}
			},
			"": func(t *rapid.T) {
				if x.used != len(naive) {
					t.Fatalf("%d are in use, want %d", x.used, len(naive))
				}
				for key, number := range naive {
					if got, ok := x.find(&in, &key); !ok || got != number {
						t.Fatalf("%v is at %d, %v; want %d", key, got, ok, number)
					}
				}
				key := keys.Draw(t, "other")
				_, known := naive[key]
				for range 2 { // looked for, and remembered where
					if _, ok := x.find(&in, &key); ok != known {
						t.Fatalf("%v is found: %v, want %v", key, ok, known)
					}
				}
				for i := range x.tables {
					table := &x.tables[i]
					if n := len(table.slots); 3*table.used > 2*n || n > fewestSlots && 12*table.used < 5*n {
						t.Fatalf("table %d has %d slots for %d", i, n, table.used)
					}
				}
			},
		})
	})
}

// TestIndexGrowsInSteps: the most that one id can cost is to make its table anew, of
// which there are 64, and ids are in them evenly.
func TestIndexGrowsInSteps(t *testing.T) {
	var in blocks
	var x index
	most := 0
	for i := range 250_000 {
		key := keyNo(i)
		number := in.add()
		in.at(number).Key = key
		slots := len(x.table(&key).slots)
		x.put(&in, &key, number)
		if own := x.table(&key); len(own.slots) != slots {
			most = max(most, own.used)
		}
	}
	// 250,000 / 64 = 3,906, and a little for chance: its standard deviation is 62.
	if most == 0 || most > 4220 {
		t.Errorf("one id has made %d move, want some and 4,220 at most", most)
	}
}
