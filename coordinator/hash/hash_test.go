package hash

import (
	"math"
	"testing"
	"time"
)

// A tenth of the wait and a minute are never reached, and half of the chances add half of that.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		wait   time.Duration
		chance uint64
		want   time.Duration
	}{
		{0, math.MaxUint64, 0},
		{10 * time.Second, 0, 0},
		{10 * time.Second, 1 << 63, time.Second / 2},
		{10 * time.Second, math.MaxUint64, time.Second - 1},
		{time.Hour, 1 << 63, 30 * time.Second},
		{math.MaxInt64, math.MaxUint64, time.Minute - 1},
	} {
		if got := Spread(c.wait, c.chance); got != c.want {
			t.Errorf("%v by %x: %v, want %v", c.wait, c.chance, got, c.want)
		}
	}
}
