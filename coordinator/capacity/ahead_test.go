package capacity

import (
	"testing"
	"time"
)

// TestNotAfter: time that was told by a clock which was ahead does not stand still until the right
// one has caught up: ten items in 100 s are (1 + 10)/(2 + 100) or so a second, not (1 + 10)/2.
func TestNotAfter(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	e := New(1_000_000) // nothing is forgotten
	e.InHand(now.AddDate(1, 0, 0), 1)
	e.NotAfter(now)
	for range 10 {
		now = now.Add(10 * time.Second)
		e.Done(now)
	}
	if got, want := e.Estimate(now), 11.0/102; got < want-0.001 || got > want+0.001 {
		t.Errorf("%.3f items a second, want %.3f", got, want)
	}
	before := e
	if e.NotAfter(now); e != before { // it is not later
		t.Error("it has changed although no time was ahead")
	}
}
