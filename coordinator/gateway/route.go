package gateway

import (
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

// CallRoutes are the alternatives of an answer as they were judged, for programs.
func CallRoutes(x *coordinator.CallAnswer) (all []CallRoute) {
	for i := range x.Routes {
		all = append(all, RouteOf(&x.Routes[i]))
	}
	return all
}

// RouteOf is one of them.
func RouteOf(r *coordinator.RouteScore) CallRoute {
	one := CallRoute{Provider: r.Provider, Model: r.Model, Pool: r.Pool, Chosen: r.Chosen, Score: r.Score,
		Terms: CallRouteTerms(r.Terms)}
	if r.Lacks != nil {
		one.Refusal, one.RetryAt = r.Lacks.Text, r.Lacks.RetryAt
	}
	return one
}
