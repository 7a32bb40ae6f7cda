package fairshare

import "slices"

// TraceCall is one of a trace: what it has taken, in tokens.
type TraceCall struct{ Input, Output int64 }

// EstimatorScore is how one way to reserve output tokens does on a trace.
type EstimatorScore struct {
	Name string
	// Over is what was reserved and not taken, Under what was taken and not reserved, call by
	// call, as parts of all that was taken.
	Over, Under float64
}

// comparedWindow is how many of the latest calls the window of CompareEstimators holds.
const comparedWindow = 500

// CompareEstimators plays calls, in the order of time, through several ways to reserve output
// tokens. Every way knows a call's input and, as soon as it has reserved, its output too: as
// if no two calls ran at the same time. maxOutput is what callers allow at most.
//
// The ways: the maximum; a fixed 512; the p90 of the latest 500 calls, exactly; the Estimator.
func CompareEstimators(calls []TraceCall, maxOutput int64) []EstimatorScore {
	e, window := NewEstimator(), newExactWindow(comparedWindow)
	ways := []struct {
		name    string
		reserve func(input int64) int64
		observe func(TraceCall)
	}{
		{"max_tokens", func(int64) int64 { return maxOutput }, func(TraceCall) {}},
		{"default 512", func(int64) int64 { return atMost(DefaultOutput, maxOutput) }, func(TraceCall) {}},
		{"window p90", func(int64) int64 { return atMost(window.p90(), maxOutput) }, func(c TraceCall) { window.observe(c.Output) }},
		{"p90 by log2(input) bucket", func(input int64) int64 { return e.Estimate("", "", input, maxOutput).Reserve },
			func(c TraceCall) { e.Observe("", "", c.Input, c.Output) }},
	}
	var taken int64
	for _, c := range calls {
		taken += c.Output
	}
	scores := make([]EstimatorScore, len(ways))
	for i, way := range ways {
		var over, under int64
		for _, c := range calls {
			reserved := way.reserve(c.Input)
			over += max(reserved-c.Output, 0)
			under += max(c.Output-reserved, 0)
			way.observe(c)
		}
		scores[i] = EstimatorScore{Name: way.name, Over: float64(over) / float64(max(taken, 1)), Under: float64(under) / float64(max(taken, 1))}
	}
	return scores
}

// exactWindow holds the latest amounts, by time and by size.
type exactWindow struct{ latest, sorted []int64 }

func newExactWindow(most int) *exactWindow {
	return &exactWindow{latest: make([]int64, 0, most), sorted: make([]int64, 0, most)}
}

func (w *exactWindow) observe(tokens int64) {
	if len(w.latest) == cap(w.latest) {
		i, _ := slices.BinarySearch(w.sorted, w.latest[0])
		w.sorted = slices.Delete(w.sorted, i, i+1)
		w.latest = slices.Delete(w.latest, 0, 1)
	}
	i, _ := slices.BinarySearch(w.sorted, tokens)
	w.sorted = slices.Insert(w.sorted, i, tokens)
	w.latest = append(w.latest, tokens)
}

// p90 is the least amount that at most a tenth exceed; the default before there are enough.
func (w *exactWindow) p90() int64 {
	n := len(w.sorted)
	if n < MinSamples {
		return DefaultOutput
	}
	return w.sorted[n-1-n/aboveP90]
}
