package httpapi

import (
	"context"
	"errors"
	"net/http"

	"taskbus/coordinator/usage"
)

// forecast answers /v1/quota/forecast.
func (a *api) forecast(w http.ResponseWriter, r *http.Request) {
	given, err := parameters(r.URL.RawQuery, "node", "limit")
	if err == nil && given["node"] != "" && !ValidNodeID(given["node"]) {
		err = errors.New("node is not the id of a node; GET /v1/quota lists them")
	}
	limit, err := historyLimit(given, err)
	if err != nil {
		badQuery(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	f := Forecasts{At: a.now().UTC(), Budgets: []BudgetForecast{}, Configured: true}
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
	if node := given["node"]; node != "" && q.node(node) == nil {
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
	answer(w, http.StatusOK, f)
}

// allQuotas are all nodes, page by page.
func (a *api) allQuotas(ctx context.Context) (Quotas, error) {
	all, err := a.src.Quotas(ctx, QuotaSelection{Limit: MaxQuotaLimit})
	for after := all.Next; err == nil && after != ""; {
		var page Quotas
		page, err = a.src.Quotas(ctx, QuotaSelection{Limit: MaxQuotaLimit, After: after})
		if errors.Is(err, ErrNoQuota) {
			err = errors.New("the quotas have changed meanwhile")
		}
		all.Nodes, after = append(all.Nodes, page.Nodes...), page.Next
	}
	return all, err
}

// node is the one of an id; nil: there is none.
func (q *Quotas) node(id string) *QuotaNode {
	for i := range q.Nodes {
		if q.Nodes[i].ID == id {
			return &q.Nodes[i]
		}
	}
	return nil
}

// forecasts are those of all budgets, or of one node's.
func (a *api) forecasts(ctx context.Context, q *Quotas, only string, f *Forecasts) ([]BudgetForecast, error) {
	zone := a.history.Zone()
	past, err := usage.ReadPast(f.At, f.Projection.Since, f.Projection.Missing(), zone,
		func(q usage.Query) ([]usage.Row, bool, error) { return a.history.Usage(ctx, q) })
	if err != nil {
		return nil, err
	}
	var all []BudgetForecast
	for _, o := range usage.Forecasts(q.ForForecasts(), only, f.At, zone, &past) {
		all = append(all, budgetForecast(&o))
	}
	return all, nil
}

// Missing are the gaps, as [usage.ReadPast] wants them.
func (p *Projection) Missing() []usage.Gap {
	all := make([]usage.Gap, len(p.Gaps))
	for i, g := range p.Gaps {
		all[i] = usage.Gap{From: g.From, To: g.To, Offset: g.Offset, Lost: g.Lost, Reason: g.Reason}
	}
	return all
}

// ForForecasts are the nodes as [usage.Forecasts] wants them.
func (q *Quotas) ForForecasts() []usage.Node {
	all := make([]usage.Node, len(q.Nodes))
	for i := range q.Nodes {
		n := &q.Nodes[i]
		all[i] = usage.Node{ID: n.ID, Kind: n.Kind, Name: n.Name, Parent: n.Parent}
		for _, b := range n.Budgets {
			all[i].Budgets = append(all[i].Budgets, usage.Budget{
				Dimension: b.Dimension, Used: b.Used, Cap: b.Cap, Period: b.Period, From: b.PeriodFrom, Until: b.ResetTime,
			})
		}
	}
	return all
}

func budgetForecast(o *usage.BudgetForecast) BudgetForecast {
	n, b := o.Node, o.Budget
	f := BudgetForecast{
		Node: n.ID, Kind: n.Kind, Dimension: b.Dimension, Period: b.Period, PeriodFrom: b.From, ResetTime: b.Until,
		Used: b.Used, Cap: b.Cap, Expected: o.Expected, Basis: o.Basis, Overruns: o.Overruns, OverrunAt: o.OverrunAt,
	}
	if b.Cap > 0 {
		p := 100 * o.Expected / b.Cap
		f.Percent = &p
	}
	return f
}
