package clock

import (
	"sync"
	"time"

	"taskbus/coordinator/failpoint"
)

// Steady returns the time of day, made fit to be decided by: it never goes back and
// never jumps, and its times are what they look like, without a reading of the
// monotonic clock. Two times that carry one differ by what that clock says, which no
// journal and no recording can write down; what reads them later would find another
// difference, and decide otherwise.
//
// It runs with the monotonic clock. When the time of day is set, forwards or back, it
// follows by gaining or losing an eighth until it has caught up: an hour takes eight.
// Meanwhile no lease ends before its time by more than that, no agent turns stale at
// once, and what is stamped is wrong by what is left.
func Steady() func() time.Time {
	start := time.Now()
	return steady(func() time.Time { return time.Now().Round(0).Add(failpoint.Ahead()) },
		func() time.Duration { return time.Since(start) })
}

// Slewing is which part of the time the clock gains or loses while it is wrong.
const Slewing = 8

// steady follows a time of day by a clock that runs evenly.
func steady(day func() time.Time, running func() time.Duration) func() time.Time {
	var mu sync.Mutex
	told, ran := day(), running()
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now := running()
		elapsed := now - ran
		ran = now
		told = told.Add(elapsed)
		most := elapsed / Slewing
		told = told.Add(min(max(day().Sub(told), -most), most))
		return told
	}
}
