package adjust

import (
	"fmt"
	"time"

	"taskbus/coordinator"
)

// LeastAnswers is how many answers a day must have before their mean says anything: one call that
// hung changes no limits.
const LeastAnswers = 10

// Slow is what the rule about answers knows of one group or agent at the end of a day.
type Slow struct {
	// Answers on this day that say how long they took, at least 0, and Took in all.
	Answers int64
	Took    time.Duration
	// Raised is by how many percent the rule has raised its limits.
	Raised int64
}

// JudgeSlow says by how many percent its limits are raised from now on. A day with fewer
// than LeastAnswers says nothing.
func JudgeSlow(r *coordinator.SlowRule, n Slow) Verdict {
	v := Verdict{Taken: n.Raised}
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
