package engine

import (
	"slices"
	"testing"

	"taskbus/coordinator/engine/internal/state"
)

// TestAuditTakesTurns: of what is too much for one call, every place is looked at in a
// few.
func TestAuditTakesTurns(t *testing.T) {
	seen, next := make([]int, 10), 7
	for range 3 {
		state.InTurn(&next, 10, 4, func(i int) int { seen[i]++; return 1 })
	}
	if want := []int{1, 1, 1, 1, 1, 1, 1, 2, 2, 1}; !slices.Equal(seen, want) { // 7890 1234 5678
		t.Errorf("looked %v times, want %v", seen, want)
	}
	next = 12 // there were more the last time
	state.InTurn(&next, 3, 10, func(i int) int { seen[i] = -1; return 1 })
	if want := []int{-1, -1, -1, 1}; !slices.Equal(seen[:4], want) || next != 0 {
		t.Errorf("after some have gone: looked %v, the next is %d", seen[:4], next)
	}
	state.InTurn(&next, 0, 10, func(int) int { t.Error("looked where nothing is"); return 1 })
}
