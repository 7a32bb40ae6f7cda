package capacity

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// worked is an agent that has done items one after the other, each in that time,
// and has nothing in hand at the end; and that end.
func worked(items int, each time.Duration) (Estimator, time.Time) {
	var c Estimator
	now := start
	c.InHand(now, 1)
	for range items {
		now = now.Add(each)
		c.Done(now)
	}
	c.InHand(now, 0)
	return c, now
}

// TestCapacity shows the arithmetic of ĉ = (1 + n)/(2 + busy) with both decayed.
// Over d busy seconds the busy sum tends to (1 - 2^(-d/60))·60/ln 2 = 86.5617 s,
// and a rate of λ gives n = λ times as much for small items.
func TestCapacity(t *testing.T) {
	tests := []struct {
		name      string
		items     int
		each      time.Duration
		want      float64
		tolerance float64
	}{
		{"nothing: the default", 0, time.Second, 0.5, 0},
		// k = 2^(-2/60) = 0.977160; busy (1-k)·86.5617 = 1.977072; (1+1)/(2+1.977072).
		{"one item in two seconds", 1, 2 * time.Second, 0.502882, 1e-6},
		// n = 16·86.56 = 1385: 1386/88.56 = 15.65, 2 % below 16 for the prior's sake.
		{"BALANCING's 16 a second", 16 * 600, time.Second / 16, 15.65, 0.05},
		{"8", 8 * 600, time.Second / 8, 7.83, 0.05},
		{"4", 4 * 600, time.Second / 4, 3.92, 0.05},
		// An LLM agent: 20 s for each, decayed sum 1/(1 - 2^(-20/60)) = 4.847: 5.847/88.56.
		{"one in 20 s", 50, 20 * time.Second, 0.0660, 1e-3},
		{"at once", 1000, 0, 1001. / 2, 1e-6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, now := worked(tt.items, tt.each)
			if got := c.Estimate(now); math.Abs(got-tt.want) > tt.tolerance {
				t.Errorf("ĉ %.6f, want %.6f", got, tt.want)
			}
		})
	}
}

// TestConcurrencyAddsUp: four at a time, two seconds each, are two a second, for
// time counts once.
func TestConcurrencyAddsUp(t *testing.T) {
	var c Estimator
	now := start
	c.InHand(now, 4)
	for range 300 {
		now = now.Add(2 * time.Second)
		for k := range 4 {
			c.Done(now)
			c.InHand(now, 3-k)
		}
		c.InHand(now, 4)
	}
	if got := c.Estimate(now); math.Abs(got-2) > 0.05 {
		t.Errorf("ĉ %.3f, want 2", got)
	}
}

// TestIdleTime: it neither teaches nor forgets; time with an item in hand does.
func TestIdleTime(t *testing.T) {
	c, now := worked(600, time.Second/4)
	before := c.Estimate(now)
	now = now.Add(24 * time.Hour)
	if got := c.Estimate(now); got != before {
		t.Errorf("after a day of rest %v, before %v", got, before)
	}
	c.InHand(now, 1)
	now = now.Add(2 * time.Minute)
	// Two half-lives without an item: both sums lose three quarters, and busy gains as many.
	if got := c.Estimate(now); got > before/3 || got > c.Estimate(now.Add(-time.Minute)) {
		t.Errorf("after two minutes over one item still %v, before %v", got, before)
	}
	if c.InHand(now.Add(-time.Hour), 0); c.Estimate(now) <= 0 {
		t.Error("a clock that goes back breaks it")
	}
}

func TestWarmUp(t *testing.T) {
	for items, want := range map[int]bool{0: true, 59: true, 60: false, 1000: false} {
		if c, _ := worked(items, 10*time.Minute); c.WarmUp() != want { // decay does not matter
			t.Errorf("after %d items: %v", items, c.WarmUp())
		}
	}
}

// TestWindow: with a window of 1, one item ends the warm-up, and after a second in hand
// both sums weigh half: two items at once, then one second for one more. Items
// 2/2 + 1 = 2, busy (1 − 1/2)/ln 2 = 0.7213: (1+2)/(2+0.7213).
func TestWindow(t *testing.T) {
	c := New(1)
	c.InHand(start, 3)
	c.Done(start)
	c.Done(start)
	now := start.Add(time.Second)
	c.Done(now)
	if got, want := c.Estimate(now), 3/(2+0.5/math.Ln2); math.Abs(got-want) > 1e-12 || c.WarmUp() {
		t.Errorf("ĉ %v, want %v; warming up: %v", got, want, c.WarmUp())
	}
	if c, d := New(0), New(1); c != d {
		t.Errorf("%+v, want %+v: there is no window of nothing", c, d)
	}
}

// TestUnevenWork: items of 10 and 190 ms in turn are 10/s. The mean of the rates
// is (100 + 5.26)/2 = 52.6.
func TestUnevenWork(t *testing.T) {
	var c Estimator
	now := start
	c.InHand(now, 1)
	for i := range 6000 {
		now = now.Add(time.Duration(10+180*(i%2)) * time.Millisecond)
		c.Done(now)
	}
	if got := c.Estimate(now); math.Abs(got-10) > 0.3 {
		t.Errorf("%v, want 10", got)
	}
}

func TestState(t *testing.T) {
	c, now := worked(100, time.Second)
	restored := c.State(now).Estimator()
	if restored.Estimate(now) != c.Estimate(now) || restored.WarmUp() {
		t.Errorf("%+v became %+v", c, restored)
	}
	for _, s := range []State{{Items: -1}, {BusySeconds: math.NaN()}, {Samples: -1}, {Items: math.Inf(1)}} {
		if got := s.Estimator(); got != (Estimator{}) {
			t.Errorf("%+v is taken for %+v", s, got)
		}
	}
}

// TestTheSameHoweverTimeIsCut: asking and telling in between changes
// nothing.
func TestTheSameHoweverTimeIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole, cut Estimator
		now := start
		whole.InHand(now, 1)
		cut.InHand(now, 1)
		for range rapid.IntRange(0, 20).Draw(t, "items") {
			for range rapid.IntRange(0, 4).Draw(t, "looks") {
				now = now.Add(time.Duration(rapid.IntRange(0, 30_000).Draw(t, "ms")) * time.Millisecond)
				cut.InHand(now, 2)
				cut.Estimate(now)
			}
			whole.Done(now)
			cut.Done(now)
		}
		if a, b := whole.Estimate(now), cut.Estimate(now); math.Abs(a-b) > 1e-9*a || !(a > 0) {
			t.Fatalf("%v in one piece, %v in many", a, b)
		}
	})
}
