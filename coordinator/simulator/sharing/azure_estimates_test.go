package sharing_test

import (
	"testing"

	"taskbus/coordinator/simulator/sharing"
)

// TestReservationsOnAzureTraces: an hour of conversations and one of code completion. That
// code needs so much more is its nature: the mean output is 28 tokens, and few are long.
func TestReservationsOnAzureTraces(t *testing.T) {
	r := azureSharing(t)
	most := map[string]struct{ over, under float64 }{
		"conv": {0.55, 0.05},
		"code": {2.0, 0.35},
	}
	for i, tenant := range r.Tenants {
		t.Logf("%-30s %10s %10s", tenant.Name, "over", "under")
		byName := map[string]sharing.Reserved{}
		for _, e := range r.Estimators {
			t.Logf("%-30s %10.3f %10.3f", e.Name, e.Tenants[i].Over.Mean, e.Tenants[i].Under.Mean)
			byName[e.Name] = e.Tenants[i]
		}
		own, want := byName["p90 by log2(input) (Taskbus)"], most[tenant.Name]
		if over, under := own.Over.Mean, own.Under.Mean; !(over > 0 && over <= want.over) ||
			!(under > 0 && under <= want.under) {
			t.Errorf("%s: reserves %.3f too much and %.3f too little, want at most %+v", tenant.Name, over, under, want)
		}
		if other := byName["max_output_tokens"]; other.Over.Mean < 18 || other.Under.Mean != 0 {
			t.Errorf("%s: 4,096 tokens for every call: %+v", tenant.Name, other)
		}
	}
}
