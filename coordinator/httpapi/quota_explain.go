package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/pattern"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// mostAsked bounds the numbers of a question about quotas.
const mostAsked = 1e15

// modelPattern is what models are called in quotas.yaml.
var modelPattern = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}$`)

// explainQuota answers /v1/quota/explain.
func (a *api) explainQuota(w http.ResponseWriter, r *http.Request) {
	q, err := ParseQuotaQuestion(r.URL.RawQuery)
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	x, err := a.src.ExplainQuota(ctx, q)
	if err != nil {
		quotaProblem(w, "", err)
		return
	}
	x.Nodes, x.Limits = present(x.Nodes), present(x.Limits)
	web.Answer(w, http.StatusOK, x)
}

// ParseQuotaQuestion reads the parameters of /v1/quota/explain.
func ParseQuotaQuestion(query string) (q view.QuotaQuestion, err error) {
	given, err := web.Parameters(query, "group", "agent", "provider", "model", "task_type", "requests", "input_tokens",
		"output_tokens", "cost_usd", "allow_borrowing", "alternatives")
	if err != nil {
		return q, err
	}
	if err := names(given, name{"group", &q.Group, messages.ValidID}, name{"agent", &q.Agent, messages.ValidID},
		name{"provider", &q.Provider, validProvider}, name{"model", &q.Model, modelPattern.MatchString},
		name{"task_type", &q.TaskType, messages.ValidID}); err != nil {
		return q, err
	}
	for _, number := range []struct {
		name string
		into *float64
	}{{"requests", &q.Requests}, {"input_tokens", &q.InputTokens}, {"output_tokens", &q.OutputTokens},
		{"cost_usd", &q.CostUSD}} {
		if text, ok := given[number.name]; ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil || !(n >= 0 && n <= mostAsked) {
				return q, fmt.Errorf("%s must be a number from 0 to %.0f", number.name, mostAsked)
			}
			*number.into = n
		}
	}
	if text, ok := given["allow_borrowing"]; ok {
		if text != "true" && text != "false" {
			return q, fmt.Errorf("allow_borrowing must be true or false")
		}
		q.NoBorrowing = text == "false"
	}
	if text, ok := given["alternatives"]; ok {
		if q.Provider != "" || q.Model != "" {
			return q, fmt.Errorf("alternatives stand for provider and model; give them, or these")
		}
		if q.Alternatives, err = ParseAlternatives(text); err != nil {
			return q, err
		}
	}
	return q, nil
}

// name is a parameter that is a name of quotas.yaml.
type name struct {
	is    string
	into  *string
	valid func(string) bool
}

// names reads those that are given.
func names(given map[string]string, all ...name) error {
	for _, n := range all {
		*n.into = given[n.is]
		if *n.into != "" && !n.valid(*n.into) {
			return fmt.Errorf(
				"%s is not a name of quotas.yaml: 1 to 128 letters, digits and . _ : -, beginning with a letter or a digit", n.is)
		}
	}
	return nil
}
