package balance

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func equal(t *testing.T, seed uint64) *Equal {
	t.Helper()
	e, err := NewEqual(enabled(ModeEqual), "a1", seed)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEqualClaims(t *testing.T) {
	seen := func(fair int) func(*Equal) {
		return func(e *Equal) { e.Granted(start, 0, View{Agents: 3, Capacity: 28, FairShare: fair}) }
	}
	missed := func(fair int) func(*Equal) {
		return func(e *Equal) { seen(fair)(e); e.Unanswered(start) }
	}
	tests := []struct {
		name  string
		told  func(*Equal)
		after time.Duration
		local Local
		want  int
	}{
		{"what it lacks: 28 − 12", seen(28), time.Second, Local{Pending: 12, Free: 50, Capacity: 16}, 16},
		{"all of it", seen(28), time.Second, Local{Free: 50, Capacity: 16}, 28},
		{"no more than slots", seen(28), time.Second, Local{Free: 5, Capacity: 16}, 5},
		{"no more than max-claim-items", seen(500), time.Second, Local{Free: 900, Capacity: 16}, 100},
		{"without a slot nothing", seen(28), time.Second, Local{Capacity: 16}, 0},
		{"with its part, one: only an answer brings a picture", seen(28), time.Second,
			Local{Pending: 28, Free: 50, Capacity: 16}, 1},
		{"after a miss ⌈0.5·27⌉", missed(28), time.Second, Local{Pending: 1, Free: 50, Capacity: 16}, 14},
		{"the picture is good for 30 s", missed(28), 30*time.Second - 1, Local{Free: 50, Capacity: 16}, 14},
		{"then it is blind: the first window is 1", missed(28), 30 * time.Second, Local{Free: 50, Capacity: 16}, 1},
		{"it was never told anything", func(*Equal) {}, 0, Local{Free: 50, Capacity: 16}, 1},
		{"warm-up: no more than the window", seen(28), time.Second, Local{Free: 50, Capacity: 0.5, WarmUp: true}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := equal(t, 1)
			tt.told(e)
			if got := e.Claim(start.Add(tt.after), tt.local); got != tt.want {
				t.Errorf("claims %d, want %d", got, tt.want)
			}
		})
	}
}

// TestEqualIntervals: 1 s at first; halved by a hit down to 200 ms, doubled by an empty
// poll up to 10 s, each ±10 %.
func TestEqualIntervals(t *testing.T) {
	e := equal(t, 7)
	idle := Local{Free: 10, Capacity: 16}
	about := func(name string, l Local, now time.Time, want time.Duration) {
		t.Helper()
		if got := e.Interval(now, l); got < max(want*9/10, MinInterval) || got > min(want*11/10, MaxInterval) {
			t.Errorf("%s: %v, want %v ±10 %%", name, got, want)
		}
	}
	about("at first", idle, start, time.Second)
	for _, want := range []time.Duration{500, 250, 200, 200} {
		e.Granted(start, 3, View{})
		about("a hit", idle, start, want*time.Millisecond)
	}
	for _, want := range []time.Duration{400, 800, 1600, 3200, 6400, 10_000, 10_000} {
		e.Granted(start, 0, View{})
		about("an empty poll", idle, start, want*time.Millisecond)
	}
	// 28 items at 16/s are done in 1.75 s: it asks again before it is idle.
	about("with work", Local{Pending: 28, Capacity: 16}, start, 1750*time.Millisecond)
	e.Granted(start, 1, View{})
	about("hit after rest", idle, start, 5*time.Second)
}

// TestEqualWithoutAnswers: what is known keeps the interval; once it is out of date, every
// claim without an answer doubles it.
func TestEqualWithoutAnswers(t *testing.T) {
	e := equal(t, 1)
	e.Granted(start, 1, View{}) // 500 ms
	for s := range 30 {
		e.Unanswered(start.Add(time.Duration(s) * time.Second))
		if e.interval != 500*time.Millisecond {
			t.Fatalf("after %d s %v: the picture is young enough", s, e.interval)
		}
	}
	for i, want := range []time.Duration{1000, 2000, 4000, 8000, 10_000, 10_000} {
		e.Unanswered(start.Add(30 * time.Second))
		if e.interval != want*time.Millisecond {
			t.Errorf("blind, miss %d: %v, want %v", i+1, e.interval, want*time.Millisecond)
		}
	}
}

// TestEqualWindow: blind, the window grows by one each time all of it is done: 1, 2, 3 …;
// more than 30 s of work halve it.
func TestEqualWindow(t *testing.T) {
	e := equal(t, 1)
	done := Local{Free: 50, Capacity: 2}
	for want := 1; want <= 8; want++ {
		got := e.Claim(start, done)
		if got != want {
			t.Fatalf("claims %d, want a window of %d", got, want)
		}
		e.Granted(start, got, View{})
		e.at = time.Time{} // blind again
	}
	// 8 granted and done: 9. Of 9 only 4 were there: that says nothing of the window.
	if got := e.Claim(start, done); got != 9 {
		t.Errorf("claims %d, want 9", got)
	}
	e.taken = 4
	if got := e.Claim(start, done); got != 9 {
		t.Errorf("claims %d, want still 9", got)
	}
	// 61 items at 2/s are 30.5 s: 9/2 = 4, then 2, 1, 1.
	for _, want := range []int{4, 2, 1, 1} {
		e.Claim(start, Local{Pending: 61, Free: 50, Capacity: 2})
		if e.window != want {
			t.Errorf("window %d, want %d", e.window, want)
		}
	}
}

func TestEqualSurplus(t *testing.T) {
	e := equal(t, 1)
	local := func(pending int) Local { return Local{Pending: pending, Capacity: 16} }
	if e.Surplus(start, local(99)) != 0 {
		t.Error("gives back blindly")
	}
	e.Granted(start, 0, View{FairShare: 10})
	for pending, want := range map[int]int{9: 0, 12: 0, 13: 3} { // 12 is 20 % above 10
		if got := e.Surplus(start, local(pending)); got != want {
			t.Errorf("of %d gives %d back, want %d", pending, got, want)
		}
	}
	if e.Surplus(start, Local{Pending: 99, WarmUp: true}) != 0 {
		t.Error("gives back on a guess")
	}
	e.Unanswered(start)
	if e.Surplus(start, local(99)) != 0 {
		t.Error("gives back by an old picture")
	}
}

// TestJitter: the same id and seed give the same intervals, others do not.
func TestJitter(t *testing.T) {
	a, b, c := equal(t, 1), equal(t, 1), equal(t, 2)
	same := 0
	for range 100 {
		x, y, z := a.Interval(start, Local{}), b.Interval(start, Local{}), c.Interval(start, Local{})
		if x != y {
			t.Fatalf("%v and %v with one seed", x, y)
		}
		if x == z {
			same++
		}
	}
	if same > 1 {
		t.Errorf("%d of 100 intervals are the same with another seed", same)
	}
}

// TestNever: whatever is told, an interval is within 200 ms and 10 s, a claim within the
// slots and max-claim-items, and not 0 where there is a slot.
func TestNever(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mode := rapid.SampledFrom([]string{ModeEqual, ModeLiteral, ModeLiteralShare}).Draw(rt, "mode")
		config := enabled(mode)
		config.LoadBalancing.Enabled = rapid.Bool().Draw(rt, "enabled")
		config.LoadBalancing.MaxClaimItems = rapid.IntRange(1, 100).Draw(rt, "max")
		type controller interface {
			Claim(time.Time, Local) int
			Granted(time.Time, int, View)
			Unanswered(time.Time)
			Seen(time.Time, View)
			Interval(time.Time, Local) time.Duration
		}
		var c controller
		var err error
		if mode == ModeEqual {
			c, err = NewEqual(config, "a1", rapid.Uint64().Draw(rt, "seed"))
		} else {
			c, err = NewLiteral(config)
		}
		if err != nil {
			rt.Fatal(err)
		}
		now := start
		number := rapid.IntRange(-10, 1_000_000)
		rate := rapid.SampledFrom([]float64{0, -1, 1e-300, 0.05, 16, 1e300})
		for range rapid.IntRange(1, 50).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-1000, 40_000).Draw(rt, "ms")) * time.Millisecond)
			l := Local{number.Draw(rt, "pending"), number.Draw(rt, "free"), rate.Draw(rt, "capacity"),
				rapid.Bool().Draw(rt, "warm-up")}
			n := c.Claim(now, l)
			if room := min(max(l.Free, 0), config.LoadBalancing.MaxClaimItems); n > room || n < min(room, 1) {
				rt.Fatalf("claims %d with %+v", n, l)
			}
			if rapid.Bool().Draw(rt, "answered") {
				c.Granted(now, number.Draw(rt, "granted"), View{3, number.Draw(rt, "held"), number.Draw(rt, "unclaimed"),
					rate.Draw(rt, "total"), number.Draw(rt, "fair")})
			} else {
				c.Unanswered(now)
			}
			if rapid.Bool().Draw(rt, "seen") {
				c.Seen(now, View{3, number.Draw(rt, "seen held"), number.Draw(rt, "seen unclaimed"), rate.Draw(rt, "seen total"),
					number.Draw(rt, "seen fair")})
			}
			if d := c.Interval(now, l); d < MinInterval || d > MaxInterval {
				rt.Fatalf("interval %v with %+v", d, l)
			}
		}
	})
}
