package adjust

import (
	"fmt"
	"math/bits"

	"taskbus/coordinator"
)

// Idle is what the rule about use knows of one group or agent at the end of a day.
type Idle struct {
	// Weight that it has now, at least 0, of which the rule has taken Lost.
	Weight, Lost int64
	// Used on this day, and Due: what was its own for it (see Due). Both at least 0, in the same
	// unit.
	Used, Due int64
	// Run is on how many days in a row, until yesterday, it has used too little.
	Run int
}

// Verdict is what a rule says.
type Verdict struct {
	// Run and Taken (Lost or Raised) as they are from now on.
	Run   int
	Taken int64
	// Why something has changed, for people; empty: nothing has.
	Why string
}

// JudgeIdle says what is lost, or given back. A day on which nothing was its own says nothing and
// ends no run: nobody can use a part of nothing.
func JudgeIdle(r *coordinator.IdleRule, n Idle) Verdict {
	v := Verdict{Run: n.Run, Taken: n.Lost}
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
			v.Why = fmt.Sprintf("%d of %d of its own used: weight %d again instead of %d", n.Used, n.Due, n.Weight+back, n.Weight)
		}
	}
	return v
}

// below tells whether part is less than so many percent of whole, exactly.
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
