package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
)

// cost answers /v1/quota/cost.
func (a *api) cost(w http.ResponseWriter, r *http.Request) {
	given, err := parameters(r.URL.RawQuery, "group", "agent", "provider", "model", "from", "to", "limit")
	q := usage.Query{By: usage.ByTotal}
	if err == nil {
		err = historyQuery(given, &q)
	}
	limit, err := historyLimit(given, err)
	if err != nil {
		badQuery(w, err)
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
	answer(w, http.StatusOK, c)
}

// historyLimit reads the parameter limit, if nothing was wrong before.
func historyLimit(given map[string]string, err error) (int, error) {
	text, ok := given["limit"]
	if err != nil || !ok {
		return DefaultHistoryLimit, err
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > MaxHistoryLimit {
		return 0, fmt.Errorf("limit must be a whole number from 1 to %d", MaxHistoryLimit)
	}
	return limit, nil
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
