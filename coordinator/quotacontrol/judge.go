package quotacontrol

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"taskbus/coordinator"
)

// idle is what the rule about use knows of one group or agent at the end of a day.
type idle struct {
	// Weight that it has now, at least 0, of which the rule has taken Lost.
	Weight, Lost int64
	// Used on this day, and Due: what was its own for it. Both at least 0, in the same unit.
	Used, Due int64
	// Run is on how many days in a row, until yesterday, it has used too little.
	Run int
}

// verdict is what a rule says.
type verdict struct {
	// Run and Taken (Lost or Raised) as they are from now on.
	Run   int
	Taken int64
	// Why something has changed, for people; empty: nothing has.
	Why string
}

// judgeIdle says what is lost, or given back. A day on which nothing was its own says nothing and
// ends no run: there is no part of nothing to use.
func judgeIdle(r *coordinator.IdleRule, n idle) verdict {
	v := verdict{Run: n.Run, Taken: n.Lost}
	switch {
	case n.Due <= 0:
	case below(n.Used, n.Due, r.BelowPercent):
		if v.Run++; v.Run < r.Days {
			return v
		}
		v.Run = 0 // the next point takes as many days again
		if take := min(r.Step, n.Weight-r.MinWeight); take > 0 {
			v.Taken += take
			v.Why = fmt.Sprintf("under %d %% of its own used on %s (%d of %d on the last): weight %d instead of %d",
				r.BelowPercent, days(r.Days), n.Used, n.Due, n.Weight-take, n.Weight)
		}
	default:
		v.Run = 0
		if back := min(r.Step, n.Lost); back > 0 {
			v.Taken -= back
			v.Why = fmt.Sprintf("%d of %d of its own used: weight %d again instead of %d",
				n.Used, n.Due, n.Weight+back, n.Weight)
		}
	}
	return v
}

// below reports whether part is less than so many percent of whole, exactly.
func below(part, whole, percent int64) bool {
	h1, l1 := bits.Mul64(uint64(part), 100)
	h2, l2 := bits.Mul64(uint64(whole), uint64(percent))
	return h1 < h2 || h1 == h2 && l1 < l2
}

func days(n int) string {
	if n == 1 {
		return "one day"
	}
	return fmt.Sprintf("%d days in a row", n)
}

// LeastAnswers is how many answers a day must have before their mean says anything: one call that
// hung changes no limits.
const LeastAnswers = 10

// slow is what the rule about answers knows of one group or agent at the end of a day.
type slow struct {
	// Answers on this day that say how long they took, at least 0, and Took in all.
	Answers int64
	Took    time.Duration
	// Raised is by how many percent the rule has raised its limits.
	Raised int64
}

// judgeSlow says by how many percent its limits are raised from now on. A day with fewer
// than LeastAnswers says nothing.
func judgeSlow(r *coordinator.SlowRule, n slow) verdict {
	v := verdict{Taken: n.Raised}
	if n.Answers < LeastAnswers {
		return v
	}
	switch mean := n.Took / time.Duration(n.Answers); {
	case mean > r.Above:
		if v.Taken = max(n.Raised, min(n.Raised+r.Percent, r.MaxPercent)); v.Taken > n.Raised {
			v.Why = fmt.Sprintf("answers took %s on average, more than %s: its limits are raised by %d %% instead of %d %%",
				mean.Round(time.Millisecond), r.Above, v.Taken, n.Raised)
		}
	case n.Raised > 0:
		v.Taken = max(0, n.Raised-r.Percent)
		v.Why = fmt.Sprintf("answers took %s on average, no more than %s: its limits are raised by %d %% instead of %d %%",
			mean.Round(time.Millisecond), r.Above, v.Taken, n.Raised)
	}
	return v
}

// share is whole · part / of without overflow; 0 where of is 0.
func share(whole, part, of int64) int64 {
	if whole <= 0 || part <= 0 || of <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(whole), uint64(part))
	if hi >= uint64(of) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return int64(min(q, math.MaxInt64))
}
