package fairshare_test

import (
	"math"
	"testing"

	"taskbus/coordinator/fairshare"
)

// azureCalls are those of a trace of real calls.
func azureCalls(t *testing.T, name string) (calls []fairshare.TraceCall) {
	for _, r := range azure(t, name) {
		calls = append(calls, fairshare.TraceCall{Input: int64(r.Input), Output: int64(r.Output)})
	}
	return calls
}

// TestReservationsOnAzureTraces: an hour of conversations and one of code completion. That
// code needs so much more is its nature: the mean output is 28 tokens, and few are long.
func TestReservationsOnAzureTraces(t *testing.T) {
	for _, c := range []struct {
		trace       string
		over, under float64 // at most
	}{
		{"azure-conv", 0.55, 0.05},
		{"azure-code", 2.0, 0.35},
	} {
		t.Run(c.trace, func(t *testing.T) {
			scores := fairshare.CompareEstimators(azureCalls(t, c.trace), 4096)
			t.Logf("%-26s %10s %10s", c.trace, "over", "under")
			byName := map[string]fairshare.EstimatorScore{}
			for _, s := range scores {
				t.Logf("%-26s %10.3f %10.3f", s.Name, s.Over, s.Under)
				byName[s.Name] = s
			}
			own := byName["p90 by log2(input) bucket"]
			if !(own.Over > 0 && own.Over <= c.over) || !(own.Under > 0 && own.Under <= c.under) {
				t.Errorf("reserves %.3f too much and %.3f too little, want at most %.3f and %.3f", own.Over, own.Under, c.over, c.under)
			}
			if other := byName["max_tokens"]; other.Over < 18 || other.Under != 0 {
				t.Errorf("4,096 tokens for every call: %+v", other)
			}
		})
	}
}

// TestCompareEstimators: 40 calls of 100 tokens and inputs of 10, then ten of 150.
func TestCompareEstimators(t *testing.T) {
	var calls []fairshare.TraceCall
	for i := range 50 {
		calls = append(calls, fairshare.TraceCall{Input: 10, Output: 100 + 50*int64(i/40)})
	}
	const all = 40*100 + 10*150
	// The window takes 512 for its first 20 calls, and 100 until more than a tenth of the
	// calls are of 150: of 45 calls 4 may exceed the p90, and 5 do. So the call after the
	// fifth is the first that has enough.
	want := []fairshare.EstimatorScore{
		{Name: "max_tokens", Over: (40*900 + 10*850) / float64(all)},
		{Name: "default 512", Over: (40*412 + 10*362) / float64(all)},
		{Name: "window p90", Over: 20 * 412 / float64(all), Under: 5 * 50 / float64(all)},
	}
	got := fairshare.CompareEstimators(calls, 1000)
	for i, w := range want {
		if got[i].Name != w.Name || math.Abs(got[i].Over-w.Over) > 1e-9 || math.Abs(got[i].Under-w.Under) > 1e-9 {
			t.Errorf("%+v, want %+v", got[i], w)
		}
	}
	// The bins that hold 100 and 150 are 96 to 103 and 144 to 159. So beside what it has in
	// common with the window, the Estimator errs by 3 upward or 4 downward at most for each of
	// the 20 calls of 100 that it knows, and by 9 or 6 for each of the last five.
	own := got[len(want)]
	if least, most := 20*412/float64(all), (20*412+20*3+5*9)/float64(all); own.Over < least || own.Over > most {
		t.Errorf("%+v, want over of %g to %g", own, least, most)
	}
	if least, most := 5*(50-3)/float64(all), (20*4+5*54+5*6)/float64(all); own.Under < least || own.Under > most {
		t.Errorf("%+v, want under of %g to %g", own, least, most)
	}
	for _, s := range fairshare.CompareEstimators(nil, 1000) {
		if s.Over != 0 || s.Under != 0 {
			t.Errorf("of no calls %+v", s)
		}
	}
}
