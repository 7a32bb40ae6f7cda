package quota

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
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
	a.CSV(c)
	limit := new(int)
	cli.LimitFlag(c, limit, 20, httpapi.MaxHistoryLimit, "at most so many groups, agents and models each, 1 to %d")
	c.RunE = func(c *cobra.Command, _ []string) error {
		query, err := f.query()
		if err != nil {
			return err
		}
		if *by != "" && *by != "month" && *by != "day" {
			return cli.UsageError("--by must be month or day, not %q", cli.OneLine(*by))
		}
		client, err := a.NewClient(*f.base)
		if err != nil {
			return err
		}
		if *by != "" {
			return showCostsBy(c.Context(), a, client, *by, query)
		}
		query.Set("limit", strconv.Itoa(*limit))
		var r view.CostReport
		if err := client.Get(c.Context(), "/v1/quota/cost?"+query.Encode(), &r); err != nil {
			return err
		}
		if a.Output == cli.OutputCSV {
			return printCostsCSV(a, &r)
		}
		return a.Show(r, func(p *cli.Page) {
			if printCosts(p, &r); r.Total.Calls == 0 && r.Total.TotalTokens == 0 {
				hintNames(c.Context(), p, client, query)
			}
		})
	}
	return c
}

// costOf is what a group has cost in a month or on a day.
type costOf struct {
	Time  string `json:"time"`
	Group string `json:"group"`
	view.HistoryCounts
}

// showCostsBy shows what was used by time and group.
func showCostsBy(ctx context.Context, a *cli.App, client *cli.Client, by string, query url.Values) error {
	query.Set("by", by)
	query.Set("limit", strconv.Itoa(httpapi.MaxHistoryLimit))
	var l view.HistoryList
	if err := client.Get(ctx, "/v1/quota/history?"+query.Encode(), &l); err != nil {
		return err
	}
	all := costsBy(l.Rows)
	if a.Output == cli.OutputCSV {
		rows := [][]string{append([]string{by, "group"}, countColumns...)}
		for i := range all {
			rows = append(rows, append([]string{all[i].Time, all[i].Group}, countRow(&all[i].HistoryCounts)...))
		}
		return printCSV(a, rows, l.More, "--from")
	}
	return a.Show(all, func(p *cli.Page) {
		if printCostsBy(p, by, all, &l); len(all) == 0 {
			hintNames(ctx, p, client, query)
		}
	})
}

// costsBy sums rows of the history by time and group, the earliest first.
func costsBy(rows []view.HistoryRow) (all []costOf) {
	place := make(map[[2]string]int)
	for i := range rows {
		r := &rows[i]
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
	return all
}

func printCostsBy(p *cli.Page, by string, all []costOf, l *view.HistoryList) {
	t := cli.NewTable(timeHeads[by], "GROUP", "COST", "CALLS", "INPUT", "OUTPUT", "TOTAL")
	for _, x := range all {
		t.Row(x.Time, cmp.Or(x.Group, "(none)"), cli.Quantity("cost_usd", x.CostUSD), x.Calls, tokens(x.InputTokens),
			tokens(x.OutputTokens), tokens(x.TotalTokens))
	}
	if t.Empty() {
		p.Line("nothing was used")
	} else {
		p.Blank()
		p.Table(t)
	}
	if l.More {
		p.Line("… and more before (--from)")
	}
	p.Blank()
	projection(p, &l.Projection)
}

// countColumns are the columns of countRow.
var countColumns = []string{"calls", "released", "expired", "requests", "input_tokens", "output_tokens", "total_tokens",
	"cost_usd"}

// countRow is what was used, in plain numbers.
func countRow(x *view.HistoryCounts) (row []string) {
	for _, n := range []int64{x.Calls, x.Released, x.Expired, x.Requests, x.InputTokens, x.OutputTokens,
		x.TotalTokens} {
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

// hintNames says so if no group or agent of quotas.yaml has the name that was asked for, and which may have been meant.
func hintNames(ctx context.Context, p *cli.Page, client *cli.Client, query url.Values) {
	for _, kind := range []string{"group", "agent"} {
		name := query.Get(kind)
		if name == "" {
			continue
		}
		if known, meant := known(ctx, client, kind, name); !known {
			p.Line("quotas.yaml has no %s %s%s", kind, name, meant)
		}
	}
}

func printCosts(p *cli.Page, r *view.CostReport) {
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
		tokens(r.Total.TotalTokens), tokens(r.Total.InputTokens), tokens(r.Total.OutputTokens),
		cli.Count(int(r.Total.Calls), "call"))
	p.Blank()
	costs(p, "GROUP", r.Groups, func(l *view.CostLine) string { return cmp.Or(l.Group, "(none)") })
	costs(p, "AGENT", r.Agents, func(l *view.CostLine) string { return strings.Trim(l.Group+"/"+l.Agent, "/") })
	costs(p, "MODEL", r.Models, func(l *view.CostLine) string { return cli.ModelOf(l.Provider, l.Model) })
	if r.More {
		p.Line("… and more (--limit)")
	}
	projection(p, &r.Projection)
}

func costs(p *cli.Page, head string, lines []view.CostLine, name func(*view.CostLine) string) {
	t := cli.NewTable(head, "COST", "SHARE", "CALLS", "INPUT", "OUTPUT", "TOTAL")
	for i := range lines {
		l := &lines[i]
		cost := cli.Quantity("cost_usd", l.CostUSD)
		if l.Unpriced {
			cost = "no price"
		}
		t.Row(name(l), cost, strconv.FormatFloat(100*l.Share, 'f', 1, 64)+"%", l.Calls, tokens(l.InputTokens),
			tokens(l.OutputTokens), tokens(l.TotalTokens))
	}
	part(p, t)
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
	limit := new(int)
	cli.LimitFlag(c, limit, httpapi.DefaultHistoryLimit, httpapi.MaxHistoryLimit, "at most so many budgets, 1 to %d")
	c.ValidArgsFunction = completeNames(a, base, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		query := url.Values{"limit": {strconv.Itoa(*limit)}}
		if len(args) > 0 {
			if !httpapi.ValidNodeID(args[0]) {
				return cli.UsageError("%q is not the id of a node of quotas.yaml, such as pool/team-a",
					cli.OneLine(args[0]))
			}
			query.Set("node", args[0])
		}
		return cli.ShowAnswer(c.Context(), a, *base, "/v1/quota/forecast?"+query.Encode(), printForecasts)
	}
	return c
}

func printForecasts(p *cli.Page, f view.Forecasts) {
	if !f.Configured {
		unlimited(p)
		return
	}
	if len(f.Budgets) == 0 {
		p.Line("there are no budgets to forecast")
		return
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
			over = p.Until(b.OverrunAt)
		}
		t.Row(b.Node, b.Dimension, in(b.Used), in(b.Cap), in(expected), cli.Percent(b.Expected, b.Cap), over,
			p.Until(b.ResetTime), b.Basis)
	}
	part(p, t)
	if more := f.TotalBudgets - len(f.Budgets); more > 0 {
		p.Line("… and %d more budgets (--limit)", more)
	}
	p.Line("%s, %d will overrun", cli.Count(f.TotalBudgets, "budget"), f.Overruns)
	projection(p, &f.Projection)
}
