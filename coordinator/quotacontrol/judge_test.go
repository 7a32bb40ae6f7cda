package quotacontrol

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// fairShare is FAIR-SHARE's example: under 10 % on three days in a row costs one point.
var fairShare = &coordinator.IdleRule{BelowPercent: 10, Days: 3, Step: 1, MinWeight: 1}

// A month in the life of an agent of weight 3 with 1,000 tokens a day.
func TestIdleDays(t *testing.T) {
	n := idle{Weight: 3, Due: 1000}
	for day, c := range []struct {
		used, due, weight int64
		why               string
	}{
		{99, 1000, 3, ""}, {0, 1000, 3, ""}, // 99 of 1,000 are under 10 %
		{50, 1000, 2, "under 10 % of its own used on 3 days in a row (50 of 1000 on the last): weight 2 instead of 3"},
		{0, 1000, 2, ""}, {0, 1000, 2, ""}, {0, 1000, 1, "weight 1 instead of 2"}, // three more
		{0, 1000, 1, ""}, {0, 1000, 1, ""}, {0, 1000, 1, ""}, // never below 1
		// 100 are not under 10 %: back, a point a day
		{100, 1000, 2, "100 of 1000 of its own used: weight 2 again instead of 1"},
		{0, 1000, 2, ""}, {0, 1000, 2, ""}, {5000, 1000, 3, "weight 3 again"}, // the run has ended before its third day
		{5000, 1000, 3, ""},                               // no more than it had
		{0, 1000, 3, ""}, {0, 1000, 3, ""}, {0, 0, 3, ""}, // nothing was its own: that day does not count
		{0, 1000, 2, "weight 2"},
	} {
		n.Used, n.Due = c.used, c.due
		v := judgeIdle(fairShare, n)
		n.Weight += n.Lost - v.Taken
		n.Run, n.Lost = v.Run, v.Taken
		if n.Weight != c.weight || (v.Why == "") != (c.why == "") || !strings.Contains(v.Why, c.why) {
			t.Errorf("day %d: weight %d, %q; want %d, %q", day+1, n.Weight, v.Why, c.weight, c.why)
		}
	}
}

// Answers of 3 s where 2 s are slow: 10 % a day up to 25, and back.
func TestSlowDays(t *testing.T) {
	r := &coordinator.SlowRule{Above: 2 * time.Second, Percent: 10, MaxPercent: 25}
	var n slow
	for day, c := range []struct {
		answers int64
		took    time.Duration
		raised  int64
		why     string
	}{
		{10, 20 * time.Second, 0, ""}, // 2 s are not more than 2 s
		{9, time.Hour, 0, ""},         // of fewer than ten answers the mean says nothing
		{10, 30 * time.Second, 10, "answers took 3s on average, more than 2s: its limits are raised by 10 % instead of 0 %"},
		{100, 300 * time.Second, 20, "raised by 20 % instead of 10 %"},
		{10, 30 * time.Second, 25, "raised by 25 %"}, {10, time.Hour, 25, ""},
		{0, 0, 25, ""}, {9, 9 * time.Second, 25, ""}, // nor do fast ones, or none
		{10, 20 * time.Second, 15, "no more than 2s: its limits are raised by 15 % instead of 25 %"},
		{10, 0, 5, "raised by 5 %"}, {10, 0, 0, "raised by 0 % instead of 5 %"}, {10, 0, 0, ""},
	} {
		n.Answers, n.Took = c.answers, c.took
		v := judgeSlow(r, n)
		if v.Taken != c.raised || (v.Why == "") != (c.why == "") || !strings.Contains(v.Why, c.why) {
			t.Errorf("day %d: raised by %d, %q; want %d, %q", day+1, v.Taken, v.Why, c.raised, c.why)
		}
		n.Raised = v.Taken
	}
}

// Whatever the days are like: the weight is never below the least one, never above what it was,
// changes by one step a day at most, and says why; and days of use give back everything.
func TestIdleNeverLeavesItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &coordinator.IdleRule{
			BelowPercent: rapid.Int64Range(1, 100).Draw(t, "below"), Days: rapid.IntRange(1, 31).Draw(t, "days"),
			Step: rapid.Int64Range(1, 1000).Draw(t, "step"), MinWeight: rapid.Int64Range(1, 1000).Draw(t, "least"),
		}
		own := rapid.Int64Range(0, 1000).Draw(t, "weight")
		n, least := idle{Weight: own}, min(own, r.MinWeight)
		for range rapid.IntRange(0, 100).Draw(t, "days") {
			n.Used = rapid.Int64Range(0, 200).Draw(t, "used")
			n.Due = rapid.Int64Range(0, 200).Draw(t, "due")
			v := judgeIdle(r, n)
			change := v.Taken - n.Lost
			if change > r.Step || change < -r.Step || (change == 0) != (v.Why == "") {
				t.Fatalf("%+v: changed by %d, because %q", n, change, v.Why)
			}
			n.Weight, n.Lost, n.Run = n.Weight-change, v.Taken, v.Run
			if n.Weight < least || n.Weight > own || n.Weight+n.Lost != own || n.Run < 0 || n.Run >= r.Days {
				t.Fatalf("weight %d (of %d, least %d), lost %d, run %d", n.Weight, own, least, n.Lost, n.Run)
			}
		}
		n.Used, n.Due = 100, 100
		for range 1 + own/r.Step {
			v := judgeIdle(r, n)
			n.Weight, n.Lost, n.Run = n.Weight+n.Lost-v.Taken, v.Taken, v.Run
		}
		if n.Weight != own || n.Lost != 0 {
			t.Fatalf("weight %d after days of use, want %d", n.Weight, own)
		}
	})
}

func TestSlowNeverLeavesItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &coordinator.SlowRule{
			Above: time.Second, Percent: rapid.Int64Range(1, 100).Draw(t, "percent"), MaxPercent: rapid.Int64Range(1, 1000).
				Draw(t, "most"),
		}
		var n slow
		for range rapid.IntRange(0, 100).Draw(t, "days") {
			n.Answers = rapid.Int64Range(0, 30).Draw(t, "answers")
			n.Took = time.Duration(rapid.Int64Range(0, int64(60*time.Second)).Draw(t, "took"))
			v := judgeSlow(r, n)
			if change := v.Taken - n.Raised; change > r.Percent || change < -r.Percent || (change == 0) != (v.Why == "") ||
				v.Taken < 0 || v.Taken > r.MaxPercent || n.Answers < LeastAnswers && change != 0 {
				t.Fatalf("%+v: %+v", n, v)
			}
			n.Raised = v.Taken
		}
		n.Answers, n.Took = LeastAnswers, 0
		for range 1 + n.Raised/r.Percent {
			n.Raised = judgeSlow(r, n).Taken
		}
		if n.Raised != 0 {
			t.Fatalf("raised by %d after fast days", n.Raised)
		}
	})
}

// A bound that has been lowered since is kept from above: what was raised beyond it stays until
// the answers are fast.
func TestSlowUnderALowerBound(t *testing.T) {
	r := &coordinator.SlowRule{Above: time.Second, Percent: 10, MaxPercent: 20}
	if v := judgeSlow(r, slow{Answers: 10, Took: time.Minute, Raised: 50}); v.Taken > 50 {
		t.Errorf("%+v", v)
	}
}

func TestShare(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		nominal     int64
		period, day time.Duration
		want        int64
	}{
		{300_000, 30 * day, day, 10_000}, {100, 31 * day, day, 3}, // 100/31 = 3.2
		{1000, day, day, 1000}, {50, time.Hour, day, 1200}, {0, day, day, 0}, {5, 0, day, 0},
		{1000, 25 * time.Hour, 25 * time.Hour, 1000}, // the day on which clocks are set back
		{math.MaxInt64, time.Second, day, math.MaxInt64},
	} {
		if got := share(c.nominal, int64(c.day), int64(c.period)); got != c.want {
			t.Errorf("%d for %v: %d for a day of %v, want %d", c.nominal, c.period, got, c.day, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		whole, part, of := rapid.Int64Min(0).Draw(t, "whole"), rapid.Int64Min(0).Draw(t, "part"),
			rapid.Int64Min(1).Draw(t, "of")
		want := new(big.Int).Mul(big.NewInt(whole), big.NewInt(part))
		want.Quo(want, big.NewInt(of))
		if most := big.NewInt(math.MaxInt64); want.Cmp(most) > 0 {
			want = most
		}
		if got := share(whole, part, of); got != want.Int64() {
			t.Fatalf("%d · %d / %d = %d, want %s", whole, part, of, got, want)
		}
	})
}
