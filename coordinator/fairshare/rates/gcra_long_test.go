package rates

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"taskbus/coordinator/fairshare/arith"
	"testing"
	"time"
)

// moment is a time of which nothing is rounded: ns, and so many parts of one more, of which
// there are as many as the rate's amount.
type moment struct{ ns, part int64 }

func (a moment) compare(b moment) int {
	return cmp.Or(cmp.Compare(a.ns, b.ns), cmp.Compare(a.part, b.part))
}

// within reports whether it is from low to high ns.
func (a moment) within(low, high int64) bool {
	return a.compare(moment{low, 0}) >= 0 && a.compare(moment{high, 0}) <= 0
}

// definition is a rate by its definition.
type definition struct {
	r   *Bucket
	tat moment
}

// plus adds what the cost takes, which may be below 0.
func (x *definition) plus(a moment, cost int64) moment {
	n := x.r.Amount
	whole := cost*x.r.Per - (cost*x.r.Per%n+n)%n // rounded down, also below 0
	a.part += cost*x.r.Per - whole
	return moment{a.ns + whole/n + a.part/n, a.part % n}
}

// after is max(now, TAT) and what the cost takes.
func (x *definition) after(now, cost int64) moment {
	start := moment{now, 0}
	if start.compare(x.tat) < 0 {
		start = x.tat
	}
	return x.plus(start, cost)
}

func (x *definition) take(now, cost int64) { x.tat = x.after(now, cost) }

// correct gives back what was too much, or takes what was too little, up to a debt of one burst.
func (x *definition) correct(now, reserved, actual int64) {
	most := x.plus(moment{now + x.r.Tau, 0}, x.r.Burst)
	switch {
	case actual <= reserved:
		x.tat = x.plus(x.tat, actual-reserved)
	case x.tat.compare(most) < 0:
		if x.take(now, actual-reserved); x.tat.compare(most) > 0 {
			x.tat = most
		}
	}
}

// TestRateFollowsTheDefinitionForLong: in a million operations on one rate what is rounded adds up
// to no more than 1 ns for each since the bucket was full, so that nothing drifts: neither what
// is decided nor TAT differs from the definition by more than that.
func TestRateFollowsTheDefinitionForLong(t *testing.T) {
	ops := 1_000_000
	if testing.Short() {
		ops = 20_000
	}
	for seed, r := range []Bucket{
		NewBucket(3, time.Second, 10),
		NewBucket(450_000, time.Minute, 2_000),
		NewBucket(999_999_937, time.Second, 50_000), // a prime: no cost but multiples of it is whole
		NewBucket(7, time.Hour, 1),
	} {
		t.Run(fmt.Sprintf("%d in %v", r.Amount, time.Duration(r.Per)), func(t *testing.T) {
			follow(t, &r, ops, rand.New(rand.NewPCG(uint64(seed), 1)))
		})
	}
}

func follow(t *testing.T, r *Bucket, ops int, random *rand.Rand) {
	x := &definition{r: r}
	// A charge makes TAT later than it should be by less than 1 ns, a correction so or sooner.
	now, rounded, corrected := int64(rateNoon), int64(0), int64(0)
	passed, refused, full := 0, 0, 0
	for n := range ops {
		// As much as flows in is asked for: so it is neither full nor empty for long.
		cost := 1 + random.Int64N(r.Burst)
		if random.IntN(4) > 0 {
			now += random.Int64N(2 * r.increment(cost))
		}
		if r.Tat <= now && x.tat.within(0, now) { // nothing of what was rounded is left
			rounded, corrected, full = 0, 0, full+1
		}
		ok, wait := r.Check(now, cost)
		early := x.after(now, cost) // by so much, or in time
		early.ns -= now + r.Tau
		if ok && !early.within(-arith.NoBound, corrected) || !ok && !early.within(wait-rounded-1, wait+corrected) {
			t.Fatalf("operation %d: %v, after %d ns; by the definition it is %+v early; %d were rounded", n, ok, wait, early,
				rounded)
		}
		rounded++
		switch actual := random.Int64N(2 * r.Burst); {
		case random.IntN(100) == 0: // even if it may not
			r.Take(now, cost)
			x.take(now, cost)
		case random.IntN(10) == 0:
			corrected++
			r.Correct(now, cost, actual, r.Burst)
			x.correct(now, cost, actual)
		case ok:
			passed++
			r.Take(now, cost)
			x.take(now, cost)
		default:
			refused++
		}
		// Where the bucket is full it does not matter since when.
		if tat := x.after(now, 0); !tat.within(max(now, r.Tat)-rounded, max(now, r.Tat)+corrected) {
			t.Fatalf("operation %d: TAT is %d, by the definition %+v, and %d were rounded", n, max(now, r.Tat), tat, rounded)
		}
	}
	if min(passed, refused, full) < ops/100 {
		t.Errorf("of %d, %d passed, %d were refused, and the bucket was full %d times", ops, passed, refused, full)
	}
}
