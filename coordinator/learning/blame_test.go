package learning

import (
	"math"
	"testing"
	"time"
)

// TestForgive: what is forgiven counts as if it had not been observed, as far as
// time alone tells.
func TestForgive(t *testing.T) {
	settings := Settings{HalfLifeOutcomes: 1e9}
	want := New(settings, 2)
	history(want, start, 0, "a", "+-")
	got := New(settings, 2)
	history(got, start, 0, "a", "+--")
	got.Forgive(0, got.Type("a"), start)
	for i := range 2 {
		a, b := want.Standing(i, want.Type("a")).Success, got.Standing(i, got.Type("a")).Success
		// Only the fleet's rate at that failure is not known any more, which E has kept a little of.
		if math.Abs(a-b) > 0.01 {
			t.Errorf("agent %d: %.4f after forgiving, %.4f without", i, b, a)
		}
	}
	if s, f := got.own(0, got.Type("a")); !near(s, 1) || !near(f, 1) {
		t.Errorf("own successes %v, failures %v, want 1 and 1", s, f)
	}

	// A day later the failure weighs a half, and half a failure is taken away.
	got.Advance(start.Add(24 * time.Hour))
	history(got, start.Add(24*time.Hour), 0, "a", "-")
	got.Forgive(0, got.Type("a"), start)
	if s, f := got.own(0, got.Type("a")); !near(s, 0.5) || !near(f, 1) {
		t.Errorf("own successes %v, failures %v, want 0.5 and 1", s, f)
	}

	rate := got.TypeSuccess(got.Type("a"))
	got.Forgive(1, got.Type("a"), start) // which has failed nothing
	if now := got.TypeSuccess(got.Type("a")); now != rate {
		t.Errorf("forgiving an agent without a fault moves the type from %v to %v", rate, now)
	}

	// Never below zero, and never an agent's success.
	for range 10 {
		got.Forgive(0, got.Type("a"), start.Add(24*time.Hour))
	}
	got.Forgive(9, got.Type("a"), start)
	got.Forgive(0, got.Type("never seen"), start)
	if s, f := got.own(0, got.Type("a")); !near(s, 0.5) || f != 0 {
		t.Errorf("own successes %v, failures %v, want 0.5 and 0", s, f)
	}
	if s := got.Standing(0, got.Type("a")).Success; !(s > 0 && s < 1) {
		t.Errorf("p̂ %v", s)
	}
}

// TestForgiveLate: the stated bound on what forgiving takes too much, k outcomes
// later: 1 - 2^(-k/200), 7 % of one failure for k 20.
func TestForgiveLate(t *testing.T) {
	const k = 20
	l := New(Settings{}, 1)
	history(l, start, 0, "a", "-")
	for range k {
		history(l, start, 0, "a", "-")
	}
	_, before := l.own(0, l.Type("a"))
	l.Forgive(0, l.Type("a"), start)
	_, after := l.own(0, l.Type("a"))
	if excess := before - after - math.Exp2(-k/200.); !near(excess, 1-math.Exp2(-k/200.)) || excess > 0.07 {
		t.Errorf("took %v too much", excess)
	}
}

// TestFailing holds the numbers that the comment of failingWeight states, among
// 19 agents at 0.9, and that a fleet that fails together convicts no agent.
func TestFailing(t *testing.T) {
	fleet := func() *Learner {
		l := New(Settings{HalfLifeOutcomes: 1e9}, 20)
		for i := 1; i < 20; i++ {
			for range 10 {
				history(l, start, i, "a", "+++++++++-")
			}
		}
		return l
	}
	tests := []struct {
		name, letters string
		want          bool
	}{
		{"no outcome", "", false},
		{"one failure says nothing", "-", false},
		{"six in a row", "------", false},
		{"seven in a row", "-------", true},
		{"what is not its fault", "bbbbbbbbbbcccccccccc", false},
		{"0.3 of ten", "+--+--+---", false},
		{"0.3 of fifty", "+--+--+---+--+--+---+--+--+---+--+--+---+--+--+---", true},
		{"0.9 of forty", "+++++++++-+++++++++-+++++++++-+++++++++-", false},
		{"seven failures after thirty successes", "++++++++++++++++++++++++++++++-------", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := fleet()
			history(l, start, 0, "a", tt.letters)
			if got := l.Failing(0, l.Type("a")); got != tt.want {
				t.Errorf("failing %v, want %v", got, tt.want)
			}
			if l.Failing(0, l.Type("b")) {
				t.Error("failing at a type it never had")
			}
		})
	}
	l := New(Settings{}, 5)
	for range 50 {
		for i := range 5 {
			history(l, start, i, "a", "---------+")
		}
	}
	for i := range 5 {
		if l.Failing(i, l.Type("a")) {
			t.Errorf("agent %d is convicted of what they all do", i)
		}
	}
}
