package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"taskbus/coordinator/usage"
)

// mostForecastRows bounds what a forecast reads of the history.
const mostForecastRows = 200_000

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
	q, err := a.src.Quotas(ctx, QuotaSelection{Limit: MaxQuotaLimit})
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
	places, parents := placesOf(q.Nodes)
	wanted := make(map[usage.Place]bool)
	for i := range q.Nodes {
		if n := &q.Nodes[i]; len(n.Budgets) > 0 && (only == "" || n.ID == only) {
			wanted[places[n.ID]] = true
		}
	}
	rows, from, to, err := a.wholeDays(ctx, f)
	if err != nil {
		return nil, err
	}
	used := usage.ByPlace(rows, parents, wanted)
	var all []BudgetForecast
	for i := range q.Nodes {
		n := &q.Nodes[i]
		if only != "" && n.ID != only {
			continue
		}
		for j := range n.Budgets {
			b := &n.Budgets[j]
			days := make(map[string]float64)
			for day, c := range used[places[n.ID]] { // order does not matter
				days[day] = in(c, b.Dimension)
			}
			c := usage.Course{
				Used: b.Used, Cap: b.Cap, Begin: b.PeriodFrom, End: b.ResetTime, Now: latest(b.PeriodFrom, earliest(f.At, b.ResetTime)),
				Location: a.history.Zone(),
			}
			if from != "" {
				c.Days = usage.Series(days, from, to)
			}
			all = append(all, budgetForecast(n, b, &c))
		}
	}
	return all, nil
}

func budgetForecast(n *QuotaNode, b *QuotaBudget, c *usage.Course) BudgetForecast {
	o := usage.Forecast(c)
	f := BudgetForecast{
		Node: n.ID, Kind: n.Kind, Dimension: b.Dimension, Period: b.Period, PeriodFrom: b.PeriodFrom, ResetTime: b.ResetTime,
		Used: b.Used, Cap: b.Cap, Expected: o.Expected, Basis: o.Basis, Overruns: o.Overruns, OverrunAt: o.OverrunAt,
	}
	if b.Cap > 0 {
		p := 100 * o.Expected / b.Cap
		f.Percent = &p
	}
	return f
}

// in is how much of a dimension was used, costs in US dollars.
func in(c *usage.Counts, dimension string) float64 {
	switch dimension {
	case "requests":
		return float64(c.Requests)
	case "input_tokens":
		return float64(c.InputTokens)
	case "output_tokens":
		return float64(c.OutputTokens)
	case "total_tokens":
		return float64(c.TotalTokens)
	}
	return dollars(c.Cost)
}

// wholeDays are the rows of the whole days that a forecast looks at, and the first and the last of
// these; empty: there is none.
func (a *api) wholeDays(ctx context.Context, f *Forecasts) (rows []usage.Row, from, to string, err error) {
	zone := a.history.Zone()
	if zone == nil {
		zone = time.UTC
	}
	since := f.Projection.Since
	if since.IsZero() {
		return nil, "", "", nil
	}
	day := func(t time.Time, more int) string {
		y, m, d := t.In(zone).Date()
		return time.Date(y, m, d+more, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	}
	from, to = max(day(since, 1), day(f.At, -usage.MostDays)), day(f.At, -1)
	if from > to {
		return nil, "", "", nil
	}
	rows, more, err := a.history.Usage(ctx, usage.Query{By: usage.ByDay, From: from, To: to, Limit: mostForecastRows})
	if err != nil || !more || len(rows) == 0 {
		return rows, from, to, err
	}
	// Of the first day not all rows are there.
	cut := rows[0].Day
	if cut >= to {
		return nil, "", "", fmt.Errorf("a single day has more than %d rows: ask for a node's history instead", mostForecastRows)
	}
	for len(rows) > 0 && rows[0].Day == cut {
		rows = rows[1:]
	}
	at, err := time.Parse(time.DateOnly, cut)
	return rows, at.AddDate(0, 0, 1).Format(time.DateOnly), to, err
}

// placesOf says for every node what counts for it, and which group is above which.
func placesOf(nodes []QuotaNode) (places map[string]usage.Place, parents map[string]string) {
	places, parents = make(map[string]usage.Place, len(nodes)), make(map[string]string)
	for i := range nodes { // parents come before their children
		n := &nodes[i]
		p := places[n.Parent]
		switch n.Kind {
		case "pool":
			if n.Name != "pool" {
				p.Provider = n.Name
			}
		case "model":
			p.Model = n.Name
		case kindGroup:
			if p.Group != "" {
				parents[n.Name] = p.Group
			}
			p.Group = n.Name
		case kindAgent:
			p.Agent = n.Name
		}
		places[n.ID] = p
	}
	return places, parents
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pairs reads a parameter such as "a=b,c=d".
func pairs(name, text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	all := make(map[string]string)
	for pair := range strings.SplitSeq(text, ",") {
		from, to, ok := strings.Cut(pair, "=")
		if !ok || from == "" || to == "" {
			return nil, fmt.Errorf("%s must be pairs such as a=b,c=d", name)
		}
		if _, twice := all[from]; twice {
			return nil, fmt.Errorf("%s says twice what one is to be", name)
		}
		all[from] = to
	}
	return all, nil
}
