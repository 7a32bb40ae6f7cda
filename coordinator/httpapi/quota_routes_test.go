package httpapi

import (
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// Of every alternative it is said why it is chosen, or why not: no quota, a lower score and by which
// term the most, or as good a one before it.
func TestAlternativesAreExplained(t *testing.T) {
	back := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	route := func(provider string, score float64, terms coordinator.RouteTerms) coordinator.RouteScore {
		return coordinator.RouteScore{Service: coordinator.Service{Provider: provider}, Score: score, Terms: terms}
	}
	chosen := func(r coordinator.RouteScore) coordinator.RouteScore {
		r.Chosen = true
		return r
	}
	lacking := func(r coordinator.RouteScore) coordinator.RouteScore {
		r.Lacks = &coordinator.QuotaLack{Text: "the rate of lab in requests is used up", RetryAt: back}
		return r
	}
	all := coordinator.RouteTerms{Remaining: 1, Price: 1, Latency: 1, Success: 1}
	best := route("a", 0.9, coordinator.RouteTerms{Remaining: 0.6, Price: 1, Latency: 1, Success: 1}) // 3.6/4
	for _, tc := range []struct {
		name    string
		weights coordinator.RouteTerms
		routes  []coordinator.RouteScore
		want    []string
	}{
		{"it falls behind by 0.5 in price and 0.2 in success", all, []coordinator.RouteScore{
			chosen(best), route("b", 0.725, coordinator.RouteTerms{Remaining: 0.6, Price: 0.5, Latency: 1,
				Success: 0.8}), // 2.9/4
		}, []string{"the best score of the 2 that have quota now",
			"its score is lower, most by price: 0.50, and the chosen one's is 1.00"}},
		{"success weighs ten times as much: 2 against 0.5", coordinator.RouteTerms{Price: 1, Success: 10},
			[]coordinator.RouteScore{
				chosen(best), route("b", 0.5, coordinator.RouteTerms{Remaining: 0.6, Price: 0.5, Latency: 1, Success: 0.8}),
			}, []string{"the best score of the 2 that have quota now",
				"its score is lower, most by success: 0.80, and the chosen one's is 1.00"}},
		{"equals", all, []coordinator.RouteScore{chosen(best), best},
			[]string{"the best score of the 2 that have quota now",
				"its score is no better than that of one that comes before it"}},
		{"one alone has quota, though another scores better", all,
			[]coordinator.RouteScore{lacking(best), chosen(route("b", 0.1, all))},
			[]string{"it has no quota: the rate of lab in requests is used up", "it alone has quota now"}},
		{"none has", all, []coordinator.RouteScore{lacking(best), lacking(best)},
			[]string{"it has no quota: the rate of lab in requests is used up",
				"it has no quota: the rate of lab in requests is used up"}},
	} {
		got := view.QuotaRoutesOf(tc.routes, tc.weights)
		if len(got) != len(tc.want) {
			t.Fatalf("%s: %d are explained, want %d", tc.name, len(got), len(tc.want))
		}
		for i, r := range got {
			if r.Why != tc.want[i] || r.Chosen != tc.routes[i].Chosen || r.Score != tc.routes[i].Score ||
				(tc.routes[i].Lacks != nil) != r.RetryAt.Equal(back) {
				t.Errorf("%s: %+v, want %q", tc.name, r, tc.want[i])
			}
		}
	}
}
