package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/coordinator/httpapi"
)

// historyFlags narrow what is asked of the history.
type historyFlags struct {
	base  *string
	words map[string]*string
}

func newHistoryFlags(a *app, c *cobra.Command) *historyFlags {
	f := &historyFlags{base: urlFlag(c), words: map[string]*string{
		"group":    c.Flags().String("group", "", "only this group"),
		"agent":    c.Flags().String("agent", "", "only this agent"),
		"provider": c.Flags().String("provider", "", "only this provider"),
		"model":    c.Flags().String("model", "", "only this model"),
		"from":     c.Flags().String("from", "", "from this day on, such as 2026-11-01"),
		"to":       c.Flags().String("to", "", "up to this day, itself included"),
	}}
	completeFlag(c, "group", a.completeQuotas(f.base, "group"))
	completeFlag(c, "agent", a.completeQuotas(f.base, "agent"))
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
				return nil, usageError("--%s must be a day such as 2026-11-22, not %q", name, oneLine(*value))
			}
		}
		q.Set(name, *value)
	}
	return q, nil
}

func (a *app) quotaHistoryCommand() *cobra.Command {
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
	limit := c.Flags().Int("limit", httpapi.DefaultHistoryLimit, fmt.Sprintf("at most so many rows, the latest, 1 to %d",
		httpapi.MaxHistoryLimit))
	rebuild := c.Flags().Bool("rebuild", false, "make it again from the journal first")
	output := c.Flags().StringP("output", "o", outputTable, "form of the output: table, json or csv")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *by != "day" && *by != "month" && *by != "total" {
			return usageError("--by must be day, month or total, not %q", oneLine(*by))
		}
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
		if *rebuild {
			return a.rebuildHistory(c.Context(), *f.base)
		}
		client, err := a.newClient(*f.base)
		if err != nil {
			return err
		}
		query.Set("by", *by)
		query.Set("limit", strconv.Itoa(*limit))
		var l httpapi.HistoryList
		if err := client.get(c.Context(), "/v1/quota/history?"+query.Encode(), &l); err != nil {
			return err
		}
		switch a.output {
		case outputJSON:
			return a.printJSON(l)
		case outputCSV:
			return a.printHistoryCSV(&l)
		}
		if err := printHistory(a.out, l, a.now()); err != nil || len(l.Rows) > 0 {
			return err
		}
		return a.hintNames(c.Context(), client, query)
	}
	return c
}

// How long, and how often, the end of a rebuild is waited for.
const (
	rebuildWait  = 10 * time.Minute
	rebuildEvery = time.Second
)

// rebuildHistory has the history made anew, and waits for that.
func (a *app) rebuildHistory(ctx context.Context, base string) error {
	client, err := a.newAdminClient(base)
	if err != nil {
		return err
	}
	client.http.Timeout = reconcileTimeout
	var made httpapi.Rebuilt
	if err := client.change(ctx, http.MethodPost, "/v1/quota/history/rebuild", struct{}{}, &made); err != nil {
		return err
	}
	switch a.output {
	case outputJSON:
		return a.printJSON(made)
	case outputCSV:
		return usageError("--rebuild has no rows: ask for them with -o csv afterwards")
	}
	p := &page{w: a.out}
	if made.State == "done" {
		p.line("%s made anew", count(made.Rows, "row"))
		p.line("%s", oneLine(made.Detail))
		return p.err
	}
	ctx, cancel := context.WithTimeout(ctx, rebuildWait)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the history is still being made anew; `taskbus quota history` says when it is done")
		case <-time.After(rebuildEvery):
		}
		var l httpapi.HistoryList
		if err := client.get(ctx, "/v1/quota/history?limit=1", &l); err != nil {
			return err
		}
		if l.Projection.State == "rebuilding" {
			continue
		}
		p.projection(&l.Projection, a.now())
		if p.err == nil && (l.Projection.State == "failing" || l.Projection.State == "stopped") {
			return fmt.Errorf("the history was not made anew: it is %s; the coordinator's log says why", l.Projection.State)
		}
		return p.err
	}
}

// owner names the owner of a row: none in particular, or one that is not known any more.
func owner(r *httpapi.HistoryRow) string {
	if r.Group == "" && r.Source == "" {
		return "(lost)"
	}
	return r.Group
}

// modelOf names a model with its provider, as far as these are known.
func modelOf(provider, model string) string { return strings.Trim(provider+"/"+model, "/") }

func printHistory(w io.Writer, l httpapi.HistoryList, now time.Time) error {
	p := &page{w: w}
	head := map[string]string{"day": "DAY", "month": "MONTH", "total": "TIME"}[l.By]
	t := newTable(head, "GROUP", "AGENT", "MODEL", "CALLS", "UNUSED", "REQUESTS", "INPUT", "OUTPUT", "COST")
	tokens := func(n int64) string { return quantity("total_tokens", float64(n)) }
	for i := range l.Rows {
		r := &l.Rows[i]
		day := r.Day
		if l.By == "total" {
			day = "all"
		}
		t.row(day, owner(r), r.Agent, modelOf(r.Provider, r.Model), r.Calls, r.Released+r.Expired, r.Requests,
			tokens(r.InputTokens), tokens(r.OutputTokens), quantity("cost_usd", r.CostUSD))
	}
	if len(l.Rows) == 0 {
		p.line("nothing was used")
	} else if p.err = t.print(w); p.err != nil {
		return p.err
	}
	if l.More {
		p.line("… and more before (--limit, --from)")
	}
	p.blank()
	p.projection(&l.Projection, now)
	return p.err
}

// printHistoryCSV writes the rows with their plain numbers; what else there is to say goes to stderr.
func (a *app) printHistoryCSV(l *httpapi.HistoryList) error {
	rows := [][]string{append([]string{l.By, "group", "agent", "provider", "model", "source"}, countColumns...)}
	for i := range l.Rows {
		r := &l.Rows[i]
		rows = append(rows, append([]string{r.Day, r.Group, r.Agent, r.Provider, r.Model, r.Source},
			countRow(&r.HistoryCounts)...))
	}
	return a.printCSV(rows, l.More, "--limit, --from")
}

// gapText is from when to when something is missing, as far as that is known: in front of the first message
// that could be read there is no time.
func gapText(g *httpapi.HistoryGap) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "some time"
		}
		return t.UTC().Format(time.RFC3339)
	}
	return at(g.From) + " to " + at(g.To)
}

// projection says up to when the history is, and what is missing in it.
func (p *page) projection(j *httpapi.Projection, now time.Time) {
	switch {
	case j.State == "off":
	case j.Since.IsZero():
		p.line("nothing of the journal is in the history yet")
	default:
		p.line("complete since %s, up to %s (%s)", j.Since.UTC().Format(time.RFC3339), j.UpTo.UTC().Format(time.RFC3339),
			ago(now, j.UpTo))
	}
	if j.State != "following" && j.State != "beside" {
		p.line("it is %s: %s", j.State, oneLine(j.Detail))
	}
	for _, g := range j.Gaps {
		p.line("missing: %s", gapText(&g))
		p.line("  %s", oneLine(g.Reason))
		if g.Lost > 0 {
			p.line("  of %s it is not known what was used", count(int(g.Lost), "reservation"))
		}
	}
}
