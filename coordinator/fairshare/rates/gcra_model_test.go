package rates

import (
	"math/big"
	"slices"
	"taskbus/coordinator/fairshare/arith"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawRate draws one of up to 1e9 a second.
func drawRate(t *rapid.T) Bucket {
	per := rapid.OneOf(
		rapid.SampledFrom([]int64{second, 60 * second, 3600 * second, 86_400 * second}),
		rapid.Int64Range(1, 1e15),
	).Draw(t, "per")
	amount := rapid.Int64Range(1, min(per, 1e9)).Draw(t, "amount")
	most := max(1, min(1e6, arith.MulDiv(longest/4, amount, per))) // some multiples of it are not cut off
	return NewBucket(amount, time.Duration(per), rapid.Int64Range(1, most).Draw(t, "burst"))
}

// drawStep draws by how much the clock moves: often not at all, and also back.
func drawStep(t *rapid.T, r *Bucket) int64 {
	return rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.Int64Range(0, 2*r.increment(1)),
		rapid.Int64Range(-r.Tau, 2*r.Tau),
	).Draw(t, "step")
}

// exactly is d·per/amount, without rounding.
func exactly(r *Bucket, cost int64) *big.Rat {
	x := new(big.Rat).SetFrac64(r.Per, r.Amount)
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
		tau := ratOf(r.Tau)
		if tau.Cmp(exactly(&r, r.Burst)) < 0 || tau.Cmp(exactly(&r, r.Burst+1)) >= 0 {
			t.Errorf("tau %d is not from burst to burst + 1 times per/amount: %+v", r.Tau, r)
		}
		if r.Per%r.Amount == 0 && r.Tau != r.Burst*(r.Per/r.Amount) {
			t.Errorf("tau %d is not exact, though nothing is rounded: %+v", r.Tau, r)
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
			cost := rapid.Int64Range(1, r.Burst).Draw(t, "cost")
			ok, _ := r.Check(now, cost)
			wait := sumOf(greater(ratOf(now), tat), exactly(&r, cost), ratOf(-r.Tau), ratOf(-now))
			if ok && wait.Cmp(ratOf(calls)) > 0 || !ok && wait.Cmp(ratOf(-calls-1)) < 0 {
				t.Fatalf("%v, but by the definition it is %s ns early", ok, wait.FloatString(3))
			}
			switch actual := rapid.Int64Range(0, 2*r.Burst).Draw(t, "actual"); rapid.IntRange(0, 3).Draw(t, "what") {
			case 0: // even if it may not
				r.Take(now, cost)
				tat = sumOf(greater(ratOf(now), tat), exactly(&r, cost))
			case 1:
				r.Correct(now, cost, actual, r.Burst)
				more := sumOf(exactly(&r, actual), exactly(&r, -cost))
				if more.Sign() <= 0 {
					tat = greater(new(big.Rat), sumOf(tat, more))
					break
				}
				most := sumOf(ratOf(now), ratOf(r.Tau), exactly(&r, r.Burst))
				tat = greater(tat, lesser(sumOf(greater(ratOf(now), tat), more), most))
			default:
				if ok {
					r.Take(now, cost)
					tat = sumOf(greater(ratOf(now), tat), exactly(&r, cost))
				}
			}
			calls++
			off := new(big.Rat).Sub(ratOf(r.Tat), tat)
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
			cost := rapid.Int64Range(1, r.Burst).Draw(t, "cost")
			if ok, _ := r.Check(now, cost); ok {
				r.Take(now, cost)
				passed = append(passed, pass{now, cost})
			}
		}
		slices.SortFunc(passed, func(a, b pass) int { return int(a.at - b.at) })
		for i := range passed {
			sum := int64(0)
			for j := i; j < len(passed); j++ {
				sum += passed[j].cost
				// (burst + 1)·per/amount + w, in ns
				most := sumOf(exactly(&r, r.Burst+1), ratOf(passed[j].at-passed[i].at))
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
				r.Correct(now, open[n-1], actual, r.Burst)
				sum += actual - open[n-1]
				open = open[:n-1]
				continue
			}
			cost := rapid.Int64Range(1, r.Burst).Draw(t, "cost")
			if ok, _ := r.Check(now, cost); !ok {
				continue
			}
			r.Take(now, cost)
			open = append(open, cost)
			sum += cost
			if exactly(&r, sum).Cmp(sumOf(exactly(&r, r.Burst+1), ratOf(now-rateNoon))) > 0 {
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
			r.Take(now, rapid.Int64Range(0, 2*r.Burst).Draw(t, "taken"))
		}
		now += drawStep(t, &r)
		cost := rapid.Int64Range(1, r.Burst).Draw(t, "cost")
		ok, after := r.Check(now, cost)
		if ok != (after == 0) || after < 0 {
			t.Fatalf("%v, but after %d", ok, after)
		}
		if then, _ := r.Check(now+after, cost); !then {
			t.Errorf("refused after the %d ns that it should wait", after)
		}
		if before, _ := r.Check(now+after-1, cost); !ok && before {
			t.Errorf("passes 1 ns before the %d ns that it should wait", after)
		}
		left := r.Remaining(now)
		if passes, _ := r.Check(now, left); !passes || left < 0 || left > r.Burst {
			t.Errorf("%d remain, but do not pass", left)
		}
		if passes, _ := r.Check(now, left+1); passes {
			t.Errorf("%d remain, but 1 more passes", left)
		}
		if earlier := r.Remaining(now - rapid.Int64Range(0, r.Tau).Draw(t, "back")); earlier > left {
			t.Errorf("%d remain, but %d when the clock goes back", left, earlier)
		}
	})
}

// With another rate there is as much as before, up to the burst, but for what flows in in
// the few ns that are rounded; and what was a debt of a burst at most is none of more than that.
func TestRateResizeKeepsTheLevel(t *testing.T) {
	// level is how much there is, in amounts; below 0: debt.
	level := func(r *Bucket) *big.Rat {
		x := sumOf(exactly(r, r.Burst), ratOf(rateNoon-max(rateNoon, r.Tat)))
		return x.Mul(x, new(big.Rat).SetFrac64(r.Amount, r.Per))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		r.Take(rateNoon, rapid.Int64Range(0, 3*r.Burst).Draw(t, "taken"))
		before := level(&r)
		old, n := r, drawRate(t)
		r.Resize(rateNoon, n.Amount, time.Duration(n.Per), n.Burst)
		if r.Amount != n.Amount || r.Per != n.Per || r.Burst != n.Burst || r.Tau != n.Tau {
			t.Fatalf("it is not the new rate: %+v, want %+v", r, n)
		}
		// No debt lasts longer than 36 years.
		want := greater(lesser(before, ratOf(n.Burst)), new(big.Rat).Quo(ratOf(-longest), exactly(&n, 1)))
		if old.Tat <= rateNoon+old.Tau+old.increment(old.Burst) { // no debt, or of a burst at most
			most := sumOf(exactly(&n, n.Burst), ratOf(-n.Tau-n.increment(n.Burst)))
			want = greater(want, most.Mul(most, new(big.Rat).SetFrac64(n.Amount, n.Per)))
		}
		after := level(&r)
		// By which a burst is rounded: 1 ns of each rate; by which a level is: 3 ns of the new.
		rounding := sumOf(new(big.Rat).SetFrac64(old.Amount, old.Per), new(big.Rat).SetFrac64(4*n.Amount, n.Per))
		off := new(big.Rat).Sub(after, want)
		if off.Abs(off).Cmp(rounding) > 0 {
			t.Errorf("%s become %s, want %s", before.FloatString(6), after.FloatString(6), want.FloatString(6))
		}
		again := r
		if again.Resize(rateNoon, n.Amount, time.Duration(n.Per), n.Burst); again != r {
			t.Errorf("the same rate again is another: %+v, was %+v", again, r)
		}
	})
}
