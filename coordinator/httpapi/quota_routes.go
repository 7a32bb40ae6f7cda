package httpapi

import (
	"fmt"
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

// QuotaRoute is how one of the alternatives of a call, or a task, was judged, and why.
type QuotaRoute struct {
	gateway.CallRoute
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
		x := QuotaRoute{CallRoute: gateway.RouteOf(r)}
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

// ParseAlternatives reads the models that a call may go to, as openai/gpt-4o,anthropic/claude-sonnet-4-5:
// providers, with a key or without, and behind the first slash what model of it.
func ParseAlternatives(text string) (all []coordinator.Service, err error) {
	items := strings.Split(text, ",")
	if len(items) > coordinator.MaxAlternatives {
		return nil, fmt.Errorf("alternatives must be at most %d", coordinator.MaxAlternatives)
	}
	for _, item := range items {
		provider, model, named := strings.Cut(item, "/")
		if !validProvider(provider) || named && !modelPattern.MatchString(model) {
			return nil,
				fmt.Errorf(
					"alternatives must be PROVIDER or PROVIDER/MODEL, divided by commas, such as openai/gpt-4o,anthropic/claude-sonnet-4-5")
		}
		all = append(all, coordinator.Service{Provider: provider, Model: model})
	}
	return all, nil
}
