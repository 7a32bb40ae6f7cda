package queue

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestBackoff: 250 ms doubled with each try up to 10 s, and 2 s times four up to a minute; upper half.
func TestBackoff(t *testing.T) {
	other := Backoff{First: 250 * time.Millisecond, Factor: 2, Most: 10 * time.Second}
	same := Backoff{First: 2 * time.Second, Factor: 4, Most: time.Minute}
	tests := []struct {
		rule     Backoff
		tries    int
		from, to time.Duration
	}{
		{other, 1, 125 * time.Millisecond, 250 * time.Millisecond}, // 250 × 2⁰
		{other, 2, 250 * time.Millisecond, 500 * time.Millisecond}, // 250 × 2¹
		{other, 6, 4 * time.Second, 8 * time.Second},               // 250 × 2⁵
		{other, 7, 5 * time.Second, 10 * time.Second},              // 250 × 2⁶ = 16 s, capped
		{other, 1000, 5 * time.Second, 10 * time.Second},           // does not overflow
		{same, 1, time.Second, 2 * time.Second},                    // 2 × 4⁰
		{same, 2, 4 * time.Second, 8 * time.Second},                // 2 × 4¹
		{same, 4, 30 * time.Second, time.Minute},                   // 2 × 4³ = 128 s, capped
	}
	for _, tt := range tests {
		least, most := time.Hour, time.Duration(0)
		for i := range 1000 {
			d := tt.rule.After(coordinator.TaskID(rune('a'+i)), tt.tries, 1)
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
	waits := func(int) bool { return true }
	spend := func(b *Retries[int], now time.Time) (n int) {
		for {
			_, wait, ok := b.Next(now, waits)
			if !ok {
				if wait <= 0 || wait > 100*time.Millisecond { // a tenth of a second earns one
					t.Errorf("wait %v", wait)
				}
				return n
			}
			n++
		}
	}
	var b Retries[int]
	for i := range 1000 {
		b.Add(i)
	}
	now := epoch
	check := func(want int) {
		t.Helper()
		if got := spend(&b, now); got != want {
			t.Fatalf("%d retries, want %d", got, want)
		}
	}
	check(100) // the burst
	for range 50 {
		b.Earn()
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

// TestRetriesInOrder: first in, first out; what waits no more costs nothing.
func TestRetriesInOrder(t *testing.T) {
	var r Retries[string]
	waits := func(x string) bool { return x != "gone" }
	if x, wait, ok := r.Next(epoch, waits); ok || wait != 0 {
		t.Fatalf("of none %q, or one in %v", x, wait)
	}
	r.EmptyUntil(epoch) // and earns a retry in 100 ms
	for _, x := range []string{"gone", "c", "removed", "a", "gone"} {
		r.Add(x)
	}
	r.Remove("removed")
	if x, wait, ok := r.Next(epoch, waits); ok || wait != 100*time.Millisecond {
		t.Fatalf("with an empty budget %q, or one in %v", x, wait)
	}
	for i, want := range []string{"c", "a", ""} {
		x, wait, ok := r.Next(epoch.Add(time.Duration(i+1)*time.Second), waits)
		if x != want || ok != (want != "") || wait != 0 {
			t.Errorf("next is %q, or in %v, want %q", x, wait, want)
		}
	}
	if n := len(r.All()); n > 0 {
		t.Errorf("%d are left", n)
	}
	r.Add("b")
	if r.Clear(); len(r.All()) > 0 {
		t.Error("some are left after Clear")
	}
}
