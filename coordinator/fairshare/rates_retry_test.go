package fairshare

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// refused is a random history of a tree of rates: it takes what it gets, and looks with verify at
// what is refused for now.
func (w *world) refused(verify func(p *Path, c *Charge, v Verdict)) {
	w.overdraws = true
	for range 40 {
		w.now = w.now.Add(time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Just(int64(0)),
			rapid.Int64Range(0, int64(time.Second))).Draw(w.t, "on")))
		if n := len(w.keys); n > 0 && rapid.IntRange(0, 4).Draw(w.t, "settle") == 0 {
			w.end(w.keys[n-1], 9)
			continue
		}
		c := w.drawRates(400)
		p := w.l.PathOf(c)
		if v := w.l.Check(w.now, &p, c); !v.OK && !v.Permanent {
			if v.Limit != LimitRate || !v.RetryAt.After(w.l.Now()) {
				w.t.Fatalf("at %v: %+v", w.l.Now(), v)
			}
			verify(&p, c, v)
			w.now = w.l.Now()
		}
		w.reserve(id(len(w.keys)+1), c)
		w.judgeRates()
	}
}

// before gives two times before the one that is told: some one, and that 1 ns before.
func (w *world) before(v *Verdict) []time.Time {
	between := rapid.Int64Range(0, int64(v.RetryAt.Sub(w.l.Now()))-1).Draw(w.t, "between")
	return []time.Time{w.l.Now().Add(time.Duration(between)), v.RetryAt.Add(-1)}
}

// TestRetryAtOfCaps: where no rate may be exceeded, the same passes at the time that a refusal
// tells, and not 1 ns before, however many of them refuse: each is sure to pass it from some time
// on, and the latest of these is told.
func TestRetryAtOfCaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, hardRates.draw(t))
		w.refused(func(p *Path, c *Charge, v Verdict) {
			for _, at := range w.before(&v) {
				if again := w.l.Check(at, p, c); again.OK || !again.RetryAt.Equal(v.RetryAt) {
					t.Fatalf("%v before the time that was told: %+v, was %+v", v.RetryAt.Sub(at), again, v)
				}
			}
			if again := w.l.Check(v.RetryAt, p, c); !again.OK {
				t.Fatalf("at the time that was told: %+v, was %+v", again, v)
			}
		})
	})
}

// TestRetryAtOfRates: what may borrow does not pass before the time that a refusal tells, nor for
// sure then: what others leave it is what is beyond all that they and it itself are assured of,
// and while the one above gains, it gains itself. Asking again at each time that is returned passes in the
// end, and would not have 1 ns before. Where only one rate is asked, it passes at the first time if what it
// waits for is its own by then, and at OwnAt at the latest.
func TestRetryAtOfRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, anyRates.draw(t))
		w.refused(func(p *Path, c *Charge, first Verdict) {
			asked, most := w.asked(p, c)
			for v, asks := first, int64(1); !v.OK; asks++ {
				if v.Permanent || v.Limit != LimitRate || !v.RetryAt.After(w.l.Now()) || asks > most {
					t.Fatalf("asked %d times of at most %d, at %v: %+v, at first %+v", asks, most, w.l.Now(), v, first)
				}
				own := !v.OwnAt.IsZero()
				if own && (v.Owns || v.OwnAt.Before(v.RetryAt)) {
					t.Fatalf("its own is back at %v, and it is to ask again later: %+v", v.OwnAt, v)
				}
				for _, at := range w.before(&v) {
					if again := w.l.Check(at, p, c); again.OK || again.RetryAt.Before(v.RetryAt) {
						t.Fatalf("%v before the time that was told: %+v, was %+v", v.RetryAt.Sub(at), again, v)
					}
				}
				again := w.l.Check(v.RetryAt, p, c)
				if asked == 1 && !again.OK && (v.Owns || own && (v.OwnAt.Equal(v.RetryAt) || again.RetryAt.After(v.OwnAt))) {
					t.Fatalf("what is its own is back: %+v, was %+v", again, v)
				}
				v = again
			}
		})
	})
}

// asked tells how many rates a charge is asked of: the nearest one of each chain and dimension;
// and how often it may be refused, at most: from one refusal to the next a rate through which
// something is asked of the one above it has gained at least 1 of its own, of which that one keeps
// more from then on, or what has refused does so no more.
func (w *world) asked(p *Path, c *Charge) (n int, most int64) {
	for _, u := range w.l.ratesOf(p, &c.Amounts, nil) {
		n++
		for s := u.leaf; s != nil; s = s.Up {
			most += s.Burst + 2
		}
	}
	return n, most
}

// TestRateWindowsInTrees: in no window does more pass at a node, or below it, than its rate and
// its ceiling let pass (world.judgeWindows): of trees of rates, when all ask all the time.
func TestRateWindowsInTrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, anyRates.draw(t))
		w.overdraws = rapid.Bool().Draw(t, "overdraws")
		for range 80 {
			c := w.drawRates(300)
			v := w.reserve(id(len(w.keys)+1), c)
			switch what := rapid.IntRange(0, 9).Draw(t, "then"); {
			case !v.OK && !v.Permanent && what < 5:
				w.now = v.RetryAt
			case what < 7:
				w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "on")))
			case what < 9 && len(w.keys) > 0:
				w.end(rapid.SampledFrom(w.keys).Draw(t, "key"), 8+what-7)
			}
			w.judgeRates()
		}
	})
}
