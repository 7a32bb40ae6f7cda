package view

import "time"

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
