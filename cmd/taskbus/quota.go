package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"taskbus/coordinator/httpapi"
)

func (a *app) quotaCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "quota",
		Short: "Show and change the LLM quotas: what is used, borrowed and lent, what waits, what binds",
		Long: `Shows the quotas of quotas.yaml as the coordinator counts them: what every provider,
model, group and agent may use, has used and has set aside for what runs.

Any coordinator answers; a standby answers with what the journal has said so far.
The one that leads also changes them: weights and limits, for good or for a time, and
the groups and agents there are.`,
		Example: `  taskbus quota ls
  taskbus quota show team-a
  taskbus quota explain --group team-a --input-tokens 4000
  taskbus quota boost pool/team-a total_tokens +50% --for 2h`,
		Args: subcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.quotaListCommand(), a.quotaShowCommand(), a.quotaExplainCommand(),
		a.quotaHistoryCommand(), a.quotaCostCommand(), a.quotaForecastCommand(), a.quotaReconcileCommand(),
		a.quotaCacheCommand(),
		a.quotaSetCommand(), a.quotaBoostCommand(), a.quotaCorrectCommand(), a.quotaUnsetCommand(), a.quotaControlsCommand(),
		a.quotaAddGroupCommand(), a.quotaAddAgentCommand(), a.quotaRemoveGroupCommand(), a.quotaRemoveAgentCommand())
	return c
}

// quotaColumns explains the tables.
const quotaColumns = `  USED       of a budget, in its period; of a rate, what is taken of its burst at this
             moment; of concurrency, what runs
  RESERVED   set aside for what runs, and settled at what it has used
  OF         what may be used: its own and what is borrowed, less what is lent
  %          used and reserved, of that
  BORROWED   from others, which use less meanwhile; LENT to others; DEBT what it is overdrawn by
             and what it gives up for the period before
  RESETS     when the next period of the budget begins, or how fast the rate comes back

  SHARE      which part of the cost of the last minute or two was the group's
  TARGET     which part its weight gives it among those that wait or had a part
  WAITING    tasks that wait for an agent or quota; FOR QUOTA those of them that wait
             for quota`

func (a *app) quotaListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List all quotas with what is used of them",
		Long:    "Lists every limit of every node of the quota trees, and the groups that wait.\n\n" + quotaColumns,
		Example: `  taskbus quota ls
  taskbus quota ls --group team-a
  taskbus quota ls -o json`,
		Args: cobra.NoArgs,
	}
	base := urlFlag(c)
	group := c.Flags().String("group", "", "only this group and its agents, in every tree")
	limit := c.Flags().Int("limit", httpapi.DefaultQuotaLimit,
		fmt.Sprintf("at most so many nodes, 1 to %d", httpapi.MaxQuotaLimit))
	after := c.Flags().String("after", "", "only the nodes behind this one, as the page before says")
	completeFlag(c, "group", a.completeQuotas(base, "group"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *limit < 1 || *limit > httpapi.MaxQuotaLimit {
			return usageError("--limit must be 1 to %d, not %d", httpapi.MaxQuotaLimit, *limit)
		}
		if *after != "" && (*group != "" || !httpapi.ValidNodeID(*after)) {
			return usageError("--after names the node that a page has ended with, such as pool/team-a, and goes without --group")
		}
		client, err := a.newClient(*base)
		if err != nil {
			return err
		}
		if *group != "" {
			return a.showGroup(c.Context(), client, *group)
		}
		query := url.Values{"limit": {strconv.Itoa(*limit)}}
		if *after != "" {
			query.Set("after", *after)
		}
		var q httpapi.Quotas
		if err := client.get(c.Context(), "/v1/quota?"+query.Encode(), &q); err != nil {
			return err
		}
		if a.output == outputJSON {
			return a.printJSON(q)
		}
		if err := printQuotas(a.out, q, a.now()); err != nil || !q.Configured {
			return err
		}
		return a.printUnread(c.Context(), client)
	}
	return c
}

// printUnread says of a coordinator without a session that it knows nothing of the journal: all
// that is used reads as 0 then.
func (a *app) printUnread(ctx context.Context, client *client) error {
	s, err := client.status(ctx)
	if err != nil || s.Readiness.State != "connecting" { // it has answered before: an error here is no reason to fail
		return nil
	}
	_,
		err = fmt.Fprintf(a.out,
		"\nthis coordinator is not connected to the broker (%s) and has not read the journal: what is used may be more than is shown\n", s.Readiness.Detail)
	return err
}

func (a *app) showGroup(ctx context.Context, client *client, group string) error {
	if err := checkID("a group", group); err != nil {
		return err
	}
	var g httpapi.QuotaGroup
	if err := client.get(ctx, "/v1/quota/groups/"+url.PathEscape(group), &g); err != nil {
		return err
	}
	if a.output == outputJSON {
		return a.printJSON(g)
	}
	return printQuotaGroup(a.out, g, a.now())
}

func printQuotas(w io.Writer, q httpapi.Quotas, now time.Time) error {
	p := &page{w: w}
	if !q.Configured {
		p.line("no quotas are configured: this coordinator has no quotas.yaml, so that nothing is limited")
		return p.err
	}
	p.limits(q.Nodes, now)
	if q.Next != "" {
		p.line("… and more nodes: go on with --after %s, or see more at once with --limit", q.Next)
	}
	p.blank()
	p.turns(q.Groups)
	p.unpriced(q.Unpriced, now)
	waiting, parked := 0, 0
	for _, g := range q.Groups {
		waiting, parked = waiting+g.Waiting, parked+g.WaitingForQuota
	}
	p.line("%s; %s waiting, %d for quota", count(q.TotalNodes, "node"), count(waiting, "task"), parked)
	return p.err
}

// limits is the table of what is used of nodes' limits. Nodes without any are left out.
func (p *page) limits(nodes []httpapi.QuotaNode, now time.Time) {
	t := newTable("NODE", "DIMENSION", "USED", "RESERVED", "OF", "%", "BORROWED", "LENT", "DEBT", "RESETS")
	for i := range nodes {
		n := &nodes[i]
		for _, b := range n.Budgets {
			in := func(v float64) string { return quantity(b.Dimension, v) }
			t.row(n.ID, b.Dimension, in(b.Used), in(b.Reserved), in(b.Cap), percent(b.Used+b.Reserved, b.Cap),
				some(in, b.Borrowed), some(in, b.Lent), some(in, b.Debt), until(now, b.ResetTime))
		}
		for _, r := range n.Rates {
			in := func(v float64) string { return quantity(r.Dimension, v) }
			all, speed := r.Burst, in(r.Amount)+"/"+per(r.PerSeconds)
			if r.Amount == 0 {
				all, speed = 0, "what others leave"
			}
			t.row(n.ID, r.Dimension+"/"+per(r.PerSeconds), in(max(0, all-r.Remaining)), "", in(all),
				percent(max(0, all-r.Remaining), all), "", "", some(in, r.Debt), speed)
		}
		if c := n.Concurrency; c != nil {
			t.row(n.ID, "concurrency", c.Running, "", c.Limit, percent(float64(c.Running), float64(c.Limit)), "", "", "", "")
		}
	}
	if len(t.rows) == 1 {
		p.line("none of these nodes has a limit")
		return
	}
	if p.err == nil {
		p.err = t.print(p.w)
	}
}

// unpriced is the table of models without a price that were named; nothing if there are none.
func (p *page) unpriced(models []httpapi.UnpricedModel, now time.Time) {
	t := newTable("NO PRICE", "GROUP", "NODE", "REFUSED", "ADMITTED", "LAST")
	for i := range models {
		m := &models[i]
		t.row(m.Name(), m.Group, m.Node, m.Refused, m.Admitted, inUnit(now.Sub(m.LastSeen).Round(time.Second))+" ago")
	}
	if len(t.rows) > 1 && p.err == nil {
		if p.err = t.print(p.w); p.err == nil {
			p.blank()
		}
	}
}

// turns is the table of groups that wait or had a part of late; nothing if there are none.
func (p *page) turns(groups []httpapi.QuotaTurns) {
	t := newTable("GROUP", "SHARE", "TARGET", "WAITING", "FOR QUOTA")
	for _, g := range groups {
		if g.Waiting > 0 || g.Share > 0 {
			t.row(g.Group, percent(g.Share, 1), percent(g.TargetShare, 1), g.Waiting, g.WaitingForQuota)
		}
	}
	if len(t.rows) > 1 && p.err == nil {
		if p.err = t.print(p.w); p.err == nil {
			p.blank()
		}
	}
}

// quantity is an amount of a dimension in few digits: 412, 41.2k, 4.12M; dollars of costs.
func quantity(dimension string, v float64) string {
	if dimension == "cost_usd" {
		if v >= 10_000 {
			return "$" + quantity("", v)
		}
		return "$" + strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
	}
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.of && v >= 10_000 {
			return strconv.FormatFloat(v/unit.of, 'g', 4, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// some is a quantity, or nothing of nothing.
func some(in func(float64) string, v float64) string {
	if v == 0 {
		return ""
	}
	return in(v)
}

// percent of a part in the whole; "" of nothing.
func percent(part, whole float64) string {
	if whole <= 0 {
		return ""
	}
	return strconv.FormatFloat(math.Floor(100*part/whole), 'f', -1, 64) + "%"
}

// per names a time in which a rate allows its amount: "s", "2s", "min", "h".
func per(seconds float64) string {
	switch seconds {
	case 1:
		return "s"
	case 60:
		return "min"
	case 3600:
		return "h"
	case 86400:
		return "day"
	}
	return strconv.FormatFloat(seconds, 'f', -1, 64) + "s"
}

// until renders how far ahead a time is, in the largest unit that fits; "" for none.
func until(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	d := then.Sub(now)
	if d >= time.Second { // what was to be two hours a moment ago is not one
		d = d.Round(time.Second)
	}
	if d > time.Hour {
		d = d.Round(time.Minute)
	}
	if d >= time.Second {
		return "in " + inUnit(d)
	}
	return "now"
}

// completeQuotas suggests the names of nodes of a kind; "nodes" for the ids of all nodes, "" for
// these and the names of groups and agents.
func (a *app) completeQuotas(base *string, kind string) cobra.CompletionFunc {
	return a.completeBy(base, func(ctx context.Context, of *client) (words []cobra.Completion, err error) {
		var q httpapi.Quotas
		if err := of.get(ctx, "/v1/quota", &q); err != nil {
			return nil, err
		}
		seen := make(map[string]bool)
		add := func(word, about string) {
			if !seen[word] {
				seen[word] = true
				words = append(words, cobra.CompletionWithDesc(word, oneLine(about)))
			}
		}
		for _, n := range q.Nodes {
			switch {
			case kind == n.Kind, kind == "" && (n.Kind == "group" || n.Kind == "agent"):
				add(n.Name, n.Kind)
			}
			if kind == "" || kind == "nodes" {
				add(n.ID, n.Kind)
			}
		}
		return words, nil
	})
}
