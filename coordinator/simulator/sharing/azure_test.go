package sharing_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"taskbus/coordinator/simulator"
	"taskbus/coordinator/simulator/sharing"
)

// azureSharing is what `taskbus simulate sharing-azure` prints: how an hour of code completion
// and one of conversations share a provider with 32 slots.
func azureSharing(t *testing.T) *sharing.Report {
	t.Helper()
	s, err := simulator.Open("sharing-azure")
	if err != nil {
		t.Fatal(err)
	}
	r, err := sharing.Play(t.Context(), s, sharing.Options{Trace: func(name string) ([]simulator.Request, error) {
		file, err := os.Open(filepath.Join("../../../../shared/traces", simulator.TraceFile(name)))
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return simulator.ReadTrace(file)
	}})
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the Azure traces are not there (see ../shared/traces/README.md): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestServiceGap is algorithms.md 1.3 with the Azure traces: how far apart two tenants' service
// by weight comes while both wait.
func TestServiceGap(t *testing.T) {
	r := azureSharing(t)
	if len(r.Comparisons) != 2 || r.Comparisons[0].Label != "code 1 : conv 1" ||
		r.Comparisons[1].Label != "code 3 : conv 1" {
		t.Fatalf("compared are %+v", r.Comparisons)
	}
	for _, c := range r.Comparisons {
		gaps := map[string]float64{}
		largest := 0.0 // bound
		for _, p := range c.Policies {
			gap := p.Gap.Mean
			gaps[p.Policy] = gap
			if p.Bound == nil {
				continue
			}
			bound := p.Bound.Mean
			largest = max(largest, bound)
			t.Logf("%s  %-40s gap %10.0f  bound %10.0f", c.Label, p.Label, gap, bound)
			if gap > bound {
				t.Errorf("%s at %s: a gap of %.0f is beyond the bound of %.0f", p.Label, c.Label, gap, bound)
			}
		}
		for _, without := range []string{"fcfs", "round_robin"} {
			if gaps[without] < largest {
				t.Errorf("the gap of %s at %s, %.0f, does not grow", without, c.Label, gaps[without])
			}
		}
		mean, input, finish, reserve, robin := gaps["reserve_mean"], gaps["reserve_input"], gaps["at_finish"],
			gaps["reserve_max"], gaps["round_robin"]
		if !(0 < mean && mean < input && input < finish && finish < reserve && 10*reserve < robin) {
			t.Errorf(
				"at %s the order of policies is not: the mean, the input, charging at the end, reserving the most, turns by "+
					"request", c.Label)
		}
		// What Taskbus charges is as good as the mean, or better than the input at any rate.
		if own := gaps["taskbus"]; !(0 < own && own < input) {
			t.Errorf("at %s Taskbus has a gap of %.0f, charging the input one of %.0f", c.Label, own, input)
		}
	}
}
