package main

import (
	"testing"
	"time"
)

// Each is due within its own pace, not all at the same moment of it, and always the same
// ones: runs are compared.
func TestByChance(t *testing.T) {
	const first, n, pace = 40, 100, 10 * time.Millisecond
	due, again := byChance(first, n, pace), byChance(first, n, pace)
	begin := due(first).Truncate(0)
	moments := make(map[time.Duration]bool)
	for i := first; i < first+n; i++ {
		if i > first && !due(i).After(due(i-1)) {
			t.Fatalf("task %d is due %v after the one before it", i, due(i).Sub(due(i-1)))
		}
		// n paces apart at most, less what the first came late in its own and the last early.
		if since := due(i).Sub(begin); since < time.Duration(i-first-1)*pace || since > time.Duration(i-first+1)*pace {
			t.Fatalf("task %d is due %v after the first", i, since)
		}
		moments[due(i).Sub(begin)%pace] = true
		if d := again(i).Sub(again(first)) - due(i).Sub(due(first)); d != 0 {
			t.Fatalf("task %d is due %v later another time", i, d)
		}
	}
	if len(moments) < n/2 {
		t.Errorf("%d different moments of %d", len(moments), n)
	}
}
