package main

import (
	"fmt"
	"slices"
)

// The targets of agents that choose.
const (
	targetBeyondWindow = 5.0     // ms, p99
	targetGranted      = 5_000.0 // tasks a second
	targetBeside       = 0.90    // of the rate of pushing alone
)

// judgeMarket makes these verdicts.
func (r *results) judgeMarket() []verdict {
	return []verdict{
		r.judgeWindowed(), r.earlyAuctions(), r.judgeAtOnce(amplySlots), r.judgeAtOnce(marketCount / bidderCount),
		r.judgeGranted(), r.judgeBeside(), r.besideLatency(),
	}
}

// judgeWindowed is what an auction takes beyond its window.
func (r *results) judgeWindowed() verdict {
	v := verdict{What: fmt.Sprintf("auction of %d bidders, p99 beyond its window", bidderCount), Target: fmt.Sprintf("≤ %.0f ms", targetBeyondWindow), Word: notMeasured}
	m := r.Market
	if m.Window.Tasks == 0 {
		return v
	}
	return v.measured(m.Window.P99Millis <= targetBeyondWindow, fmt.Sprintf("%.2f ms", m.Window.P99Millis),
		fmt.Sprintf("p50 %.2f ms, max %.2f ms, of %d; from the publish on p50 %.2f ms, p99 %.2f ms, a pushed task's %.2f and %.2f ms, one hop through the broker %.2f and %.2f ms",
			m.Window.P50Millis, m.Window.MaxMillis, m.Window.Tasks, m.Whole.P50Millis, m.Whole.P99Millis, m.Push.P50Millis, m.Push.P99Millis, m.Hop.P50Millis, m.Hop.P99Millis))
}

func (r *results) earlyAuctions() verdict {
	v := verdict{What: "auction that all answer at once", Target: noTarget, Word: notMeasured}
	if e := r.Market.Early; e.Tasks > 0 {
		v.Word, v.Result = "", fmt.Sprintf("p50 %.2f ms", e.P50Millis)
		v.Note = fmt.Sprintf("p99 %.2f ms, max %.2f ms, of %d, from the publish on; of both kinds %d were decided without bids",
			e.P99Millis, e.MaxMillis, e.Tasks, r.Market.WithoutBids)
	}
	return v
}

// judgeAtOnce: every auction must have been awarded by bids.
func (r *results) judgeAtOnce(slots int) verdict {
	v := verdict{What: fmt.Sprintf("%d auctions at once, awarded", marketCount), Target: fmt.Sprint(marketCount), Word: notMeasured}
	if slots < amplySlots {
		v.What = fmt.Sprintf("the same, %d slots of each bidder", slots)
	}
	runs := slices.DeleteFunc(slices.Clone(r.Market.AtOnce), func(a atOnceRun) bool { return a.Slots != slots })
	if len(runs) == 0 {
		return v
	}
	least := slices.Min(collect(runs, func(a atOnceRun) float64 { return float64(a.Awarded) }))
	of := func(f func(atOnceRun) float64) float64 { return median(collect(runs, f)) }
	return v.measured(least >= marketCount, fmt.Sprintf("%.0f", least),
		fmt.Sprintf("all delivered after %.0f ms; %.1f bids each counted, CPU %.2f ms each", of(func(a atOnceRun) float64 { return 1000 * a.Seconds }),
			of(func(a atOnceRun) float64 { return float64(a.Bids) / float64(a.Auctions) }), of(func(a atOnceRun) float64 { return a.CPUMillis })))
}

func pullsOf(runs []pullRun, mode string, f func(pullRun) float64) []float64 {
	return collect(slices.DeleteFunc(slices.Clone(runs), func(p pullRun) bool { return p.Mode != mode }), f)
}

func (r *results) judgeGranted() verdict {
	v := verdict{What: fmt.Sprintf("granted to %d agents that claim %d at most", claimerCount, claimItems), Target: fmt.Sprintf("≥ %.0f/s", targetGranted), Word: notMeasured}
	rate, cpu := func(p pullRun) float64 { return p.TasksPerSec }, func(p pullRun) float64 { return p.CPUMicros }
	rates := pullsOf(r.Pull, modePull, rate)
	if len(rates) == 0 {
		return v
	}
	return v.measured(median(rates) >= targetGranted, fmt.Sprintf("%.0f/s", median(rates)),
		fmt.Sprintf("runs %.0f; the same pushed %.0f/s; CPU per task %.1f and %.1f µs", rates,
			median(pullsOf(r.Pull, modePush, rate)), median(pullsOf(r.Pull, modePull, cpu)), median(pullsOf(r.Pull, modePush, cpu))))
}

func (r *results) judgeBeside() verdict {
	v := verdict{What: fmt.Sprintf("pushing beside %d auctions and %d claimed tasks/s", besideAuctions, besideClaimed),
		Target: fmt.Sprintf("≥ %.2f", targetBeside), Word: notMeasured}
	rate := func(t throughputRun) float64 { return t.TasksPerSec }
	alone, beside := throughputOf(r.Beside.Throughput, besideNothing, rate), throughputOf(r.Beside.Throughput, besideChoosing, rate)
	if len(alone) == 0 || len(beside) == 0 {
		return v
	}
	ratios := pairwise(alone, beside, func(a, b float64) float64 { return b / a })
	return v.measured(median(ratios) >= targetBeside, fmt.Sprintf("%.2f", median(ratios)),
		fmt.Sprintf("pairs %.2f; alone %.0f/s, beside it %.0f/s", ratios, median(alone), median(beside)))
}

func (r *results) besideLatency() verdict {
	v := verdict{What: fmt.Sprintf("the same, p50 at %d tasks/s", latencyRate), Target: noTarget, Word: notMeasured}
	of := func(subject string, f func(latencyRun) float64) float64 {
		return median(latencyOf(r.Beside.Latency, subject, f))
	}
	p50, p99 := func(l latencyRun) float64 { return l.P50Millis }, func(l latencyRun) float64 { return l.P99Millis }
	if len(r.Beside.Latency) > 1 {
		v.Word, v.Result = "", fmt.Sprintf("%.2f ms", of(besideChoosing, p50))
		v.Note = fmt.Sprintf("alone %.2f ms; p99 %.2f ms, alone %.2f ms", of(besideNothing, p50), of(besideChoosing, p99), of(besideNothing, p99))
	}
	return v
}
