package quota

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

	"taskbus/cmd/taskbus/internal/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

func costCommand(a *cli.App) *cobra.Command {
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
	output := c.Flags().StringP("output", "o", cli.OutputTable, "form of the output: table, json or csv")
	limit := c.Flags().Int("limit", 20, fmt.Sprintf("at most so many groups, agents and models each, 1 to %d",
		httpapi.MaxHistoryLimit))
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *output != cli.OutputTable && *output != cli.OutputJSON && *output != cli.OutputCSV {
			return cli.UsageError("-o must be table, json or csv, not %q", cli.OneLine(*output))
		}
		a.Output = *output
		if *limit < 1 || *limit > httpapi.MaxHistoryLimit {
			return cli.UsageError("--limit must be 1 to %d, not %d", httpapi.MaxHistoryLimit, *limit)
		}
		query, err := f.query()
		if err != nil {
			return err
		}
		if *by != "" && *by != "month" && *by != "day" {
			return cli.UsageError("--by must be month or day, not %q", cli.OneLine(*by))
		}
		if *by != "" {
			return costsBy(c.Context(), a, *f.base, *by, query)
		}
		query.Set("limit", strconv.Itoa(*limit))
		client, err := a.NewClient(*f.base)
		if err != nil {
			return err
		}
		var r view.CostReport
		if err := client.Get(c.Context(), "/v1/quota/cost?"+query.Encode(), &r); err != nil {
			return err
		}
		switch a.Output {
		case cli.OutputJSON:
			return a.PrintJSON(r)
		case cli.OutputCSV:
			return printCostsCSV(a, &r)
		}
		if err := printCosts(a.Out, r, a.Now()); err != nil {
			return err
		}
		return hintCosts(c.Context(), a, client, &r, query)
	}
	return c
}

// costOf is what a group has cost in a month or on a day.
type costOf struct {
	Time  string `json:"time"`
	Group string `json:"group"`
	view.HistoryCounts
}

// costsBy sums the history by time and group, the earliest first.
func costsBy(ctx context.Context, a *cli.App, base, by string, query url.Values) error {
	client, err := a.NewClient(base)
	if err != nil {
		return err
	}
	query.Set("by", by)
	query.Set("limit", strconv.Itoa(httpapi.MaxHistoryLimit))
	var l view.HistoryList
	if err := client.Get(ctx, "/v1/quota/history?"+query.Encode(), &l); err != nil {
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
	switch a.Output {
	case cli.OutputJSON:
		return a.PrintJSON(all)
	case cli.OutputCSV:
		rows := [][]string{append([]string{by, "group"}, countColumns...)}
		for i := range all {
			rows = append(rows, append([]string{all[i].Time, all[i].Group}, countRow(&all[i].HistoryCounts)...))
		}
		return printCSV(a, rows, l.More, "--from")
	}
	p := &cli.Page{W: a.Out}
	t := cli.NewTable(strings.ToUpper(by), "GROUP", "COST", "CALLS", "INPUT", "OUTPUT", "TOTAL")
	for _, x := range all {
		t.Row(x.Time, cmp.Or(x.Group, "(none)"), cli.Quantity("cost_usd", x.CostUSD), x.Calls,
			cli.Quantity("", float64(x.InputTokens)), cli.Quantity("", float64(x.OutputTokens)), cli.Quantity("", float64(x.TotalTokens)))
	}
	if len(all) == 0 {
		p.Line("nothing was used")
	} else {
		p.Table(t)
	}
	if l.More {
		p.Line("… and more before (--from)")
	}
	p.Blank()
	if projection(p, &l.Projection, a.Now()); p.Err != nil || len(all) > 0 {
		return p.Err
	}
	return hintNames(ctx, a, client, query)
}

// countColumns are the columns of countRow.
var countColumns = []string{"calls", "released", "expired", "requests", "input_tokens", "output_tokens", "total_tokens",
	"cost_usd"}

// countRow is what was used, in plain numbers.
func countRow(x *view.HistoryCounts) (row []string) {
	for _, n := range []int64{x.Calls, x.Released, x.Expired, x.Requests, x.InputTokens, x.OutputTokens, x.TotalTokens} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	return append(row, strconv.FormatFloat(x.CostUSD, 'f', -1, 64))
}

// printCSV writes rows; that there are more goes to stderr.
func printCSV(a *cli.App, rows [][]string, more bool, flags string) error {
	if err := csv.NewWriter(a.Out).WriteAll(rows); err != nil {
		return fmt.Errorf("write the rows: %w", err)
	}
	if more {
		fmt.Fprintln(a.Err, "there are more rows: "+flags)
	}
	return nil
}

// printCostsCSV writes a row for each group, agent and model: of is which of these it is. They are three
// divisions of the same whole, so that the rows of one of them alone add up.
func printCostsCSV(a *cli.App, r *view.CostReport) error {
	rows := [][]string{append([]string{"of", "group", "agent", "provider", "model", "share"}, countColumns...)}
	for _, part := range []struct {
		of    string
		lines []view.CostLine
	}{{"group", r.Groups}, {"agent", r.Agents}, {"model", r.Models}} {
		for i := range part.lines {
			l := &part.lines[i]
			row := []string{part.of, l.Group, l.Agent, l.Provider, l.Model, strconv.FormatFloat(l.Share, 'f', -1, 64)}
			rows = append(rows, append(row, countRow(&l.HistoryCounts)...))
		}
	}
	return printCSV(a, rows, r.More, "--limit")
}

// hintCosts says which group or agent may have been meant where nothing was used by the one that was asked for.
func hintCosts(ctx context.Context, a *cli.App, client *cli.Client, r *view.CostReport, query url.Values) error {
	if r.Total.Calls > 0 || r.Total.TotalTokens > 0 {
		return nil
	}
	return hintNames(ctx, a, client, query)
}

// hintNames says so if no group or agent of quotas.yaml has the name that was asked for.
func hintNames(ctx context.Context, a *cli.App, client *cli.Client, query url.Values) error {
	p := &cli.Page{W: a.Out}
	for _, kind := range []string{"group", "agent"} {
		name := query.Get(kind)
		if name == "" {
			continue
		}
		if known, meant := known(ctx, client, kind, name); !known {
			p.Line("quotas.yaml has no %s %s%s", kind, cli.OneLine(name), meant)
		}
	}
	return p.Err
}

func printCosts(w io.Writer, r view.CostReport, now time.Time) error {
	p := &cli.Page{W: w}
	span := "in all"
	switch {
	case r.From != "" && r.To != "":
		span = "from " + r.From + " to " + r.To
	case r.From != "":
		span = "since " + r.From
	case r.To != "":
		span = "up to " + r.To
	}
	p.Line("%s: %s, %s tokens (%s in, %s out), %s", span, cli.Quantity("cost_usd", r.Total.CostUSD),
		cli.Quantity("", float64(r.Total.TotalTokens)), cli.Quantity("", float64(r.Total.InputTokens)),
		cli.Quantity("", float64(r.Total.OutputTokens)), cli.Count(int(r.Total.Calls), "call"))
	p.Blank()
	costs(p, "GROUP", r.Groups, func(l *view.CostLine) string {
		if l.Group == "" {
			return "(none)"
		}
		return l.Group
	})
	costs(p, "AGENT", r.Agents, func(l *view.CostLine) string { return strings.Trim(l.Group+"/"+l.Agent, "/") })
	costs(p, "MODEL", r.Models, func(l *view.CostLine) string { return cli.ModelOf(l.Provider, l.Model) })
	if r.More {
		p.Line("… and more (--limit)")
	}
	projection(p, &r.Projection, now)
	return p.Err
}

func costs(p *cli.Page, head string, lines []view.CostLine, name func(*view.CostLine) string) {
	if len(lines) == 0 || p.Err != nil {
		return
	}
	t := cli.NewTable(head, "COST", "SHARE", "CALLS", "INPUT", "OUTPUT", "TOTAL")
	for i := range lines {
		l := &lines[i]
		cost := cli.Quantity("cost_usd", l.CostUSD)
		if l.Unpriced {
			cost = "no price"
		}
		t.Row(name(l), cost, strconv.FormatFloat(100*l.Share, 'f', 1, 64)+"%", l.Calls, cli.Quantity("", float64(l.InputTokens)),
			cli.Quantity("", float64(l.OutputTokens)), cli.Quantity("", float64(l.TotalTokens)))
	}
	if p.Err = t.Print(p.W); p.Err == nil {
		p.Blank()
	}
}

func forecastCommand(a *cli.App) *cobra.Command {
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
	base := cli.URLFlag(c)
	limit := c.Flags().Int("limit", httpapi.DefaultHistoryLimit,
		fmt.Sprintf("at most so many budgets, 1 to %d", httpapi.MaxHistoryLimit))
	c.ValidArgsFunction = completeNames(a, base, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		query := url.Values{"limit": {strconv.Itoa(*limit)}}
		if *limit < 1 || *limit > httpapi.MaxHistoryLimit {
			return cli.UsageError("--limit must be 1 to %d, not %d", httpapi.MaxHistoryLimit, *limit)
		}
		if len(args) > 0 {
			if !httpapi.ValidNodeID(args[0]) {
				return cli.UsageError("%q is not the id of a node of quotas.yaml, such as pool/team-a", cli.OneLine(args[0]))
			}
			query.Set("node", args[0])
		}
		f, err := cli.Ask[view.Forecasts](c.Context(), a, *base, "/v1/quota/forecast?"+query.Encode())
		if err != nil {
			return err
		}
		return a.Show(f, func() error { return printForecasts(a.Out, f, a.Now()) })
	}
	return c
}

func printForecasts(w io.Writer, f view.Forecasts, now time.Time) error {
	p := &cli.Page{W: w}
	if !f.Configured {
		p.Line("no quotas are configured: this coordinator has no quotas.yaml, so that nothing is limited")
		return p.Err
	}
	if len(f.Budgets) == 0 {
		p.Line("there are no budgets to forecast")
		return p.Err
	}
	t := cli.NewTable("NODE", "DIMENSION", "USED", "OF", "EXPECTED", "%", "OVERRUNS", "RESETS", "BASIS")
	for i := range f.Budgets {
		b := &f.Budgets[i]
		in := func(v float64) string { return cli.Quantity(b.Dimension, v) }
		over, expected := "", b.Expected
		if b.Dimension != "cost_usd" { // half a token is none
			expected = math.Round(expected)
		}
		if b.Overruns {
			over = cli.Until(now, b.OverrunAt)
		}
		t.Row(b.Node, b.Dimension, in(b.Used), in(b.Cap), in(expected), cli.Percent(b.Expected, b.Cap), over,
			cli.Until(now, b.ResetTime), b.Basis)
	}
	if err := t.Print(w); err != nil {
		return err
	}
	p.Blank()
	if more := f.TotalBudgets - len(f.Budgets); more > 0 {
		p.Line("… and %d more budgets (--limit)", more)
	}
	p.Line("%s, %d will overrun", cli.Count(f.TotalBudgets, "budget"), f.Overruns)
	projection(p, &f.Projection, now)
	return p.Err
}
