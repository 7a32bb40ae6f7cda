package httpapi

import (
	"context"
	"errors"
	"net/http"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
)

// forecast answers /v1/quota/forecast.
func (a *api) forecast(w http.ResponseWriter, r *http.Request) {
	given, err := web.Parameters(r.URL.RawQuery, "node", "limit")
	if err == nil && given["node"] != "" && !ValidNodeID(given["node"]) {
		err = errors.New("node is not the id of a node; GET /v1/quota lists them")
	}
	limit, err := historyLimit(given, err)
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	f := view.Forecasts{At: a.now().UTC(), Budgets: []view.BudgetForecast{}, Configured: true}
	q, err := a.allQuotas(ctx)
	switch {
	case errors.Is(err, ErrNoQuotas):
		f.Configured = false
	case err != nil:
		quotaProblem(w, "", err)
		return
	}
	if f.Projection, err = a.projection(ctx); err != nil {
		historyProblem(w, err)
		return
	}
	if node := given["node"]; node != "" && q.Node(node) == nil {
		quotaProblem(w, "a node "+node, ErrNoQuota)
		return
	}
	all, err := a.forecasts(ctx, &q, given["node"], &f)
	if err != nil {
		historyProblem(w, err)
		return
	}
	f.TotalBudgets = len(all)
	for i := range all {
		if all[i].Overruns {
			f.Overruns++
		}
	}
	f.Budgets = append(f.Budgets, all[:min(limit, len(all))]...)
	web.Answer(w, http.StatusOK, f)
}

// allQuotas are all nodes, page by page.
func (a *api) allQuotas(ctx context.Context) (view.Quotas, error) {
	all, err := a.src.Quotas(ctx, view.QuotaSelection{Limit: MaxQuotaLimit})
	for after := all.Next; err == nil && after != ""; {
		var page view.Quotas
		page, err = a.src.Quotas(ctx, view.QuotaSelection{Limit: MaxQuotaLimit, After: after})
		if errors.Is(err, ErrNoQuota) {
			err = errors.New("the quotas have changed meanwhile")
		}
		all.Nodes, after = append(all.Nodes, page.Nodes...), page.Next
	}
	return all, err
}

// forecasts are those of all budgets, or of one node's.
func (a *api) forecasts(ctx context.Context, q *view.Quotas, only string, f *view.Forecasts) ([]view.BudgetForecast,
	error) {
	zone := a.history.Zone()
	past, err := usage.ReadPast(f.At, f.Projection.Since, f.Projection.Gaps, zone,
		func(q usage.Query) ([]usage.Row, bool, error) { return a.history.Usage(ctx, q) })
	if err != nil {
		return nil, err
	}
	var all []view.BudgetForecast
	for _, o := range usage.Forecasts(q.Nodes, only, f.At, zone, &past) {
		all = append(all, budgetForecast(&o))
	}
	return all, nil
}

func budgetForecast(o *usage.BudgetForecast) view.BudgetForecast {
	n, b := o.Node, o.Budget
	f := view.BudgetForecast{
		Node: n.ID, Kind: n.Kind, Dimension: b.Dimension, Period: b.Period, PeriodFrom: b.PeriodFrom, ResetTime: b.ResetTime,
		Used: b.Used, Cap: b.Cap, Expected: o.Expected, Basis: o.Basis, Overruns: o.Overruns, OverrunAt: o.OverrunAt,
	}
	if b.Cap > 0 {
		p := 100 * o.Expected / b.Cap
		f.Percent = &p
	}
	return f
}
