package main

import "testing"

// A small process is held to what the coordinator promises; a large one has room for garbage beside what
// is alive, so that it is not collected without end.
func TestMemoryBound(t *testing.T) {
	for _, tc := range []struct{ alive, want int64 }{
		{0, 96 << 20}, {28 << 20, 96 << 20}, {29 << 20, 98 << 20}, {100 << 20, 240 << 20}, {1 << 30, 2<<30 + 40<<20},
	} {
		if got := memoryBound(uint64(tc.alive)); got != tc.want {
			t.Errorf("%d MiB alive: %d MiB, want %d", tc.alive>>20, got>>20, tc.want>>20)
		}
	}
}
