package learning

import (
	"math"
	"testing"
	"time"
)

// TestNotAfter: what was learnt by a clock that was ahead is as old as it was, and what is learnt
// by the right one counts in full.
func TestNotAfter(t *testing.T) {
	day := 24 * time.Hour
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	learn := func(ahead time.Duration) *Learner {
		l := New(Settings{HalfLife: day}, 2)
		kind := l.Type("x")
		l.Observe(now.Add(ahead-day), 0, kind, Outcome{Attribution: AgentFault})
		l.Observe(now.Add(ahead), 0, kind, Outcome{Attribution: Succeeded, Duration: time.Second})
		l.NotAfter(now)
		l.Observe(now.Add(time.Second), 0, kind, Outcome{Attribution: AgentFault})
		l.Advance(now.Add(day))
		return l
	}
	right, _, _ := learn(0).Record(0)
	for _, ahead := range []time.Duration{time.Second, day, 365 * day, 80 * 365 * day} {
		l := learn(ahead)
		if got, _, _ := l.Record(0); math.Abs(got-right) > 1e-9 {
			t.Errorf("by a clock %v ahead: succeeds with %.6f, want %.6f", ahead, got, right)
		}
		if got := l.AsOf(); !got.Equal(now.Add(day)) {
			t.Errorf("by a clock %v ahead: as of %v", ahead, got)
		}
	}
}
