package quota

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

// historyFlags narrow what is asked of the history.
type historyFlags struct {
	base  *string
	words map[string]*string
}

func newHistoryFlags(a *cli.App, c *cobra.Command) *historyFlags {
	f := &historyFlags{base: cli.URLFlag(c), words: map[string]*string{
		"group":    c.Flags().String("group", "", "only this group"),
		"agent":    c.Flags().String("agent", "", "only this agent"),
		"provider": c.Flags().String("provider", "", "only this provider"),
		"model":    c.Flags().String("model", "", "only this model"),
		"from":     c.Flags().String("from", "", "from this day on, such as 2026-11-01"),
		"to":       c.Flags().String("to", "", "up to this day, itself included"),
	}}
	cli.CompleteFlag(c, "group", completeNames(a, f.base, "group"))
	cli.CompleteFlag(c, "agent", completeNames(a, f.base, "agent"))
	return f
}

// query is what is asked, for the URL.
func (f *historyFlags) query() (url.Values, error) {
	q := url.Values{}
	for name, value := range f.words {
		if *value == "" {
			continue
		}
		if name == "from" || name == "to" {
			if _, err := time.Parse(time.DateOnly, *value); err != nil {
				return nil, cli.UsageError("--%s must be a day such as 2026-11-22, not %q", name, cli.OneLine(*value))
			}
		}
		q.Set(name, *value)
	}
	return q, nil
}

func historyCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "history",
		Short: "Show what was used, by day, group, agent and model",
		Long: `Shows what was used of the LLM quotas, from the history that the coordinator keeps of
its journal (TASKBUS_HISTORY). A reservation counts for the day on which it was made, in
the time zone of quotas.yaml, once it has ended.

  CALLS      reservations that have ended, for tasks and calls; UNUSED those of them
             that were released, or expired without a report of use
  (lost)     ended, but the journal no longer says for which group

--rebuild makes the history again from the journal, as far as that reaches back, and
keeps what is older. It needs the admin token.`,
		Example: `  taskbus quota history --from 2026-11-01
  taskbus quota history --group team-a --by month -o json
  taskbus quota history --by month -o csv > usage.csv
  taskbus quota history --rebuild`,
		Args: cobra.NoArgs,
	}
	f := newHistoryFlags(a, c)
	by := c.Flags().String("by", "day", "a row for each day, month, or total")
	limit := new(int)
	cli.LimitFlag(c, limit, httpapi.DefaultHistoryLimit, httpapi.MaxHistoryLimit,
		"at most so many rows, the latest, 1 to %d")
	rebuild := c.Flags().Bool("rebuild", false, "make it again from the journal first")
	a.CSV(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *by != "day" && *by != "month" && *by != "total" {
			return cli.UsageError("--by must be day, month or total, not %q", cli.OneLine(*by))
		}
		query, err := f.query()
		if err != nil {
			return err
		}
		if *rebuild {
			return rebuildHistory(c.Context(), a, *f.base)
		}
		client, err := a.NewClient(*f.base)
		if err != nil {
			return err
		}
		query.Set("by", *by)
		query.Set("limit", strconv.Itoa(*limit))
		var l view.HistoryList
		if err := client.Get(c.Context(), "/v1/quota/history?"+query.Encode(), &l); err != nil {
			return err
		}
		if a.Output == cli.OutputCSV {
			return printHistoryCSV(a, &l)
		}
		return a.Show(l, func(p *cli.Page) {
			if printHistory(p, &l); len(l.Rows) == 0 {
				hintNames(c.Context(), p, client, query)
			}
		})
	}
	return c
}

// How long, and how often, the end of a rebuild is waited for.
const (
	rebuildWait  = 10 * time.Minute
	rebuildEvery = time.Second
)

// rebuildHistory has the history made anew, and waits for that.
func rebuildHistory(ctx context.Context, a *cli.App, base string) error {
	client, err := a.NewAdminClient(base)
	if err != nil {
		return err
	}
	client.HTTP.Timeout = reconcileTimeout
	var made view.Rebuilt
	if err := client.Change(ctx, http.MethodPost, "/v1/quota/history/rebuild", struct{}{}, &made); err != nil {
		return err
	}
	switch {
	case a.Output == cli.OutputCSV:
		return cli.UsageError("--rebuild has no rows: ask for them with -o csv afterwards")
	case made.State == "done" || a.Output == cli.OutputJSON:
		return a.Show(made, func(p *cli.Page) {
			p.Line("%s made anew", cli.Count(made.Rows, "row"))
			p.Line("%s", made.Detail)
		})
	}
	ctx, cancel := context.WithTimeout(ctx, rebuildWait)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the history is still being made anew; `taskbus quota history` says when it is done")
		case <-time.After(rebuildEvery):
		}
		var l view.HistoryList
		if err := client.Get(ctx, "/v1/quota/history?limit=1", &l); err != nil {
			return err
		}
		if l.Projection.State == "rebuilding" {
			continue
		}
		err := a.Text(func(p *cli.Page) { projection(p, &l.Projection) })
		if err == nil && (l.Projection.State == "failing" || l.Projection.State == "stopped") {
			return fmt.Errorf("the history was not made anew: it is %s; the coordinator's log says why",
				l.Projection.State)
		}
		return err
	}
}

// owner names the owner of a row: none in particular, or one that is not known any more.
func owner(r *view.HistoryRow) string {
	if r.Group == "" && r.Source == "" {
		return "(lost)"
	}
	return r.Group
}

// timeHeads head the column of times, by what rows are of.
var timeHeads = map[string]string{"day": "DAY", "month": "MONTH", "total": "TIME"}

// tokens is a number of them in few digits.
func tokens(n int64) string { return cli.Quantity("total_tokens", float64(n)) }

func printHistory(p *cli.Page, l *view.HistoryList) {
	t := cli.NewTable(timeHeads[l.By], "GROUP", "AGENT", "MODEL", "CALLS", "UNUSED", "REQUESTS", "INPUT", "OUTPUT",
		"COST")
	for i := range l.Rows {
		r := &l.Rows[i]
		day := r.Day
		if l.By == "total" {
			day = "all"
		}
		t.Row(day, owner(r), r.Agent, cli.ModelOf(r.Provider, r.Model), r.Calls, r.Released+r.Expired, r.Requests,
			tokens(r.InputTokens), tokens(r.OutputTokens), cli.Quantity("cost_usd", r.CostUSD))
	}
	if t.Empty() {
		p.Line("nothing was used")
	} else {
		p.Table(t)
	}
	if l.More {
		p.Line("… and more before (--limit, --from)")
	}
	p.Blank()
	projection(p, &l.Projection)
}

// printHistoryCSV writes the rows with their plain numbers; what else there is to say goes to stderr.
func printHistoryCSV(a *cli.App, l *view.HistoryList) error {
	rows := [][]string{append([]string{l.By, "group", "agent", "provider", "model", "source"}, countColumns...)}
	for i := range l.Rows {
		r := &l.Rows[i]
		rows = append(rows, append([]string{r.Day, r.Group, r.Agent, r.Provider, r.Model, r.Source},
			countRow(&r.HistoryCounts)...))
	}
	return printCSV(a, rows, l.More, "--limit, --from")
}

// gapText is from when to when something is missing, as far as that is known: in front of the first message
// that could be read there is no time.
func gapText(g *view.HistoryGap) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "some time"
		}
		return t.UTC().Format(time.RFC3339)
	}
	return at(g.From) + " to " + at(g.To)
}

// projection says up to when the history is, and what is missing in it.
func projection(p *cli.Page, j *view.Projection) {
	switch {
	case j.State == "off":
	case j.Since.IsZero():
		p.Line("nothing of the journal is in the history yet")
	default:
		p.Line("complete since %s, up to %s (%s)", j.Since.UTC().Format(time.RFC3339),
			j.UpTo.UTC().Format(time.RFC3339), p.Ago(j.UpTo))
	}
	if j.State != "following" && j.State != "beside" {
		p.Line("it is %s: %s", j.State, j.Detail)
	}
	for _, g := range j.Gaps {
		p.Line("missing: %s", gapText(&g))
		p.Line("  %s", g.Reason)
		if g.Lost > 0 {
			p.Line("  of %s it is not known what was used", cli.Count(int(g.Lost), "reservation"))
		}
	}
}
