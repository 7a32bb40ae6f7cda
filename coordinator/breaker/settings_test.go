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

func TestRamp(t *testing.T) {
	const window = 60 * time.Second
	tests := []struct {
		name       string
		slots      int
		since      time.Duration
		window     time.Duration
		aggression float64
		want       int
	}{
		{"new: a tenth, 10·0.1", 10, 0, window, 1, 1},
		{"a tenth of 40", 40, 0, window, 1, 4},
		{"half the window, 10·0.5", 10, 30 * time.Second, window, 1, 5},
		{"rounded down, 10·59/60 = 9.83", 10, 59 * time.Second, window, 1, 9},
		{"the whole window", 10, window, window, 1, 10},
		{"beyond it", 10, time.Hour, window, 1, 10},
		{"aggression 2: √(15/60) = 0.5", 10, 15 * time.Second, window, 2, 5},
		{"aggression 0.5: (30/60)² = 0.25", 40, 30 * time.Second, window, 0.5, 10},
		{"not positive is 1", 10, 30 * time.Second, window, -1, 5},
		{"a whole number but for the last bits, 100·0.29", 100, 29 * time.Second, 100 * time.Second, 1, 29},
		{"one slot stays", 1, 0, window, 1, 1},
		{"two begin with one", 2, 0, window, 1, 1},
		{"off", 10, 0, 0, 1, 10},
		{"an agent without slots gets none", 0, 0, window, 1, 0},
		{"a clock that went back", 10, -time.Hour, window, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Ramp(tt.slots, tt.since, tt.window, tt.aggression); got != tt.want {
				t.Errorf("%d slots, want %d", got, tt.want)
			}
		})
	}
}
