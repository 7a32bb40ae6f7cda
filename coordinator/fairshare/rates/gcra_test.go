package rates

import (
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
)

const (
	second = int64(time.Second)
	// rateNoon is when the tests of rates begin: 2026-03-01 12:00 UTC.
	rateNoon = 1_772_366_400 * second
)

// A bucket of 10 that fills at 2/s, asked for 1 every 0.1 s. After k asks that have all
// passed it holds 10 + 0.2·k - k = 10 - 0.8·k: at least 1 for k ≤ 11, so the asks 0 to 11
// pass. Ask 12 finds 10 + 2.4 - 12 = 0.4, ask 13 finds 0.6.
func TestRateOfFourteenAsksTwelvePass(t *testing.T) {
	r := NewBucket(2, time.Second, 10)
	passed := 0
	for k := range int64(14) {
		now := rateNoon + k*second/10
		ok, after := r.Check(now, 1)
		// 0.6 are missing, then 0.4: at 2/s that takes 0.3 s, then 0.2 s.
		if want := map[int64]int64{12: second * 3 / 10, 13: second * 2 / 10}[k]; after != want || ok != (want == 0) {
			t.Errorf("ask %d: %v, again after %d, want after %d", k, ok, after, want)
		}
		if ok {
			passed++
			r.Take(now, 1)
		}
	}
	if passed != 12 {
		t.Errorf("%d passed, want 12", passed)
	}
}

func TestRateIncrement(t *testing.T) {
	const day = 24 * time.Hour
	tests := []struct {
		name         string
		amount       int64
		per          time.Duration
		cost, wantNs int64
	}{
		{"1 a day", 1, day, 1, 86_400 * second},
		{"1 a day, for a week", 1, day, 7, 7 * 86_400 * second},
		{"1e9 a second, 1", 1e9, time.Second, 1, 1},
		{"1e9 a second, an hour of them", 1e9, time.Second, 3600e9, 3600 * second},
		{"3 a second, 1: 333,333,333.3 is rounded up", 3, time.Second, 1, 333_333_334},
		{"3 a second, 3: exactly a second", 3, time.Second, 3, second},
		{"450,000 a minute, 1: 133,333.3", 450_000, time.Minute, 1, 133_334},
		{"450,000 a minute, 1000: 133,333,333.3", 450_000, time.Minute, 1000, 133_333_334},
		{"5 rps", 5, time.Second, 1, second / 5},
		{"above 1e9 a second: 0.5 ns is rounded up", 2e9, time.Second, 1, 1},
		{"but a large cost is exact", 2e9, time.Second, 2e9, second},
		// 2^62 · 6e10 has 98 bits, and divided by 2^62 it is 6e10 again.
		{"128 bits between", 1 << 62, time.Minute, 1 << 62, 60 * second},
		{"what is longer than 36 years counts as that", 1, day, math.MaxInt64, longest},
		{"nothing", 1, day, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewBucket(tt.amount, tt.per, 1)
			if got := r.increment(tt.cost); got != tt.wantNs {
				t.Errorf("%d ns, want %d", got, tt.wantNs)
			}
		})
	}
}

// A burst passes at once also in pieces that are each rounded up, as 1/3 s is to
// 333,333,334 ns: three of them are 2 ns more than the second that three take.
func TestRateBurstPassesInPieces(t *testing.T) {
	for _, c := range []struct{ amount, burst, piece int64 }{
		{2, 10, 1}, {3, 3, 1}, {7, 1000, 1}, {450_000, 450_000, 7}, {999_999, 2000, 3},
	} {
		r := NewBucket(c.amount, time.Minute, c.burst)
		left := c.burst
		for left > 0 {
			piece := min(c.piece, left)
			if ok, after := r.Check(rateNoon, piece); !ok {
				t.Fatalf("%+v: %d are left, but may pass after %d ns", c, left, after)
			}
			r.Take(rateNoon, piece)
			left -= piece
		}
		if ok, _ := r.Check(rateNoon, 1); ok {
			t.Errorf("%+v: one more than the burst passes", c)
		}
	}
}

func TestRateRefusesForever(t *testing.T) {
	r := NewBucket(5, time.Second, 10)
	if ok, after := r.Check(rateNoon, 11); ok || after != Forever {
		t.Errorf("11 of a burst of 10: %v, %d; it never may", ok, after)
	}
	r.Take(rateNoon, 1000)
	if ok, _ := r.Check(rateNoon, 0); !ok {
		t.Error("a cost of nothing is refused")
	}
}

func TestRateBounds(t *testing.T) {
	// 1 a year: 36 years are 2^60 ns, so of a burst of 100 36 are left.
	const year = 365 * 24 * time.Hour
	r := NewBucket(1, year, 100)
	if want := longest / int64(year); r.Burst != want || want != 36 {
		t.Errorf("a burst of %d, want %d", r.Burst, want)
	}
	if r = NewBucket(1, math.MaxInt64, 1); r.Per != longest || r.Remaining(rateNoon) != 1 {
		t.Errorf("%+v: 1 in 292 years becomes 1 in 36", r)
	}
	// Nothing overflows, whatever is done with the largest numbers at the last moment.
	for _, amount := range []int64{1, 1e9, math.MaxInt64} {
		for _, per := range []time.Duration{1, time.Second, math.MaxInt64} {
			const last = 1 << 62
			r := NewBucket(amount, per, math.MaxInt64)
			for range 20 {
				if r.Take(last, math.MaxInt64); r.Remaining(last) != 0 {
					t.Fatalf("%d per %d: full again by debts: %+v", amount, per, r)
				}
			}
			for range 5 {
				r.Take(last, math.MaxInt64)
				r.Correct(last, 0, math.MaxInt64, math.MaxInt64)
				if ok, after := r.Check(last, r.Burst); ok != (after == 0) || after < 0 || r.Tat < last {
					t.Errorf("%d per %d: %v after %d: %+v", amount, per, ok, after, r)
				}
				r.Resize(last, math.MaxInt64/amount, per, math.MaxInt64)
				r.Resize(last, amount, per, math.MaxInt64)
			}
			if left := r.Remaining(last); left != 0 {
				t.Errorf("%d per %d: %d are left after all that", amount, per, left)
			}
		}
	}
}

// 1 a second, 100 at once: seconds and amounts are the same number.
func TestRateCorrect(t *testing.T) {
	at := func(s int64) int64 { return rateNoon + s*second }
	tests := []struct {
		name string
		do   func(r *Bucket)
		at   int64 // s after the beginning
		// what remains then, or how long until one passes, s
		remains, wait int64
	}{
		{"too much is given back", func(r *Bucket) {
			r.Take(at(0), 60)
			r.Correct(at(10), 60, 20, 100)
		}, 10, 90, 0}, // 100 - 20 + 10 s
		{"too little is charged", func(r *Bucket) {
			r.Take(at(0), 20)
			r.Correct(at(10), 20, 60, 100)
		}, 10, 50, 0}, // 100 - 60 + 10 s
		{"the time in which it was full pays for nothing", func(r *Bucket) {
			r.Take(at(0), 20)
			r.Correct(at(1000), 20, 60, 100)
		}, 1000, 60, 0}, // full at 20 s; 100 - 40
		{"nor that before it was used at all", func(r *Bucket) {
			r.Correct(at(0), 0, 30, 100)
		}, 0, 70, 0},
		{"debt", func(r *Bucket) {
			r.Take(at(0), 100)
			r.Correct(at(0), 100, 130, 100)
		}, 0, 0, 31}, // 30 to repay, and then 1 to flow in
		{"no more debt than the bound, however large", func(r *Bucket) {
			r.Take(at(0), 100)
			r.Correct(at(0), 100, 1e12, 50)
		}, 0, 0, 51},
		{"nor in several steps", func(r *Bucket) {
			r.Take(at(0), 100)
			for range 10 {
				r.Correct(at(0), 100, 140, 50)
			}
		}, 0, 0, 51},
		{"a larger debt is not forgiven for one more", func(r *Bucket) {
			r.Take(at(0), 300)
			r.Correct(at(0), 5, 10, 50)
		}, 0, 0, 201}, // 300 - 100, and 1
		{"nor when the clock goes back", func(r *Bucket) {
			r.Take(at(200), 100)
			r.Correct(at(0), 5, 10, 50)
		}, 200, 0, 1},
		{"not more than full", func(r *Bucket) {
			r.Take(at(0), 10)
			r.Correct(at(500), 10, 0, 100)
		}, 500, 100, 0},
		// At 100 s it is full again and given away a second time. What comes back then has
		// flowed in before, and there was no room for it: 100 beyond the burst.
		{"what is given back late is more than it could have held", func(r *Bucket) {
			r.Take(at(0), 100)
			r.Take(at(100), 100)
			r.Correct(at(100), 100, 0, 100)
		}, 100, 100, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewBucket(1, time.Second, 100)
			tt.do(&r)
			_, wait := r.Check(at(tt.at), 1)
			if left := r.Remaining(at(tt.at)); left != tt.remains || wait != tt.wait*second {
				t.Errorf("%d remain, one passes after %d ns; want %d, %d s", left, wait, tt.remains, tt.wait)
			}
		})
	}
}

func TestRateResize(t *testing.T) {
	tests := []struct {
		name       string
		taken      int64 // at once, of 100 at 1/s
		amount     int64
		per        time.Duration
		burst      int64
		remains    int64
		waitsForMs int64 // until one passes
	}{
		{"10 times as fast", 40, 10, time.Second, 100, 60, 0},
		{"a larger burst fills up", 40, 1, time.Second, 1000, 60, 0},
		{"a smaller one is full", 40, 1, time.Second, 50, 50, 0},
		{"or is not", 90, 1, time.Second, 50, 10, 0},
		{"another unit of time", 90, 60, time.Hour, 100, 10, 0},
		// A debt of 20, and then 1: 21 at 10/s.
		{"debt", 120, 10, time.Second, 100, 0, 2100},
		// No debt is for longer than a burst takes: here of 5, and then 1.
		{"debt, and a smaller burst", 120, 1, time.Second, 5, 0, 6000},
		{"debt of a burst, and a smaller burst", 200, 1, time.Second, 5, 0, 6000},
		// More than a burst is owed only where it was let pass so, and is paid.
		{"more than that, and a smaller burst", 250, 1, time.Second, 5, 0, 151_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewBucket(1, time.Second, 100)
			r.Take(rateNoon, tt.taken)
			r.Resize(rateNoon, tt.amount, tt.per, tt.burst)
			_, wait := r.Check(rateNoon, 1)
			// Of a debt at most 3 ns are rounded up.
			early := tt.waitsForMs*int64(time.Millisecond) - wait
			if left := r.Remaining(rateNoon); left != tt.remains || early > 0 || early < -3 {
				t.Errorf("%d remain, one passes after %d ns; want %d, %d ms", left, wait, tt.remains, tt.waitsForMs)
			}
		})
	}
}

func TestRateAllocatesNothing(t *testing.T) {
	r := NewBucket(450_000, time.Minute, 450_000)
	now := int64(rateNoon)
	if n := testing.AllocsPerRun(100, func() {
		now += 1000
		r.Check(now, 100)
		r.Take(now, 100)
		r.Correct(now, 100, 90, 1000)
		r.Remaining(now)
		r.Resize(now, 450_001, time.Minute, 450_000)
		r.Resize(now, 450_000, time.Minute, 450_000)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRateCheckTake(b *testing.B) {
	r := NewBucket(450_000, time.Minute, 450_000)
	now := int64(rateNoon)
	for b.Loop() {
		now += 13_000_000
		if ok, _ := r.Check(now, 100); ok {
			r.Take(now, 100)
		}
	}
}

// TestExcess: less than a twentieth of the rate, or one, is no difference.
func TestExcess(t *testing.T) {
	s := New(0, &coordinator.QuotaNode{}, &coordinator.QuotaLimit{Nominal: 100, Per: time.Second}, nil)
	s.Divide()
	for remains, want := range map[int64]int64{200: 0, 100: 0, 95: 0, 94: 6, 0: 100, -1: 100} {
		if got := s.Excess(1e18, remains); got != want {
			t.Errorf("%d remain of 100: %d too many, want %d", remains, got, want)
		}
	}
}
