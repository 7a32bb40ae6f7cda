package views

import (
	"fmt"
	"math"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/view"
)

// Queued returns where a waiting task stands, for people.
func Queued(p *engine.Place) *view.Queued {
	q := &view.Queued{Group: p.Group, Lane: p.Lane, Ahead: p.Ahead, AheadAtLeast: p.AtLeast, Waiting: p.Waiting,
		Others: p.Others, Higher: p.Higher, Lower: p.Lower, Unbounded: p.Unbounded}
	if v := p.Lacks; v != nil {
		q.Quota = &view.QuotaLack{Node: v.Node, Dimension: v.Dimension.String(), Limit: v.Limit.String(),
			RetryAt: v.RetryAt}
	}
	if p.Quotas && p.Unbounded == "" && p.Bound < math.MaxInt64 {
		q.CostBefore, q.CostLikely, q.QuotaDelay = p.Bound, p.Likely, p.QuotaDelay.Seconds()
		if p.Rate > 0 {
			q.StartsWithin = Finite(float64(p.Bound)/p.Rate + p.QuotaDelay.Seconds())
			q.StartsLikely = Finite(float64(p.Likely)/p.Rate + p.QuotaLikely.Seconds())
		}
	}
	if p.Starts > 0 {
		q.StartsLikely = Finite(p.Starts.Seconds())
	}
	q.Text, q.Start = PlaceText(p), startText(p, q)
	return q
}

// PlaceText says how many tasks go before it.
func PlaceText(p *engine.Place) string {
	var b strings.Builder
	whom, alone := "that wait for the same agents", "that waits for the same agents"
	if p.Quotas {
		alone = fmt.Sprintf("of group %s with priority %s", p.Group, p.Priority)
		whom = alone
	}
	switch {
	case p.Lane != "":
		fmt.Fprintf(&b, "it is in lane %s, which holds %s: at most %s %s go before it", p.Lane, tasks(max(1, p.InLane)),
			tasks(p.Ahead), whom)
	case p.Ahead > 0:
		least := ""
		if p.AtLeast {
			least = "at least "
		}
		fmt.Fprintf(&b, "%s%d of %s %s go before it", least, p.Ahead, tasks(p.Waiting), whom)
	case p.Waiting > 1:
		fmt.Fprintf(&b, "it is the first of %s %s", tasks(p.Waiting), whom)
	default:
		fmt.Fprintf(&b, "it is the only task %s", alone)
	}
	if p.Others > 0 {
		fmt.Fprintf(&b, "; by weight it takes turns with %s of other groups", tasks(p.Others))
	}
	switch {
	case p.Strict && p.Higher > 0:
		fmt.Fprintf(&b, "; %s of higher priority go first", tasks(p.Higher))
	case !p.Strict && p.Higher+p.Lower > 0 && p.Part < 1:
		fmt.Fprintf(&b, "; priority %s has %.2g %% of the dispatches while %d of higher and %d of lower priority wait",
			p.Priority, 100*p.Part, p.Higher, p.Lower)
	}
	return b.String()
}

// startText returns when it starts, at the latest, or which rule prevents an estimate.
func startText(p *engine.Place, q *view.Queued) string {
	switch {
	case !p.Quotas && p.Starts <= 0:
		return "there is no estimate: no task for these agents was dispatched of late"
	case !p.Quotas:
		about := "in about "
		if p.AtLeast {
			about = "in at least "
		}
		return about + shortly(p.Starts) + ", if it goes on as now"
	case p.Unbounded != "":
		return "there is no bound: " + p.Unbounded
	}
	quota := ""
	if p.QuotaDelay > 0 {
		quota = fmt.Sprintf(", for %s of which quota may keep it", coordinator.Roughly(inSeconds(q.QuotaDelay)))
	}
	switch {
	case p.Bound == math.MaxInt64:
		return "the bound is beyond all numbers"
	case p.Rate <= 0 && quota != "":
		return fmt.Sprintf(
			"after at most %d units of cost, and %s for which quota may keep it; without recent dispatches there is no "+
				"estimate of the first",
			p.Bound, coordinator.Roughly(inSeconds(q.QuotaDelay)))
	case p.Rate <= 0:
		return fmt.Sprintf("after at most %d units of cost; without recent dispatches there is no estimate in seconds",
			p.Bound)
	default:
		return fmt.Sprintf("within %s%s, probably within %s: at the rate of the last minute, by these weights",
			coordinator.Roughly(inSeconds(q.StartsWithin)), quota, coordinator.Roughly(inSeconds(q.StartsLikely)))
	}
}

// shortly returns a time to a tenth of a second where it is short.
func shortly(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", max(0.1, d.Seconds()))
	}
	return coordinator.Roughly(d)
}

// inSeconds returns a time of so many of them, a hundred years at most.
func inSeconds(s float64) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	if s >= most.Seconds() {
		return most
	}
	return time.Duration(s * float64(time.Second))
}

func tasks(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}
