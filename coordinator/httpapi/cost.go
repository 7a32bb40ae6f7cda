package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"taskbus/coordinator/usage"
)

// CostReport is the answer of /v1/quota/cost.
type CostReport struct {
	From  string        `json:"from,omitempty"` // as asked; empty: all there is
	To    string        `json:"to,omitempty"`
	Total HistoryCounts `json:"total"`
	// Groups are its parts by group, the dearest first; at most as many of each as asked for.
	Groups []CostLine `json:"groups"`
	Agents []CostLine `json:"agents"`
	Models []CostLine `json:"models"`
	// More: there are more than these.
	More       bool       `json:"more"`
	Projection Projection `json:"projection"`
}

// CostLine is what one group, agent or model has cost.
type CostLine struct {
	Group    string `json:"group,omitempty"`
	Agent    string `json:"agent,omitempty"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	// Share of the cost of all, 0 to 1. Unpriced: it has used tokens, and there is no price.
	Share    float64 `json:"share"`
	Unpriced bool    `json:"unpriced,omitempty"`
	HistoryCounts
}

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
	c := CostReport{From: q.From, To: q.To}
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

func costLines(lines []usage.CostLine, limit int) []CostLine {
	all := []CostLine{}
	for i := range lines[:min(limit, len(lines))] {
		l := &lines[i]
		all = append(all, CostLine{
			Group: l.Group, Agent: l.Agent, Provider: l.Provider, Model: l.Model, Share: l.Share, Unpriced: l.Unpriced,
			HistoryCounts: historyCounts(&l.Counts),
		})
	}
	return all
}

// Forecasts is the answer of /v1/quota/forecast.
type Forecasts struct {
	// Configured is false without quotas.yaml.
	Configured bool `json:"configured"`
	// At is when the forecast was made.
	At time.Time `json:"at"`
	// Budgets in the order of the nodes, at most as many as asked for; TotalBudgets are all that
	// were to be forecast, Overruns how many of them are expected to overrun.
	Budgets      []BudgetForecast `json:"budgets"`
	TotalBudgets int              `json:"total_budgets"`
	Overruns     int              `json:"overruns"`
	Projection   Projection       `json:"projection"`
}

// BudgetForecast is what will become of one budget by the end of its period. Amounts of cost_usd
// are US dollars.
type BudgetForecast struct {
	Node       string    `json:"node"`
	Kind       string    `json:"kind"`
	Dimension  string    `json:"dimension"`
	Period     string    `json:"period"`
	PeriodFrom time.Time `json:"period_start"`
	ResetTime  time.Time `json:"reset_time"`
	// Used so far, of Cap; Expected by the end of the period, Percent of Cap.
	Used     float64  `json:"used"`
	Cap      float64  `json:"cap"`
	Expected float64  `json:"expected"`
	Percent  *float64 `json:"percent"` // null of a cap of 0
	// Basis says from what that follows.
	Basis string `json:"basis"`
	// Overruns: more is expected than the cap, from OverrunAt on.
	Overruns  bool      `json:"overruns"`
	OverrunAt time.Time `json:"overrun_at,omitzero"`
}
