package balance

import (
	"math"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// enabled is a configuration in that mode, switched on.
func enabled(mode string) Config {
	c := Default()
	c.LoadBalancing.Enabled, c.LoadBalancing.Mode = true, mode
	return c
}

func literal(t *testing.T, mode string) *Literal {
	t.Helper()
	c, err := NewLiteral(enabled(mode))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLiteralVectors are the numbers of BALANCING's text, examples and tests.
func TestLiteralVectors(t *testing.T) {
	tests := []struct {
		name            string
		mode            string
		pending, others int // held by this agent, and all else there is
		capacity, total float64
		want            time.Duration
	}{
		// 5/16 − 16/28 = 0.3125 − 0.5714 = −0.2589, in hundredths 0.26: 1000·1.26.
		{"example 1 and its unit test", ModeLiteral, 5, 95, 16, 28, 1260},
		// 80/4 − 4/28 = 19.857, at most 1: 1000·0, at least 200.
		{"example 2", ModeLiteral, 80, 20, 4, 28, 200},
		// 0 − 16/28 = −0.5714: 1000·1.57.
		{"an idle agent waits longest", ModeLiteral, 0, 100, 16, 28, 1570},
		// 28/16 − 16/28 = 1.179. The text says 1000: the code does not hold what it calls balanced.
		{"example 3, by the code", ModeLiteral, 28, 21, 16, 28, 200},
		// 28/49 − 16/28 = 0, and so for 14 of 8 and 7 of 4.
		{"example 3, by the text, agent 1", ModeLiteralShare, 28, 21, 16, 28, 1000},
		{"example 3, by the text, agent 2", ModeLiteralShare, 14, 35, 8, 28, 1000},
		{"example 3, by the text, agent 3", ModeLiteralShare, 7, 42, 4, 28, 1000},
		// 5/100 − 16/28 = −0.5214, in hundredths 0.52; 1521 without the rounding.
		{"example 1, by the text", ModeLiteralShare, 5, 95, 16, 28, 1520},
		// 80/100 − 4/28 = 0.6571, in hundredths 0.66: 1000·0.34; 343 without.
		{"example 2, by the text", ModeLiteralShare, 80, 20, 4, 28, 340},
		// 4/10 − 10/20 = −0.10: at the threshold, not above it.
		{"underload of exactly 0.10", ModeLiteral, 4, 0, 10, 20, 1000},
		// 6/10 − 10/20 = 0.10.
		{"overload of exactly 0.10", ModeLiteral, 6, 0, 10, 20, 1000},
		// 39/100 − 50/100 = −0.11: 1000·1.11.
		{"just above it", ModeLiteralShare, 39, 61, 50, 100, 1110},
		// 61/100 − 50/100: 1000·0.89.
		{"just above it, overloaded", ModeLiteralShare, 61, 39, 50, 100, 890},
		// 0/1.0 − 0.05/1.0 = −0.05: the floors of 1.0.
		{"a language model alone", ModeLiteral, 0, 0, 0.05, 0.05, 1000},
		{"nothing anywhere", ModeLiteralShare, 0, 0, 16, 28, 1570},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := literal(t, tt.mode)
			local := Local{Pending: tt.pending, Free: 100, Capacity: tt.capacity}
			c.Granted(start, 0, View{Agents: 3, Pending: tt.pending, Unclaimed: tt.others, Capacity: tt.total})
			if got := c.Interval(start, local); got != tt.want*time.Millisecond {
				i, _ := c.Imbalance(start, local)
				t.Errorf("%v, want %v: %+v", got, tt.want*time.Millisecond, i)
			}
		})
	}
}

// TestLiteralCrash: agent 3 is gone, the capacity is 24: 16/24 = 0.67. With 5 pending,
// 5/16 − 16/24 = −0.354: 1000·1.35.
func TestLiteralCrash(t *testing.T) {
	c := literal(t, ModeLiteral)
	local := Local{Pending: 5, Capacity: 16}
	c.Granted(start, 0, View{Capacity: 28})
	if i, _ := c.Imbalance(start, local); math.Abs(i.Target-0.57) > 0.005 {
		t.Errorf("target %v, want 0.57", i.Target)
	}
	c.Granted(start.Add(90*time.Second), 0, View{Capacity: 24})
	if i, _ := c.Imbalance(start.Add(90*time.Second), local); math.Abs(i.Target-0.67) > 0.005 {
		t.Errorf("target %v, want 0.67", i.Target)
	}
	if got := c.Interval(start.Add(90*time.Second), local); got != 1350*time.Millisecond {
		t.Errorf("interval %v, want 1.35s", got)
	}
}

// TestLiteralWithoutAView: the base interval without one, what is known while it is
// younger than 30 s, then the base interval again.
func TestLiteralWithoutAView(t *testing.T) {
	c := literal(t, ModeLiteral)
	local := Local{Pending: 5, Capacity: 16, Free: 300}
	expect := func(after, want time.Duration) {
		t.Helper()
		if got := c.Interval(start.Add(after), local); got != want {
			t.Errorf("after %v %v, want %v", after, got, want)
		}
	}
	expect(0, time.Second)
	c.Granted(start, 1, View{Capacity: 28})
	c.Unanswered(start.Add(time.Second))
	expect(30*time.Second-1, 1260*time.Millisecond)
	expect(30*time.Second, time.Second)
	// 5 pending at the default of 0.5, floored to 1: 5 − 0.5/28, at most 1.
	local.WarmUp = true
	expect(time.Second, 200*time.Millisecond)
	if got := c.Claim(start, local); got != 100 {
		t.Errorf("claims %d, want max-claim-items 100", got)
	}
	if got := c.Claim(start, Local{Free: 3}); got != 3 {
		t.Errorf("claims %d, want the 3 free slots", got)
	}
}

func TestSwitchedOff(t *testing.T) {
	off := Default()
	off.LoadBalancing.BaseDiscoveryIntervalMS = 700
	l, err := NewLiteral(off)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEqual(off, "a1", 1)
	if err != nil {
		t.Fatal(err)
	}
	local := Local{Pending: 80, Free: 5, Capacity: 4}
	for range 5 {
		l.Granted(start, 0, View{Capacity: 28, FairShare: 1})
		e.Granted(start, 0, View{Capacity: 28, FairShare: 1})
		if a, b := l.Interval(start, local), e.Interval(start, local); a != 700*time.Millisecond || b != a {
			t.Errorf("intervals %v and %v, want the base of 700ms", a, b)
		}
		if a, b := l.Claim(start, local), e.Claim(start, local); a != 5 || b != 5 {
			t.Errorf("claims %d and %d, want the 5 free slots", a, b)
		}
	}
	if e.Surplus(start, local) != 0 {
		t.Error("gives items back")
	}
}
