package relay

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

func TestTimesAreBounded(t *testing.T) {
	var times times
	at := time.Unix(1000, 0)
	for i := range 3 * maxTimes {
		at = at.Add(2 * time.Millisecond)
		if wait := times.admit(coordinator.AgentID(strings.Repeat("a", i%100)+string(rune('a'+i%26))+time.Duration(i).
			String()), at); wait != 0 {
			t.Fatalf("agent %d has to wait %v", i, wait)
		}
	}
	if n := len(times.last); n > maxTimes { // of the last second, 500 are kept
		t.Errorf("%d times are remembered", n)
	}
	times.admit("x", at)
	if wait := times.admit("x", at.Add(-time.Hour)); wait != 0 {
		t.Errorf("after the clock was set back an agent has to wait %v", wait)
	}
}
