package queue

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

var returned = time.Unix(2_000_000_000, 0)

// TestBackoff: 250 ms doubled with each try up to 10 s, and 2 s times four up to a minute; upper half.
func TestBackoff(t *testing.T) {
	other, same := BackoffOther, BackoffSame
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

// TestDelay: the back-offs of task x after its first try, of 125 to 250 ms and of 1 to 2 s, are d and s.
func TestDelay(t *testing.T) {
	const seed = 7
	d, s := BackoffOther.After("x", 1, seed), BackoffSame.After("x", 1, seed)
	tests := []struct {
		name        string
		waits, held time.Duration
		former      time.Duration // from when on the same agents may have it, so far
		refused     bool
		same, until time.Duration
	}{
		{"as long as any task may wait", 30 * time.Second, 0, 0, false, s, s + 30*time.Second},
		{"at least 10 s", time.Second, 0, 0, false, s, s + 10*time.Second},
		{"an agent asked for longer", 30 * time.Second, 0, time.Minute, false, time.Minute, 90 * time.Second},
		// Its message came 60 s ago and is held for 75 s: 15 s are left, and 10 s after d.
		{"its message is held", 10 * time.Second, 75 * time.Second, time.Minute, false, time.Minute, 15 * time.Second},
		// 65 − 60 s are left: another agent has its 10 s all the same.
		{"held for long already", 10 * time.Second, 65 * time.Second, 0, false, s, d + 10*time.Second},
		// The budget may keep it for as long as a message is held.
		{"it was refused", 10 * time.Second, 65 * time.Second, 0, true, s, 65 * time.Second},
	}
	for _, tt := range tests {
		r := RetryRules{Waits: tt.waits, Held: tt.held, Seed: seed}
		other, same, until := r.Delay(returned, "x", 1, returned.Add(-time.Minute), returned.Add(tt.former), tt.refused)
		got := [3]time.Duration{other.Sub(returned), same.Sub(returned), until.Sub(returned)}
		if want := [3]time.Duration{d, tt.same, tt.until}; got != want {
			t.Errorf("%s: after %v another, the same, the end; want %v", tt.name, got, want)
		}
	}
}

// TestHoldoff: no less than the back-off s of 1 to 2 s, no more than 10 min or half of what a message may be held.
func TestHoldoff(t *testing.T) {
	s := BackoffSame.After("x", 1, 7)
	tests := []struct{ held, asked, want time.Duration }{
		{0, time.Millisecond, s},
		{0, time.Minute, time.Minute},
		{0, time.Hour, 10 * time.Minute},
		{30 * time.Minute, time.Hour, 10 * time.Minute},
		{6 * time.Minute, time.Hour, 3 * time.Minute},
	}
	for _, tt := range tests {
		r := RetryRules{Held: tt.held, Seed: 7}
		if got := r.Holdoff(returned, "x", 1, tt.asked).Sub(returned); got != tt.want {
			t.Errorf("held for %v, asked for %v: %v, want %v", tt.held, tt.asked, got, tt.want)
		}
	}
}

// TestHoldoffs: a asks for 3 s, b for 2 s, then a for 1 s. A list that was handed out stays as it is.
func TestHoldoffs(t *testing.T) {
	at := func(seconds int) time.Time { return returned.Add(time.Duration(seconds) * time.Second) }
	var none Holdoffs
	one := none.With("a", at(3))
	two := one.With("b", at(2))
	last := two.With("a", at(1))
	tests := []struct {
		name   string
		list   Holdoffs
		agents []coordinator.AgentID
		first  time.Time
		shared bool
	}{
		{"none", none, nil, time.Time{}, false},
		{"a", one, []coordinator.AgentID{"a"}, at(3), false},
		{"a and b", two, []coordinator.AgentID{"a", "b"}, at(2), true},
		{"a asks for less", last, []coordinator.AgentID{"b", "a"}, at(1), true},
		{"after 1 s", last.After(at(1)), []coordinator.AgentID{"b"}, at(2), false},
		{"after 2 s", last.After(at(2)), nil, time.Time{}, false},
	}
	for _, tt := range tests {
		if got := tt.list.Agents(); !slices.Equal(got, tt.agents) || !tt.list.First().Equal(tt.first) ||
			tt.list.Shared() != tt.shared {
			t.Errorf("%s: %v, the first at %v, shared: %v", tt.name, got, tt.list.First(), tt.list.Shared())
		}
	}
}

// TestBarred: a and b have had the task, b last; c asks for time. The list of those that have had it stays as it is.
func TestBarred(t *testing.T) {
	tried, asks := make([]coordinator.AgentID, 0, 9), Holdoffs(nil).With("c", returned)
	tried = append(tried, "a", "b")
	for repeats, want := range map[Repeats][]coordinator.AgentID{
		NoRepeat: {"a", "b", "c"}, RepeatNotLast: {"c", "b"}, RepeatAny: {"c"},
	} {
		if got := repeats.Barred(tried, "b", asks); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", repeats, got, want)
		}
	}
	if behind := tried[:3][2]; behind != "" {
		t.Errorf("%q stands behind the list of those that have had it", behind)
	}
}
