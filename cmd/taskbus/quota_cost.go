package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/coordinator/httpapi"
)

func (a *app) quotaCostCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cost",
		Short: "Show what LLM calls have cost, by group, agent and model",
		Long: `Shows what was used in a time (all there is, if you do not say), and what each group, agent
and model has cost, the dearest first. Costs are those that tasks state, or follow from the prices
of quotas.yaml; "no price" stands by what has used tokens and cost nothing.`,
		Example: `  taskbus quota cost --from 2026-11-01 --to 2026-11-30
  taskbus quota cost --by month
  taskbus quota cost --group team-a -o json
  taskbus quota cost --by month -o csv > cost.csv`,
		Args: cobra.NoArgs,
	}
	f := newHistoryFlags(a, c)
	by := c.Flags().String("by", "", "month or day: a table with a row for each of them and group, instead")
	output := c.Flags().StringP("output", "o", outputTable, "form of the output: table, json or csv")
	limit := c.Flags().Int("limit", 20, fmt.Sprintf("at most so many groups, agents and models each, 1 to %d",
		httpapi.MaxHistoryLimit))
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *output != outputTable && *output != outputJSON && *output != outputCSV {
			return usageError("-o must be table, json or csv, not %q", oneLine(*output))
		}
		a.output = *output
		if *limit < 1 || *limit > httpapi.MaxHistoryLimit {
			return usageError("--limit must be 1 to %d, not %d", httpapi.MaxHistoryLimit, *limit)
		}
		query, err := f.query()
		if err != nil {
			return err
		}
		if *by != "" && *by != "month" && *by != "day" {
			return usageError("--by must be month or day, not %q", oneLine(*by))
		}
		if *by != "" {
			return a.costsBy(c.Context(), *f.base, *by, query)
		}
		query.Set("limit", strconv.Itoa(*limit))
		client, err := a.newClient(*f.base)
		if err != nil {
			return err
		}
		var r httpapi.CostReport
		if err := client.get(c.Context(), "/v1/quota/cost?"+query.Encode(), &r); err != nil {
			return err
		}
		switch a.output {
		case outputJSON:
			return a.printJSON(r)
		case outputCSV:
			return a.printCostsCSV(&r)
		}
		if err := printCosts(a.out, r, a.now()); err != nil {
			return err
		}
		return a.hintCosts(c.Context(), client, &r, query)
	}
	return c
}

// costOf is what a group has cost in a month or on a day.
type costOf struct {
	Time  string `json:"time"`
	Group string `json:"group"`
	httpapi.HistoryCounts
}

// costsBy sums the history by time and group, the earliest first.
func (a *app) costsBy(ctx context.Context, base, by string, query url.Values) error {
	client, err := a.newClient(base)
	if err != nil {
		return err
	}
	query.Set("by", by)
	query.Set("limit", strconv.Itoa(httpapi.MaxHistoryLimit))
	var l httpapi.HistoryList
	if err := client.get(ctx, "/v1/quota/history?"+query.Encode(), &l); err != nil {
		return err
	}
	var all []costOf
	place := make(map[[2]string]int)
	for i := range l.Rows {
		r := &l.Rows[i]
		key := [2]string{r.Day, owner(r)}
		at, known := place[key]
		if !known {
			at = len(all)
			place[key] = at
			all = append(all, costOf{Time: r.Day, Group: key[1]})
		}
		x := &all[at]
		x.Calls, x.InputTokens, x.OutputTokens, x.TotalTokens, x.CostUSD = x.Calls+r.Calls, x.InputTokens+r.InputTokens,
			x.OutputTokens+r.OutputTokens, x.TotalTokens+r.TotalTokens, x.CostUSD+r.CostUSD
		x.Requests, x.Settled, x.Released, x.Expired, x.Late = x.Requests+r.Requests, x.Settled+r.Settled,
			x.Released+r.Released, x.Expired+r.Expired, x.Late+r.Late
	}
	switch a.output {
	case outputJSON:
		return a.printJSON(all)
	case outputCSV:
		rows := [][]string{append([]string{by, "group"}, countColumns...)}
		for i := range all {
			rows = append(rows, append([]string{all[i].Time, all[i].Group}, countRow(&all[i].HistoryCounts)...))
		}
		return a.printCSV(rows, l.More, "--from")
	}
	p := &page{w: a.out}
	t := newTable(strings.ToUpper(by), "GROUP", "COST", "CALLS", "INPUT", "OUTPUT", "TOTAL")
	for _, x := range all {
		t.row(x.Time, cmp.Or(x.Group, "(none)"), quantity("cost_usd", x.CostUSD), x.Calls,
			quantity("", float64(x.InputTokens)), quantity("", float64(x.OutputTokens)), quantity("", float64(x.TotalTokens)))
	}
	if len(all) == 0 {
		p.line("nothing was used")
	} else {
		p.table(t)
	}
	if l.More {
		p.line("… and more before (--from)")
	}
	p.blank()
	if p.projection(&l.Projection, a.now()); p.err != nil || len(all) > 0 {
		return p.err
	}
	return a.hintNames(ctx, client, query)
}

// countColumns are the columns of countRow.
var countColumns = []string{"calls", "released", "expired", "requests", "input_tokens", "output_tokens", "total_tokens",
	"cost_usd"}

// countRow is what was used, in plain numbers.
func countRow(x *httpapi.HistoryCounts) (row []string) {
	for _, n := range []int64{x.Calls, x.Released, x.Expired, x.Requests, x.InputTokens, x.OutputTokens, x.TotalTokens} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	return append(row, strconv.FormatFloat(x.CostUSD, 'f', -1, 64))
}

// printCSV writes rows; that there are more goes to stderr.
func (a *app) printCSV(rows [][]string, more bool, flags string) error {
	if err := csv.NewWriter(a.out).WriteAll(rows); err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	if more {
		fmt.Fprintln(a.err, "there are more rows: "+flags)
	}
	return nil
}

// printCostsCSV writes a row for each group, agent and model: of is which of these it is. They are three
// divisions of the same whole, so that the rows of one of them alone add up.
func (a *app) printCostsCSV(r *httpapi.CostReport) error {
	rows := [][]string{append([]string{"of", "group", "agent", "provider", "model", "share"}, countColumns...)}
	for _, part := range []struct {
		of    string
		lines []httpapi.CostLine
	}{{"group", r.Groups}, {"agent", r.Agents}, {"model", r.Models}} {
		for i := range part.lines {
			l := &part.lines[i]
			row := []string{part.of, l.Group, l.Agent, l.Provider, l.Model, strconv.FormatFloat(l.Share, 'f', -1, 64)}
			rows = append(rows, append(row, countRow(&l.HistoryCounts)...))
		}
	}
	return a.printCSV(rows, r.More, "--limit")
}

// hintCosts says which group or agent may have been meant where nothing was used by the one that was asked for.
func (a *app) hintCosts(ctx context.Context, client *client, r *httpapi.CostReport, query url.Values) error {
	if r.Total.Calls > 0 || r.Total.TotalTokens > 0 {
		return nil
	}
	return a.hintNames(ctx, client, query)
}

// hintNames says so if no group or agent of quotas.yaml has the name that was asked for.
func (a *app) hintNames(ctx context.Context, client *client, query url.Values) error {
	p := &page{w: a.out}
	for _, kind := range []string{"group", "agent"} {
		name := query.Get(kind)
		if name == "" {
			continue
		}
		if known, meant := knownQuota(ctx, client, kind, name); !known {
			p.line("quotas.yaml has no %s %s%s", kind, oneLine(name), meant)
		}
	}
	return p.err
}

func printCosts(w io.Writer, r httpapi.CostReport, now time.Time) error {
	p := &page{w: w}
	span := "in all"
	switch {
	case r.From != "" && r.To != "":
		span = "from " + r.From + " to " + r.To
	case r.From != "":
		span = "since " + r.From
	case r.To != "":
		span = "up to " + r.To
	}
	p.line("%s: %s, %s tokens (%s in, %s out), %s", span, quantity("cost_usd", r.Total.CostUSD),
		quantity("", float64(r.Total.TotalTokens)), quantity("", float64(r.Total.InputTokens)),
		quantity("", float64(r.Total.OutputTokens)), count(int(r.Total.Calls), "call"))
	p.blank()
	p.costs("GROUP", r.Groups, func(l *httpapi.CostLine) string {
		if l.Group == "" {
			return "(none)"
		}
		return l.Group
	})
	p.costs("AGENT", r.Agents, func(l *httpapi.CostLine) string { return strings.Trim(l.Group+"/"+l.Agent, "/") })
	p.costs("MODEL", r.Models, func(l *httpapi.CostLine) string { return modelOf(l.Provider, l.Model) })
	if r.More {
		p.line("… and more (--limit)")
	}
	p.projection(&r.Projection, now)
	return p.err
}

func (p *page) costs(head string, lines []httpapi.CostLine, name func(*httpapi.CostLine) string) {
	if len(lines) == 0 || p.err != nil {
		return
	}
	t := newTable(head, "COST", "SHARE", "CALLS", "INPUT", "OUTPUT", "TOTAL")
	for i := range lines {
		l := &lines[i]
		cost := quantity("cost_usd", l.CostUSD)
		if l.Unpriced {
			cost = "no price"
		}
		t.row(name(l), cost, strconv.FormatFloat(100*l.Share, 'f', 1, 64)+"%", l.Calls, quantity("", float64(l.InputTokens)),
			quantity("", float64(l.OutputTokens)), quantity("", float64(l.TotalTokens)))
	}
	if p.err = t.print(p.w); p.err == nil {
		p.blank()
	}
}

func (a *app) quotaForecastCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "forecast [NODE]",
		Short: "Show what will be used of every budget by the end of its period",
		Long: `Shows for every budget (or those of one node) what is used so far, and what will be used
by the end of its period. Each day that is left is expected to use the mean of all days
of the history; with two weeks of it, the mean of the same day of the week. Without a
whole day of history, and for periods of less than a day, use goes on as fast as in the
period so far.

  EXPECTED   by the end of the period, and % of the cap
  OVERRUNS   when the cap will be exceeded, if that goes on

Exit code 0 also where budgets will overrun; -o json has "overruns" for scripts.`,
		Example: `  taskbus quota forecast
  taskbus quota forecast pool/team-a -o json`,
		Args: cobra.MaximumNArgs(1),
	}
	base := urlFlag(c)
	limit := c.Flags().Int("limit", httpapi.DefaultHistoryLimit,
		fmt.Sprintf("at most so many budgets, 1 to %d", httpapi.MaxHistoryLimit))
	c.ValidArgsFunction = a.completeQuotas(base, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		query := url.Values{"limit": {strconv.Itoa(*limit)}}
		if *limit < 1 || *limit > httpapi.MaxHistoryLimit {
			return usageError("--limit must be 1 to %d, not %d", httpapi.MaxHistoryLimit, *limit)
		}
		if len(args) > 0 {
			if !httpapi.ValidNodeID(args[0]) {
				return usageError("%q is not the id of a node of quotas.yaml, such as pool/team-a", oneLine(args[0]))
			}
			query.Set("node", args[0])
		}
		client, err := a.newClient(*base)
		if err != nil {
			return err
		}
		var f httpapi.Forecasts
		if err := client.get(c.Context(), "/v1/quota/forecast?"+query.Encode(), &f); err != nil {
			return err
		}
		if a.output == outputJSON {
			return a.printJSON(f)
		}
		return printForecasts(a.out, f, a.now())
	}
	return c
}

func printForecasts(w io.Writer, f httpapi.Forecasts, now time.Time) error {
	p := &page{w: w}
	if !f.Configured {
		p.line("no quotas are configured: this coordinator has no quotas.yaml, so that nothing is limited")
		return p.err
	}
	if len(f.Budgets) == 0 {
		p.line("there are no budgets to forecast")
		return p.err
	}
	t := newTable("NODE", "DIMENSION", "USED", "OF", "EXPECTED", "%", "OVERRUNS", "RESETS", "BASIS")
	for i := range f.Budgets {
		b := &f.Budgets[i]
		in := func(v float64) string { return quantity(b.Dimension, v) }
		over, expected := "", b.Expected
		if b.Dimension != "cost_usd" { // half a token is none
			expected = math.Round(expected)
		}
		if b.Overruns {
			over = until(now, b.OverrunAt)
		}
		t.row(b.Node, b.Dimension, in(b.Used), in(b.Cap), in(expected), percent(b.Expected, b.Cap), over,
			until(now, b.ResetTime), b.Basis)
	}
	if err := t.print(w); err != nil {
		return err
	}
	p.blank()
	if more := f.TotalBudgets - len(f.Budgets); more > 0 {
		p.line("… and %d more budgets (--limit)", more)
	}
	p.line("%s, %d will overrun", count(f.TotalBudgets, "budget"), f.Overruns)
	p.projection(&f.Projection, now)
	return p.err
}
