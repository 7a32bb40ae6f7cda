package queue

import (
	"testing"
	"time"
)

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
	r.budget.at = epoch // nothing is in it, and earns a retry in 100 ms
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
