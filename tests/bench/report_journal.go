package main

import (
	"fmt"
	"slices"
)

// The targets of the journal and of who stands by.
const (
	targetOfItself       = 0.75 // of the rate without the journal
	targetP99Millis      = 10.0 // at latencyRate, on an idle machine
	targetStandbyCPU     = 0.05 // of a core
	targetTakeOverMillis = 2000.0
	targetStartMillis    = 3000.0
	targetBytesPerID     = 64.0
)

// judgeJournal makes these verdicts.
func (r *results) judgeJournal() []verdict {
	return []verdict{
		r.judgeOfItself(), r.judgeRate(withoutJournal), r.judgeCPU(withoutJournal), r.judgeP99(),
		r.judgeStandbyCPU(), r.standbyBehind(), r.judgeTakeOver(), r.judgeLost(),
		r.judgeStart(), r.startWithoutSnapshot(), r.judgeWindow(),
	}
}

// judgeOfItself is what the journal leaves of the throughput.
func (r *results) judgeOfItself() verdict {
	v := verdict{What: "throughput, of its own without the journal", Target: fmt.Sprintf("≥ %.2f", targetOfItself), Word: notMeasured}
	rate, cpu := func(t throughputRun) float64 { return t.TasksPerSec }, func(t throughputRun) float64 { return t.CPUMicros }
	of := func(subject string) []float64 { return throughputOf(r.Throughput, subject, rate) }
	ratios := pairwise(of(withoutJournal), of("taskbus"), func(a, b float64) float64 { return b / a })
	if len(ratios) == 0 {
		return v
	}
	return v.measured(median(ratios) >= targetOfItself, fmt.Sprintf("%.2f", median(ratios)),
		fmt.Sprintf("pairs %.2f; CPU per task %.1f µs without, %.1f with it", ratios,
			median(throughputOf(r.Throughput, withoutJournal, cpu)), median(throughputOf(r.Throughput, "taskbus", cpu))))
}

// judgeP99 holds the latency itself against a target, beside the others'.
func (r *results) judgeP99() verdict {
	v := verdict{What: fmt.Sprintf("p99 at %d tasks/s", latencyRate), Target: fmt.Sprintf("≤ %.0f ms", targetP99Millis), Word: notMeasured}
	p99 := func(subject string) float64 {
		return median(latencyOf(r.Latency, subject, func(l latencyRun) float64 { return l.P99Millis }))
	}
	p50 := func(subject string) float64 {
		return median(latencyOf(r.Latency, subject, func(l latencyRun) float64 { return l.P50Millis }))
	}
	got := p99("taskbus")
	if got == 0 {
		return v
	}
	return v.measured(got <= targetP99Millis, fmt.Sprintf("%.2f ms", got),
		fmt.Sprintf("p50/p99: relay %.2f/%.2f, without the journal %.2f/%.2f, with it %.2f/%.2f ms (meant for an idle machine)",
			p50("relay"), p99("relay"), p50(withoutJournal), p99(withoutJournal), p50("taskbus"), got))
}

func (r *results) judgeStandbyCPU() verdict {
	v := verdict{What: fmt.Sprintf("standby, CPU at %d tasks/s", latencyRate), Target: fmt.Sprintf("≤ %.0f %% of a core", 100*targetStandbyCPU), Word: notMeasured}
	s := r.Standby
	if s.PerSecond == 0 {
		return v
	}
	return v.measured(s.CPUShare <= targetStandbyCPU, fmt.Sprintf("%.1f %%", 100*s.CPUShare),
		fmt.Sprintf("the leader %.1f %%; with results, and %d statuses/s", 100*s.LeaderCPUShare, standbyStatuses))
}

func (r *results) standbyBehind() verdict {
	v := verdict{What: "standby, behind the leader", Target: noTarget, Word: notMeasured}
	s := r.Standby
	if len(s.Behind) == 0 {
		return v
	}
	v.Word, v.Result = "", fmt.Sprintf("%.0f records", median(s.Behind))
	v.Note = fmt.Sprintf("the most of %d samples %.0f; of %.0f records/s", len(s.Behind), slices.Max(s.Behind), s.RecordsPerSecond)
	return v
}

func (r *results) judgeTakeOver() verdict {
	s := r.Standby
	v := judgeSlowest("leader killed under load: until the next leads", targetTakeOverMillis, s.TakeOverMillis)
	if len(s.PauseMillis) > 0 {
		v.Note += fmt.Sprintf("; longest time without a result %.0f ms", slices.Max(s.PauseMillis))
	}
	return v
}

func (r *results) judgeLost() verdict {
	v := verdict{What: "tasks lost in these take-overs", Target: "0", Word: notMeasured}
	s := r.Standby
	if s.Tasks == 0 {
		return v
	}
	return v.measured(s.Lost == 0, fmt.Sprint(s.Lost), fmt.Sprintf("of %d; %d had a second result", s.Tasks, s.Twice))
}

// startsOf are the runs with a snapshot, or without.
func (s *startResult) startsOf(snapshot bool, f func(startRun) float64) []float64 {
	return collect(slices.DeleteFunc(slices.Clone(s.Runs), func(run startRun) bool { return run.Snapshot != snapshot }), f)
}

func readyMillis(run startRun) float64 { return run.Millis }
func peakRSS(run startRun) float64     { return float64(run.PeakRSSBytes) }

func (r *results) judgeStart() verdict {
	v := verdict{What: fmt.Sprintf("start with %d tasks in the journal", r.Start.Tasks), Target: fmt.Sprintf("≤ %.1f s", targetStartMillis/1000), Word: notMeasured}
	if r.Start.Tasks == 0 {
		v.What = fmt.Sprintf("start with %d tasks in the journal", startTasks)
	}
	runs := r.Start.startsOf(true, readyMillis)
	if len(runs) == 0 {
		return v
	}
	return v.measured(median(runs) <= targetStartMillis, fmt.Sprintf("%.0f ms", median(runs)),
		fmt.Sprintf("runs %.0f ms; %.0f MiB at most; %d records after the snapshot", runs,
			mebibytes(int64(slices.Max(r.Start.startsOf(true, peakRSS)))), min(tailRecords, r.Start.Records)))
}

func (r *results) startWithoutSnapshot() verdict {
	v := verdict{What: "the same without a snapshot", Target: noTarget, Word: notMeasured}
	runs := r.Start.startsOf(false, readyMillis)
	if len(runs) == 0 {
		return v
	}
	v.Word, v.Result = "", fmt.Sprintf("%.0f ms", median(runs))
	v.Note = fmt.Sprintf("all %d records in %d messages; %.0f MiB at most", r.Start.Records, r.Start.Messages,
		mebibytes(int64(slices.Max(r.Start.startsOf(false, peakRSS)))))
	return v
}

// judgeWindow judges the size at which an id takes most.
func (r *results) judgeWindow() verdict {
	v := verdict{What: "dedupe window, an id", Target: fmt.Sprintf("≤ %.0f bytes", targetBytesPerID), Word: notMeasured}
	if len(r.Window) == 0 {
		return v
	}
	most := slices.Max(collect(r.Window, func(w windowRun) float64 { return w.BytesPerID }))
	return v.measured(most <= targetBytesPerID, fmt.Sprintf("%.1f bytes", most), r.Window.String()+" ids")
}
