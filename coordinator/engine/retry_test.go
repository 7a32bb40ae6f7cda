package engine

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestBackoff: to another agent 250 ms doubled with each try up to 10 s, to the same 2 s times four up to
// a minute; upper half.
func TestBackoff(t *testing.T) {
	tests := []struct {
		rule     backoffRule
		tries    int
		from, to time.Duration
	}{
		{backoffOther, 1, 125 * time.Millisecond, 250 * time.Millisecond}, // 250 × 2⁰
		{backoffOther, 2, 250 * time.Millisecond, 500 * time.Millisecond}, // 250 × 2¹
		{backoffOther, 6, 4 * time.Second, 8 * time.Second},               // 250 × 2⁵
		{backoffOther, 7, 5 * time.Second, 10 * time.Second},              // 250 × 2⁶ = 16 s, capped
		{backoffOther, 1000, 5 * time.Second, 10 * time.Second},           // does not overflow
		{backoffSame, 1, time.Second, 2 * time.Second},                    // 2 × 4⁰
		{backoffSame, 2, 4 * time.Second, 8 * time.Second},                // 2 × 4¹
		{backoffSame, 4, 30 * time.Second, time.Minute},                   // 2 × 4³ = 128 s, capped
	}
	for _, tt := range tests {
		least, most := time.Hour, time.Duration(0)
		for i := range 1000 {
			d := tt.rule.after(&coordinator.Task{ID: coordinator.TaskID(rune('a' + i))}, tt.tries, 1)
			least, most = min(least, d), max(most, d)
		}
		// 1,000 draws from an even spread come within 5 % of both ends.
		slack := (tt.to - tt.from) / 20
		if least < tt.from || most > tt.to || least > tt.from+slack || most < tt.to-slack {
			t.Errorf("%d tries: %v to %v, want %v to %v", tt.tries, least, most, tt.from, tt.to)
		}
	}
}

// TestRetryBudget: 100 at once, then a tenth of the first dispatches and 10 a second.
func TestRetryBudget(t *testing.T) {
	spend := func(b *retryBudget, now time.Time) (n int) {
		for {
			ok, wait := b.spend(now)
			if !ok {
				if wait <= 0 || wait > 100*time.Millisecond { // a tenth of a second earns one
					t.Errorf("wait %v", wait)
				}
				return n
			}
			n++
		}
	}
	var b retryBudget
	now := epoch
	check := func(want int) {
		t.Helper()
		if got := spend(&b, now); got != want {
			t.Fatalf("%d retries, want %d", got, want)
		}
	}
	check(100) // the burst
	for range 50 {
		b.earn()
	}
	check(5) // 50 × 10 %
	now = now.Add(700 * time.Millisecond)
	check(7) // 0.7 s × 10
	now = now.Add(1000 * time.Hour)
	check(100) // never more than the burst, however long it lay idle
	// Asked every 50 µs, half of what one thousandth of a retry takes to earn:
	// nothing is lost in between. 1 s × 10 = 10.
	got := 0
	for range 20_000 {
		now = now.Add(50 * time.Microsecond)
		got += spend(&b, now)
	}
	if got != 10 {
		t.Errorf("%d retries in a second of frequent asking, want 10", got)
	}
}
