package balance

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

func TestHealthOf(t *testing.T) {
	tests := []struct {
		pending  int
		capacity float64
		want     coordinator.Health
	}{
		{0, 16, coordinator.Healthy},
		{80, 4, coordinator.Healthy},            // 20 s; BALANCING's diagram calls it overloaded
		{20, 8, coordinator.Healthy},            // 2.5 s; BALANCING's diagram calls it busy
		{119, 4, coordinator.Healthy},           // 29.75 s
		{120, 4, coordinator.BusyHealth},        // 30 s
		{239, 4, coordinator.BusyHealth},        // 59.75 s
		{240, 4, coordinator.OverloadedHealth},  // 60 s
		{15, 0, coordinator.BusyHealth},         // 30 s at the default 0.5
		{1, 0.05, coordinator.Healthy},          // 20 s
		{3, 0.05, coordinator.OverloadedHealth}, // 60 s; a floor of 1.0 would hide it
		{1, math.NaN(), coordinator.Healthy},
		{math.MaxInt, 1e-300, coordinator.OverloadedHealth},
		{-5, 1, coordinator.Healthy},
	}
	for _, tt := range tests {
		if got := HealthOf(tt.pending, tt.capacity); got != tt.want {
			t.Errorf("%d at %v/s: %v, want %v", tt.pending, tt.capacity, got, tt.want)
		}
	}
}

func TestPresenceOf(t *testing.T) {
	for silence, want := range map[time.Duration]Presence{
		0: Alive, 30*time.Second - 1: Alive, 30 * time.Second: Suspect, 90*time.Second - 1: Suspect, 90 * time.Second: Dead, time.Hour: Dead,
	} {
		if got := PresenceOf(silence); got != want {
			t.Errorf("%v: %v, want %v", silence, got, want)
		}
	}
}

// worked has done items one after the other.
func worked(t *testing.T, items int, each time.Duration) (*Estimator, time.Time) {
	t.Helper()
	e, err := NewEstimator(Config{})
	if err != nil {
		t.Fatal(err)
	}
	now := start
	e.InHand(now, 1)
	for range items {
		now = now.Add(each)
		e.Done(now)
	}
	e.InHand(now, 0)
	return e, now
}

// TestCapacity: ĉ = (1 + n)/(2 + busy), both decayed. Over d busy seconds the busy sum
// tends to (1 − 2^(−d/60))·60/ln 2 = 86.56 s.
func TestCapacity(t *testing.T) {
	tests := []struct {
		name            string
		items           int
		each            time.Duration
		want, tolerance float64
	}{
		{"nothing: the default", 0, 0, 0.5, 0},
		// busy (1 − 2^(−2/60))·86.56 = 1.977: 2/3.977.
		{"one item in two seconds", 1, 2 * time.Second, 0.50288, 1e-4},
		// n = 16·86.56 = 1385: 1386/88.56 = 15.65.
		{"16 a second", 16 * 600, time.Second / 16, 15.65, 0.05},
		// 1/(1 − 2^(−20/60)) = 4.847 items: 5.847/88.56.
		{"a language model, one in 20 s", 50, 20 * time.Second, 0.0660, 1e-3},
		// BALANCING's 1000/0 ms is endless.
		{"at once", 1000, 0, 1001. / 2, 1e-6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, now := worked(t, tt.items, tt.each)
			if got := e.Capacity(now); math.Abs(got-tt.want) > tt.tolerance {
				t.Errorf("%v, want %v", got, tt.want)
			}
			if got := e.Capacity(now.Add(time.Hour)); got != e.Capacity(now) {
				t.Errorf("an hour of rest makes it %v", got)
			}
		})
	}
}

func TestWarmUp(t *testing.T) {
	for items, want := range map[int]bool{0: true, 59: true, 60: false, 500: false} {
		if e, _ := worked(t, items, time.Hour); e.WarmUp() != want {
			t.Errorf("after %d items: %v", items, !want)
		}
	}
}

// TestCapacityOfUnevenWork: items of 10 and 190 ms in turn are 10/s. The mean of the rates
// is (100 + 5.26)/2 = 52.6.
func TestCapacityOfUnevenWork(t *testing.T) {
	e, now := worked(t, 0, 0)
	e.InHand(now, 1)
	for i := range 6000 {
		now = now.Add(time.Duration(10+180*(i%2)) * time.Millisecond)
		e.Done(now)
	}
	if got := e.Capacity(now); math.Abs(got-10) > 0.3 {
		t.Errorf("%v, want 10", got)
	}
}

func TestCapacityIsTheSameHoweverTimeIsCut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		whole, now := worked(t, 100, time.Second)
		cut, _ := worked(t, 100, time.Second)
		whole.InHand(now, 2)
		cut.InHand(now, 2)
		for range rapid.IntRange(1, 20).Draw(rt, "cuts") {
			now = now.Add(time.Duration(rapid.IntRange(-1000, 60_000).Draw(rt, "ms")) * time.Millisecond)
			cut.Capacity(now)
			cut.InHand(now, 1)
		}
		now = now.Add(time.Hour)
		if a, b := whole.Capacity(now), cut.Capacity(now); math.Abs(a-b) > 1e-9*a || !(a > 0) {
			rt.Fatalf("in one piece %v, in many %v", a, b)
		}
	})
}
