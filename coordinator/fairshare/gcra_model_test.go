package fairshare

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawRate draws one of up to 1e9 a second.
func drawRate(t *rapid.T) rate {
	per := rapid.OneOf(
		rapid.SampledFrom([]int64{second, 60 * second, 3600 * second, 86_400 * second}),
		rapid.Int64Range(1, 1e15),
	).Draw(t, "per")
	amount := rapid.Int64Range(1, min(per, 1e9)).Draw(t, "amount")
	most := max(1, min(1e6, mulDiv(longest/4, amount, per))) // some multiples of it are not cut off
	return newRate(amount, time.Duration(per), rapid.Int64Range(1, most).Draw(t, "burst"))
}

// drawStep draws by how much the clock moves: often not at all, and also back.
func drawStep(t *rapid.T, r *rate) int64 {
	return rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Int64Range(0, 2*r.increment(1)),
		rapid.Int64Range(-r.tau, 2*r.tau),
	).Draw(t, "step")
}

// exactly is d·per/amount, without rounding.
func exactly(r *rate, cost int64) *big.Rat {
	x := new(big.Rat).SetFrac64(r.per, r.amount)
	return x.Mul(x, new(big.Rat).SetInt64(cost))
}

func ratOf(ns int64) *big.Rat { return new(big.Rat).SetInt64(ns) }

func greater(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

func lesser(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func sumOf(all ...*big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, x := range all {
		sum.Add(sum, x)
	}
	return sum
}

// What is allowed beyond burst·per/amount, so that bursts pass in pieces, is less than what
// one amount takes.
func TestRateTau(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		tau := ratOf(r.tau)
		if tau.Cmp(exactly(&r, r.burst)) < 0 || tau.Cmp(exactly(&r, r.burst+1)) >= 0 {
			t.Errorf("tau %d is not from burst to burst + 1 times per/amount: %+v", r.tau, r)
		}
		if r.per%r.amount == 0 && r.tau != r.burst*(r.per/r.amount) {
			t.Errorf("tau %d is not exact, though nothing is rounded: %+v", r.tau, r)
		}
	})
}

// The same with rational numbers: after n calls TAT differs by no more than n ns, and what
// is decided differently was as near to the limit as that.
func TestRateFollowsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		now, tat, calls := int64(rateNoon), new(big.Rat), int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			now += drawStep(t, &r)
			cost := rapid.Int64Range(1, r.burst).Draw(t, "cost")
			ok, _ := r.check(now, cost)
			wait := sumOf(greater(ratOf(now), tat), exactly(&r, cost), ratOf(-r.tau), ratOf(-now))
			if ok && wait.Cmp(ratOf(calls)) > 0 || !ok && wait.Cmp(ratOf(-calls-1)) < 0 {
				t.Fatalf("%v, but by the definition it is %s ns early", ok, wait.FloatString(3))
			}
			switch actual := rapid.Int64Range(0, 2*r.burst).Draw(t, "actual"); rapid.IntRange(0, 3).Draw(t, "what") {
			case 0: // even if it may not
				r.take(now, cost)
				tat = sumOf(greater(ratOf(now), tat), exactly(&r, cost))
			case 1:
				r.correct(now, cost, actual, r.burst)
				more := sumOf(exactly(&r, actual), exactly(&r, -cost))
				if more.Sign() <= 0 {
					tat = greater(new(big.Rat), sumOf(tat, more))
					break
				}
				most := sumOf(ratOf(now), ratOf(r.tau), exactly(&r, r.burst))
				tat = greater(tat, lesser(sumOf(greater(ratOf(now), tat), more), most))
			default:
				if ok {
					r.take(now, cost)
					tat = sumOf(greater(ratOf(now), tat), exactly(&r, cost))
				}
			}
			calls++
			off := new(big.Rat).Sub(ratOf(r.tat), tat)
			if off.Abs(off).Cmp(ratOf(calls)) > 0 {
				t.Fatalf("TAT is off by %s ns after %d calls", off.FloatString(3), calls)
			}
		}
	})
}

// In no window w more than burst + w·amount/per passes, and 1 for rounding, however the
// clock jumps: a window is all that has passed at readings between two of them.
func TestRateWindow(t *testing.T) {
	type pass struct{ at, cost int64 }
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		now := int64(rateNoon)
		var passed []pass
		for range rapid.IntRange(1, 50).Draw(t, "asks") {
			now += drawStep(t, &r)
			cost := rapid.Int64Range(1, r.burst).Draw(t, "cost")
			if ok, _ := r.check(now, cost); ok {
				r.take(now, cost)
				passed = append(passed, pass{now, cost})
			}
		}
		slices.SortFunc(passed, func(a, b pass) int { return int(a.at - b.at) })
		for i := range passed {
			sum := int64(0)
			for j := i; j < len(passed); j++ {
				sum += passed[j].cost
				// (burst + 1)·per/amount + w, in ns
				most := sumOf(exactly(&r, r.burst+1), ratOf(passed[j].at-passed[i].at))
				if exactly(&r, sum).Cmp(most) > 0 {
					t.Fatalf("%d pass within %d ns", sum, passed[j].at-passed[i].at)
				}
			}
		}
	})
}

// With what is given back the same holds of any time from the beginning on: what is given
// back may pass later, but only once.
func TestRateWithWhatIsGivenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		now, sum := int64(rateNoon), int64(0)
		var open []int64
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now += max(0, drawStep(t, &r))
			if n := len(open); n > 0 && rapid.Bool().Draw(t, "settle") {
				actual := rapid.Int64Range(0, open[n-1]).Draw(t, "actual")
				r.correct(now, open[n-1], actual, r.burst)
				sum += actual - open[n-1]
				open = open[:n-1]
				continue
			}
			cost := rapid.Int64Range(1, r.burst).Draw(t, "cost")
			if ok, _ := r.check(now, cost); !ok {
				continue
			}
			r.take(now, cost)
			open = append(open, cost)
			sum += cost
			if exactly(&r, sum).Cmp(sumOf(exactly(&r, r.burst+1), ratOf(now-rateNoon))) > 0 {
				t.Fatalf("%d have passed in %d ns", sum, now-rateNoon)
			}
		}
	})
}

// Retry-after is exact; what remains is what may pass; a smaller now lets no more pass.
func TestRateRetryAfterAndRemaining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		now := int64(rateNoon)
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			now += drawStep(t, &r)
			r.take(now, rapid.Int64Range(0, 2*r.burst).Draw(t, "taken"))
		}
		now += drawStep(t, &r)
		cost := rapid.Int64Range(1, r.burst).Draw(t, "cost")
		ok, after := r.check(now, cost)
		if ok != (after == 0) || after < 0 {
			t.Fatalf("%v, but after %d", ok, after)
		}
		if then, _ := r.check(now+after, cost); !then {
			t.Errorf("refused after the %d ns that it should wait", after)
		}
		if before, _ := r.check(now+after-1, cost); !ok && before {
			t.Errorf("passes 1 ns before the %d ns that it should wait", after)
		}
		left := r.remaining(now)
		if passes, _ := r.check(now, left); !passes || left < 0 || left > r.burst {
			t.Errorf("%d remain, but do not pass", left)
		}
		if passes, _ := r.check(now, left+1); passes {
			t.Errorf("%d remain, but 1 more passes", left)
		}
		if earlier := r.remaining(now - rapid.Int64Range(0, r.tau).Draw(t, "back")); earlier > left {
			t.Errorf("%d remain, but %d when the clock goes back", left, earlier)
		}
	})
}

// With another rate there is as much as before, up to the burst, but for what flows in in
// the few ns that are rounded; and what was a debt of a burst at most is none of more than that.
func TestRateResizeKeepsTheLevel(t *testing.T) {
	// level is how much there is, in amounts; below 0: debt.
	level := func(r *rate) *big.Rat {
		x := sumOf(exactly(r, r.burst), ratOf(rateNoon-max(rateNoon, r.tat)))
		return x.Mul(x, new(big.Rat).SetFrac64(r.amount, r.per))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		r.take(rateNoon, rapid.Int64Range(0, 3*r.burst).Draw(t, "taken"))
		before := level(&r)
		old, n := r, drawRate(t)
		r.resize(rateNoon, n.amount, time.Duration(n.per), n.burst)
		if r.amount != n.amount || r.per != n.per || r.burst != n.burst || r.tau != n.tau {
			t.Fatalf("it is not the new rate: %+v, want %+v", r, n)
		}
		// No debt lasts longer than 36 years.
		want := greater(lesser(before, ratOf(n.burst)), new(big.Rat).Quo(ratOf(-longest), exactly(&n, 1)))
		if old.tat <= rateNoon+old.tau+old.increment(old.burst) { // no debt, or of a burst at most
			most := sumOf(exactly(&n, n.burst), ratOf(-n.tau-n.increment(n.burst)))
			want = greater(want, most.Mul(most, new(big.Rat).SetFrac64(n.amount, n.per)))
		}
		after := level(&r)
		// By which a burst is rounded: 1 ns of each rate; by which a level is: 3 ns of the new.
		rounding := sumOf(new(big.Rat).SetFrac64(old.amount, old.per), new(big.Rat).SetFrac64(4*n.amount, n.per))
		off := new(big.Rat).Sub(after, want)
		if off.Abs(off).Cmp(rounding) > 0 {
			t.Errorf("%s become %s, want %s", before.FloatString(6), after.FloatString(6), want.FloatString(6))
		}
		again := r
		if again.resize(rateNoon, n.amount, time.Duration(n.per), n.burst); again != r {
			t.Errorf("the same rate again is another: %+v, was %+v", again, r)
		}
	})
}
