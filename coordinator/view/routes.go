package view

import (
	"fmt"
	"time"

	"taskbus/coordinator"
)

// CallRoute is how one of the models that a call might have gone to was judged.
type CallRoute struct {
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"`
	Pool     string `json:"pool,omitempty"`
	Chosen   bool   `json:"chosen,omitempty"`
	// Score is the mean of the terms by the weights of quotas.yaml; each is 0 to 1.
	Score float64        `json:"score"`
	Terms CallRouteTerms `json:"terms"`
	// Refusal is why it cannot go there now; empty: it could.
	Refusal string    `json:"refusal,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// CallRouteTerms are what a route is judged by.
type CallRouteTerms struct {
	Remaining float64 `json:"remaining"`
	Price     float64 `json:"price"`
	Latency   float64 `json:"latency"`
	Success   float64 `json:"success"`
}

// RouteOf returns how one of the alternatives was judged.
func RouteOf(r *coordinator.RouteScore) CallRoute {
	one := CallRoute{Provider: r.Provider, Model: r.Model, Pool: r.Pool, Chosen: r.Chosen, Score: r.Score,
		Terms: CallRouteTerms(r.Terms)}
	if r.Lacks != nil {
		one.Refusal, one.RetryAt = r.Lacks.Text, r.Lacks.RetryAt
	}
	return one
}

// QuotaRoute is how one of the alternatives of a call, or a task, was judged, and why.
type QuotaRoute struct {
	CallRoute
	// Why it is chosen, or passed over: one sentence for people.
	Why string `json:"why"`
}

// QuotaRoutesOf explains how alternatives were judged, which are in the order in which they were
// asked for, by the weights of their terms.
func QuotaRoutesOf(routes []coordinator.RouteScore, weights coordinator.RouteTerms) (all []QuotaRoute) {
	var chosen *coordinator.RouteScore
	able := 0
	for i := range routes {
		if routes[i].Chosen {
			chosen = &routes[i]
		}
		if routes[i].Lacks == nil {
			able++
		}
	}
	for i := range routes {
		r := &routes[i]
		x := QuotaRoute{CallRoute: RouteOf(r)}
		switch {
		case r.Lacks != nil:
			x.Why = "it has no quota: " + r.Lacks.Text
		case r.Chosen && able == 1:
			x.Why = "it alone has quota now"
		case r.Chosen:
			x.Why = fmt.Sprintf("the best score of the %d that have quota now", able)
		case r.Score == chosen.Score: // a route with quota is not chosen only where another is
			x.Why = "its score is no better than that of one that comes before it"
		default:
			x.Why = "its score is lower, " + worstTerm(r, chosen, weights)
		}
		all = append(all, x)
	}
	return all
}

// worstTerm says by which of its terms, with its weight, a route falls behind another the most.
func worstTerm(r, chosen *coordinator.RouteScore, weights coordinator.RouteTerms) string {
	worst, most := "", 0.0
	for _, t := range []struct {
		name              string
		own, best, weight float64
	}{
		{"remaining", r.Terms.Remaining, chosen.Terms.Remaining, weights.Remaining},
		{"price", r.Terms.Price, chosen.Terms.Price, weights.Price},
		{"latency", r.Terms.Latency, chosen.Terms.Latency, weights.Latency},
		{"success", r.Terms.Success, chosen.Terms.Success, weights.Success},
	} {
		if behind := (t.best - t.own) * t.weight; behind > most {
			most, worst = behind, fmt.Sprintf("most by %s: %.2f, and the chosen one's is %.2f", t.name, t.own, t.best)
		}
	}
	return worst
}
