package httpapi

import (
	"context"
	"net/http"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
)

// cost answers /v1/quota/cost.
func (a *api) cost(w http.ResponseWriter, r *http.Request) {
	given, err := web.Parameters(r.URL.RawQuery, "group", "agent", "provider", "model", "from", "to", "limit")
	q := usage.Query{By: usage.ByTotal}
	if err == nil {
		err = historyQuery(given, &q)
	}
	limit, err := historyLimit(given, err)
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	c := view.CostReport{From: q.From, To: q.To}
	rows, _, err := a.history.Usage(ctx, q)
	if err == nil {
		c.Projection, err = a.projection(ctx)
	}
	if err != nil {
		historyProblem(w, err)
		return
	}
	report := usage.Costs(rows, q.Provider)
	c.Total = historyCounts(&report.Total)
	c.Groups, c.Agents, c.Models = costLines(report.Groups, limit), costLines(report.Agents, limit),
		costLines(report.Models, limit)
	c.More = max(len(report.Groups), len(report.Agents), len(report.Models)) > limit
	web.Answer(w, http.StatusOK, c)
}

// historyLimit reads the parameter limit, if nothing was wrong before.
func historyLimit(given map[string]string, err error) (int, error) {
	text, ok := given["limit"]
	if err != nil {
		return DefaultHistoryLimit, err
	}
	return web.Limit(text, ok, DefaultHistoryLimit, MaxHistoryLimit)
}

func costLines(lines []usage.CostLine, limit int) []view.CostLine {
	all := []view.CostLine{}
	for i := range lines[:min(limit, len(lines))] {
		l := &lines[i]
		all = append(all, view.CostLine{
			Group: l.Group, Agent: l.Agent, Provider: l.Provider, Model: l.Model, Share: l.Share, Unpriced: l.Unpriced,
			HistoryCounts: historyCounts(&l.Counts),
		})
	}
	return all
}
