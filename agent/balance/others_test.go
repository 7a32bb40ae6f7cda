package balance

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestViewOfOthers(t *testing.T) {
	tests := []struct {
		name   string
		others Others
		local  Local
		want   View
	}{
		{"BALANCING's agent 1: 49·16/28", Others{2, 21, 28, 12}, Local{Capacity: 16},
			View{3, 21, 28, 28, 28}},
		{"what it holds counts: 49·16/28 again", Others{2, 21, 8, 12}, Local{Pending: 20, Capacity: 16},
			View{3, 41, 8, 28, 28}},
		{"rounded down: 50·4/28 = 7.14", Others{2, 30, 20, 24}, Local{Capacity: 4},
			View{3, 30, 20, 28, 7}},
		{"no others: all of it", Others{Unclaimed: 9}, Local{Pending: 1, Capacity: 2},
			View{1, 1, 9, 2, 10}},
		{"30 s of work at most: 2·30", Others{Unclaimed: 1000}, Local{Capacity: 2},
			View{1, 0, 1000, 2, 60}},
		{"warm-up: 0.5 of 2 items/s, 40·0.5/2", Others{1, 20, 20, 1.5}, Local{Capacity: 9, WarmUp: true},
			View{2, 20, 20, 2, 10}},
		{"no capacity known: 0.5", Others{1, 20, 20, 1.5}, Local{},
			View{2, 20, 20, 2, 10}},
		{"nothing to do", Others{2, 0, 0, 12}, Local{Capacity: 16},
			View{3, 0, 0, 28, 0}},
		{"numbers that cannot be", Others{-1, -5, -7, math.NaN()}, Local{Pending: -3, Capacity: math.Inf(1)},
			View{1, 0, 0, 1e9, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.others.View(tt.local); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestEqualSeen: what the registry tells is good for claims for 30 s; it is no answer, so
// only half of what is missing is asked for, the interval stays and nothing is given back.
func TestEqualSeen(t *testing.T) {
	e := equal(t, 1)
	e.Unanswered(start) // blind: 1 s becomes 2 s
	at := start.Add(time.Second)
	e.Seen(at, View{Agents: 3, Capacity: 28, FairShare: 28})
	local := Local{Pending: 1, Free: 50, Capacity: 16}
	if got := e.Claim(at.Add(30*time.Second-1), local); got != 14 {
		t.Errorf("claims %d, want ⌈0.5·27⌉ = 14", got)
	}
	if e.interval != 2*time.Second {
		t.Errorf("interval %v, want 2 s still", e.interval)
	}
	e.Unanswered(at.Add(time.Second))
	if e.interval != 2*time.Second {
		t.Errorf("interval %v: it sees, so it goes on as it was", e.interval)
	}
	if got := e.Surplus(at, Local{Pending: 99, Capacity: 16}); got != 0 {
		t.Errorf("gives %d back by what is no answer", got)
	}
	if got := e.Claim(at.Add(30*time.Second), local); got != 1 {
		t.Errorf("claims %d, want the window of the blind, 1", got)
	}
	e.Unanswered(at.Add(30 * time.Second))
	if e.interval != 4*time.Second {
		t.Errorf("interval %v, want 4 s: blind again", e.interval)
	}
}

// TestSeenBeforeTheAnswer: what was seen before the answer says nothing after it.
func TestSeenBeforeTheAnswer(t *testing.T) {
	e := equal(t, 1)
	e.Granted(start, 0, View{FairShare: 20})
	e.Seen(start.Add(-time.Second), View{FairShare: 5})
	e.Seen(start, View{FairShare: 5})
	if got := e.Claim(start, Local{Free: 50, Capacity: 16}); got != 20 {
		t.Errorf("claims %d, want the leader's 20", got)
	}
	c := literal(t, ModeLiteral)
	c.Granted(start, 0, View{Capacity: 28})
	c.Seen(start.Add(-time.Second), View{Capacity: 1})
	if i, _ := c.Imbalance(start, Local{Pending: 5, Capacity: 16}); i.Underload != 0.26 {
		t.Errorf("%+v, want 0.26 by the leader's picture", i)
	}
}

// TestLiteralSeen: BALANCING's 1.26 times the base interval (5/16 − 16/28) by what the
// registry tells, for 30 s; then the base interval.
func TestLiteralSeen(t *testing.T) {
	local := Local{Pending: 5, Free: 9, Capacity: 16}
	for mode, want := range map[string]time.Duration{
		ModeLiteral:      1260 * time.Millisecond,
		ModeLiteralShare: 1520 * time.Millisecond, // 5/100 − 16/28 = −0.521
	} {
		c := literal(t, mode)
		c.Unanswered(start)
		c.Seen(start, Others{Agents: 2, Pending: 45, Unclaimed: 50, Capacity: 12}.View(local))
		if got := c.Interval(start.Add(30*time.Second-1), local); got != want {
			t.Errorf("%s: %v, want %v", mode, got, want)
		}
		if got := c.Interval(start.Add(30*time.Second), local); got != time.Second {
			t.Errorf("%s: %v once it is out of date, want 1 s", mode, got)
		}
	}
}

// TestViewNever: whatever is told, the fair part is neither below 0 nor above all the
// items there are, and the capacity is a positive number.
func TestViewNever(t *testing.T) {
	number := rapid.OneOf(rapid.IntRange(-10, 1000), rapid.Int())
	rate := rapid.OneOf(rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-300, 1e300}),
		rapid.Float64Range(0, 100))
	rapid.Check(t, func(rt *rapid.T) {
		o := Others{number.Draw(rt, "agents"), number.Draw(rt, "pending"), number.Draw(rt, "unclaimed"),
			rate.Draw(rt, "capacity")}
		l := Local{Pending: number.Draw(rt, "own"), Capacity: rate.Draw(rt, "own capacity"),
			WarmUp: rapid.Bool().Draw(rt, "warm-up")}
		v := o.View(l)
		if v.FairShare < 0 || v.FairShare > v.Pending+v.Unclaimed || v.Agents < 1 || !(v.Capacity > 0) ||
			math.IsInf(v.Capacity, 0) {
			rt.Fatalf("%+v of %+v and %+v", v, o, l)
		}
	})
}
