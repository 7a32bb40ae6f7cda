package sharing

import (
	"slices"

	"taskbus/coordinator/fairshare/estimates"
)

// EstimatorScore is how one way to reserve output tokens does on the calls of a tenant.
type EstimatorScore struct {
	Name string
	// Over is what was reserved and not taken, Under what was taken and not reserved, call by
	// call, as parts of all that was taken.
	Over, Under float64
}

// comparedWindow is how many of the latest calls the windows of CompareEstimators hold.
const comparedWindow = 500

// CompareEstimators plays calls, in the order of time, through several ways to reserve output
// tokens. Every way knows a call's input and, as soon as it has reserved, its output too: as
// if no two calls ran at the same time. maxOutput is what callers allow at most.
//
// The ways: the maximum; a fixed 512; a moving mean of about five calls; the p90 and the p99 of
// the latest 500 calls, exactly; the Estimator.
func CompareEstimators(calls []Call, maxOutput int64) []EstimatorScore {
	e, window, mean := estimates.New(), newExactWindow(comparedWindow), movingMean{}
	none := func(Call) {}
	seen := func(c Call) { window.observe(c.Output) }
	ways := []struct {
		name    string
		reserve func(input int64) int64
		observe func(Call)
	}{
		{"max_output_tokens", func(int64) int64 { return maxOutput }, none},
		{"default 512", func(int64) int64 { return estimates.DefaultOutput }, none},
		{"moving mean of 5", func(int64) int64 { return mean.tokens() }, func(c Call) { mean.observe(c.Output) }},
		{"window p90", func(int64) int64 { return window.exceededBy(10) }, seen},
		{"window p99", func(int64) int64 { return window.exceededBy(100) }, seen},
		{"p90 by log2(input) (Taskbus)", func(input int64) int64 { return e.Estimate("", "", input, maxOutput).Reserve },
			func(c Call) { e.Observe("", "", c.Input, c.Output) }},
	}
	var taken int64
	for _, c := range calls {
		taken += c.Output
	}
	scores := make([]EstimatorScore, len(ways))
	for i, way := range ways {
		window.clear()
		var over, under int64
		for _, c := range calls {
			reserved := min(way.reserve(c.Input), maxOutput)
			over += max(reserved-c.Output, 0)
			under += max(c.Output-reserved, 0)
			way.observe(c)
		}
		scores[i] = EstimatorScore{Name: way.name, Over: float64(over) / float64(max(taken, 1)),
			Under: float64(under) / float64(max(taken, 1))}
	}
	return scores
}

// movingMean forgets a fifth of what it knows with each call.
type movingMean struct {
	value float64
	known bool
}

func (m *movingMean) observe(tokens int64) {
	if !m.known {
		m.value, m.known = float64(tokens), true
		return
	}
	m.value += (float64(tokens) - m.value) / 5
}

func (m *movingMean) tokens() int64 {
	if !m.known {
		return estimates.DefaultOutput
	}
	return int64(m.value)
}

// exactWindow holds the latest amounts, by time and by size.
type exactWindow struct{ latest, sorted []int64 }

func newExactWindow(most int) *exactWindow {
	return &exactWindow{latest: make([]int64, 0, most), sorted: make([]int64, 0, most)}
}

func (w *exactWindow) clear() { w.latest, w.sorted = w.latest[:0], w.sorted[:0] }

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

// exceededBy is the least amount that at most one in so many exceeds; the default before there
// are enough.
func (w *exactWindow) exceededBy(oneIn int) int64 {
	n := len(w.sorted)
	if n < estimates.MinSamples {
		return estimates.DefaultOutput
	}
	return w.sorted[n-1-n/oneIn]
}
