package clock

import (
	"testing"
	"time"
)

// The time of day is set back by a minute, and later forward by an hour: the steady
// clock goes on, seven eighths as fast or nine, until it has caught up.
func TestASteadyClockDoesNotJump(t *testing.T) {
	start := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	var day time.Time
	var running time.Duration
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	day = start
	now := steady(func() time.Time { return day }, func() time.Duration { return running })
	for _, c := range []struct{ runs, day, want float64 }{
		{0, 0, 0},
		{10, 10, 10},
		{10, -50, 10},               // set back by 60 s, and no time has passed
		{18, -42, 17},               // 8 s later: 8 − 1
		{26, -34, 24},               // and again
		{74, 14, 66},                // 48 s later: 48 − 6; 52 s ahead
		{490, 430, 430},             // 416 s later: 416 − 52, caught up
		{491, 431, 431},             //
		{491, 4031, 431},            // set forward by 3,600 s
		{499, 4039, 440},            // 8 s later: 8 + 1
		{579, 4119, 530},            // 80 s later: 80 + 10
		{29291, 32831, 32831},       // 28,712 s later: + 3,589, as many as were left
		{29292, 32832.5, 32832.125}, // the two never run quite alike: 1 s, and at most an eighth
	} {
		running, day = seconds(c.runs), start.Add(seconds(c.day))
		if got := now(); !got.Equal(start.Add(seconds(c.want))) {
			t.Errorf("after %g s, when the time of day is %g s: %s, want %g s", c.runs, c.day, got.Sub(start), c.want)
		}
	}
}

// Times that are written down and read again must differ by as much as they did.
func TestASteadyClockHasNoMonotonicReading(t *testing.T) {
	now := Steady()
	for range 100 {
		if at := now(); at != at.Round(0) {
			t.Fatalf("%v has one", at)
		}
	}
}
