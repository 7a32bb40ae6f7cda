package sharing

import (
	"math"
	"testing"
)

// TestCompareEstimators: 40 calls of 100 tokens and inputs of 10, then ten of 150.
func TestCompareEstimators(t *testing.T) {
	var calls []Call
	for i := range 50 {
		calls = append(calls, Call{Input: 10, Output: 100 + 50*int64(i/40)})
	}
	const all = 40*100 + 10*150
	got := map[string]EstimatorScore{}
	for _, s := range CompareEstimators(calls, 1000) {
		got[s.Name] = s
	}
	for _, w := range []EstimatorScore{
		{Name: "max_output_tokens", Over: (40*900 + 10*850) / float64(all)},
		{Name: "default 512", Over: (40*412 + 10*362) / float64(all)},
		// 512 for the first call; then 100, and for the second ten 150 − 50·0.8^k in whole
		// tokens: 100, 110, 118, 124, 129, 133, 136, 139, 141, 143.
		{Name: "moving mean of 5", Over: 412 / float64(all),
			Under: (50 + 40 + 32 + 26 + 21 + 17 + 14 + 11 + 9 + 7) / float64(all)},
		// The windows take 512 for their first 20 calls, and 100 until more than a tenth (a
		// hundredth) of the calls are of 150: of 45 calls 4 may exceed the p90, and 5 do. So the
		// call after the fifth is the first that has enough. None may exceed the p99.
		{Name: "window p90", Over: 20 * 412 / float64(all), Under: 5 * 50 / float64(all)},
		{Name: "window p99", Over: 20 * 412 / float64(all), Under: 1 * 50 / float64(all)},
	} {
		if s := got[w.Name]; s.Name == "" || math.Abs(s.Over-w.Over) > 1e-9 || math.Abs(s.Under-w.Under) > 1e-9 {
			t.Errorf("%+v, want %+v", s, w)
		}
	}
	// The bins that hold 100 and 150 are 96 to 103 and 144 to 159. So beside what it has in
	// common with the window, the Estimator errs by 3 upward or 4 downward at most for each of
	// the 20 calls of 100 that it knows, and by 9 or 6 for each of the last five.
	own := got["p90 by log2(input) (Taskbus)"]
	if least, most := 20*412/float64(all), (20*412+20*3+5*9)/float64(all); own.Over < least || own.Over > most {
		t.Errorf("%+v, want over of %g to %g", own, least, most)
	}
	if least, most := 5*(50-3)/float64(all), (20*4+5*54+5*6)/float64(all); own.Under < least || own.Under > most {
		t.Errorf("%+v, want under of %g to %g", own, least, most)
	}
	for _, s := range CompareEstimators(nil, 1000) {
		if s.Over != 0 || s.Under != 0 {
			t.Errorf("of no calls %+v", s)
		}
	}
}
