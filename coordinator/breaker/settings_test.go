package breaker

import (
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	want := Settings{Faults: 5, Base: 30 * time.Second, Max: 300 * time.Second, MaxShare: 0.1, PanicShare: 0.5}
	for _, s := range []Settings{{}, {Faults: -1, Base: -1, Max: -1, MaxShare: 1.5, PanicShare: -1}} {
		if got := s.withDefaults(); got != want {
			t.Errorf("%+v becomes %+v", s, got)
		}
	}
	if got := (Settings{Base: time.Hour, Max: time.Minute}).withDefaults(); got.Max != time.Hour {
		t.Errorf("at most %v, shorter than the base", got.Max)
	}
	limits := []struct {
		share float64
		n     int
		want  int
	}{{0.1, 1, 1}, {0.1, 9, 1}, {0.1, 19, 1}, {0.1, 20, 2}, {0.1, 30, 3}, {0.29, 100, 29}, {1, 7, 7}}
	for _, tt := range limits {
		if got := (&Settings{MaxShare: tt.share}).limit(tt.n); got != tt.want {
			t.Errorf("%v of %d: %d, want %d", tt.share, tt.n, got, tt.want)
		}
	}
	// 300 s is the tenth of 30 s, 100 s the fourth (90 + 10).
	for longest, want := range map[time.Duration]int{300 * time.Second: 10, 100 * time.Second: 4, 30 * time.Second: 1} {
		s := Settings{Max: longest}.withDefaults()
		if got := s.maxOpened(); got != want || s.openFor(got) != longest || s.openFor(1) != 30*time.Second {
			t.Errorf("%v at the %dth time, want the %dth", longest, got, want)
		}
	}
}
