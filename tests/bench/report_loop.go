package main

import (
	"fmt"
	"slices"
)

// The targets of what follows when agents tell how their tasks end.
const (
	targetWithResults  = 0.90   // of the rate with a bare reader
	targetSilentMillis = 5000.0 // beyond the threshold
	targetOfflineSoon  = 500.0  // ms: "at once"
	targetGoneMillis   = 2000.0
	targetLooks        = 2.0 // percent of a core
)

// judgeLoop makes these verdicts. Of the departures the slowest counts.
func (r *results) judgeLoop() []verdict {
	d := r.Detection
	killed := "killed, its consumer gone: until noticed"
	gone := judgeSlowest(killed, targetGoneMillis, d.GoneMillis)
	if len(d.KilledMillis) > 0 {
		gone.Note += fmt.Sprintf("; its tasks done by another: median %.0f ms", median(d.KilledMillis))
	}
	return []verdict{
		r.judgeResults(), r.cycleRate(), r.cycleLatency(),
		judgeSlowest("silent: threshold to waiting tasks redone", targetSilentMillis, d.SilentMillis),
		judgeSlowest("says offline: to waiting tasks redone", targetOfflineSoon, d.OfflineMillis),
		gone, r.judgeLooks(),
	}
}

func resultsOf(runs []resultsRun, reader string, f func(resultsRun) float64) []float64 {
	return collect(slices.DeleteFunc(slices.Clone(runs), func(t resultsRun) bool { return t.Reader != reader }), f)
}

func (r *results) judgeResults() verdict {
	v := verdict{What: "rate with results, of a bare reader's", Target: fmt.Sprintf("≥ %.2f", targetWithResults), Word: notMeasured}
	rate := func(t resultsRun) float64 { return t.TasksPerSec }
	bare, taskbus := resultsOf(r.Results, "reader", rate), resultsOf(r.Results, "taskbus", rate)
	if len(taskbus) == 0 {
		return v
	}
	ratios := pairwise(bare, taskbus, func(a, b float64) float64 { return b / a })
	cpu := func(t resultsRun) float64 { return t.CPUMicros }
	return v.measured(median(ratios) >= targetWithResults, fmt.Sprintf("%.2f", median(ratios)),
		fmt.Sprintf("pairs %.2f; bare reader %.0f/s, taskbus %.0f/s; CPU per task %.1f and %.1f µs", ratios,
			median(bare), median(taskbus), median(resultsOf(r.Results, "reader", cpu)), median(resultsOf(r.Results, "taskbus", cpu))))
}

func (r *results) judgeLooks() verdict {
	v := verdict{What: fmt.Sprintf("CPU at %d agents, idle or a task each", looksAgents), Target: fmt.Sprintf("≤ %.0f %% of a core", targetLooks), Word: notMeasured}
	l := r.Looks
	if l.Agents == 0 {
		return v
	}
	most := max(l.IdlePercent, l.BusyPercent)
	return v.measured(most <= targetLooks, fmt.Sprintf("%.1f %%", most),
		fmt.Sprintf("idle %.1f %%, with a task each %.1f %%", l.IdlePercent, l.BusyPercent))
}

func (r *results) cycleRate() verdict {
	v := verdict{What: fmt.Sprintf("whole cycle, %d SDK agents", fleetSize), Target: noTarget, Word: notMeasured}
	if len(r.Cycle) == 0 {
		return v
	}
	of := func(f func(cycleRun) float64) float64 { return median(collect(r.Cycle, f)) }
	v.Word, v.Result = "", fmt.Sprintf("%.0f tasks/s", of(func(c cycleRun) float64 { return c.TasksPerSec }))
	v.Note = fmt.Sprintf("%d slots each; CPU per task: coordinator %.1f µs, agents %.1f µs", r.Cycle[0].Slots,
		of(func(c cycleRun) float64 { return c.CPUMicros }), of(func(c cycleRun) float64 { return c.AgentsCPUMicros }))
	return v
}

func (r *results) cycleLatency() verdict {
	v := verdict{What: fmt.Sprintf("assign to result at %d tasks/s", latencyRate), Target: noTarget, Word: notMeasured}
	if len(r.Cycle) == 0 {
		return v
	}
	of := func(f func(latencyRun) float64) float64 {
		return median(collect(r.Cycle, func(c cycleRun) float64 { return f(c.Latency) }))
	}
	v.Word, v.Result = "", fmt.Sprintf("p50 %.2f ms", of(func(l latencyRun) float64 { return l.P50Millis }))
	v.Note = fmt.Sprintf("p99 %.2f ms, max %.2f ms", of(func(l latencyRun) float64 { return l.P99Millis }), of(func(l latencyRun) float64 { return l.MaxMillis }))
	return v
}

// judgeSlowest holds the slowest of a few times against a target; ms.
func judgeSlowest(what string, target float64, millis []float64) verdict {
	v := verdict{What: what, Target: fmt.Sprintf("≤ %.1f s", target/1000), Word: notMeasured}
	if len(millis) == 0 {
		return v
	}
	slowest := slices.Max(millis)
	return v.measured(slowest <= target, fmt.Sprintf("%.0f ms", slowest), fmt.Sprintf("the slowest of %d; median %.0f ms", len(millis), median(millis)))
}
