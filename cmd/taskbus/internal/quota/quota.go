package quota

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

func Command(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
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
	}, listCommand(a), showCommand(a), explainCommand(a),
		historyCommand(a), costCommand(a), forecastCommand(a), reconcileCommand(a),
		cacheCommand(a),
		setCommand(a), boostCommand(a), correctCommand(a), unsetCommand(a), controlsCommand(a),
		addGroupCommand(a), addAgentCommand(a), removeGroupCommand(a), removeAgentCommand(a))
}

// columnsHelp explains the tables.
const columnsHelp = `  USED       of a budget, in its period; of a rate, what is taken of its burst at this
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

func listCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List all quotas with what is used of them",
		Long:    "Lists every limit of every node of the quota trees, and the groups that wait.\n\n" + columnsHelp,
		Example: `  taskbus quota ls
  taskbus quota ls --group team-a
  taskbus quota ls -o json`,
		Args: cobra.NoArgs,
	}
	base := cli.URLFlag(c)
	group := c.Flags().String("group", "", "only this group and its agents, in every tree")
	limit := new(int)
	cli.LimitFlag(c, limit, httpapi.DefaultQuotaLimit, httpapi.MaxQuotaLimit, "at most so many nodes, 1 to %d")
	after := c.Flags().String("after", "", "only the nodes behind this one, as the page before says")
	cli.CompleteFlag(c, "group", completeNames(a, base, "group"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *after != "" && (*group != "" || !httpapi.ValidNodeID(*after)) {
			return cli.UsageError("--after names the node that a page has ended with, such as pool/team-a, and goes " +
				"without --group")
		}
		client, err := a.NewClient(*base)
		if err != nil {
			return err
		}
		if *group != "" {
			return showGroup(c.Context(), a, client, *group)
		}
		query := url.Values{"limit": {strconv.Itoa(*limit)}}
		if *after != "" {
			query.Set("after", *after)
		}
		var q view.Quotas
		if err := client.Get(c.Context(), "/v1/quota?"+query.Encode(), &q); err != nil {
			return err
		}
		return a.Show(q, func(p *cli.Page) {
			if printAll(p, q); q.Configured {
				unread(c.Context(), p, client)
			}
		})
	}
	return c
}

// unread says of a coordinator without a session that it knows nothing of the journal: all
// that is used reads as 0 then.
func unread(ctx context.Context, p *cli.Page, client *cli.Client) {
	s, err := client.Status(ctx)
	if err != nil || s.Readiness.State != "connecting" { // it has answered before: an error here is no reason to fail
		return
	}
	p.Blank()
	p.Line("this coordinator is not connected to the broker (%s) and has not read the journal: what is used may "+
		"be more than is shown", s.Readiness.Detail)
}

func showGroup(ctx context.Context, a *cli.App, client *cli.Client, group string) error {
	if err := cli.CheckID("a group", group); err != nil {
		return err
	}
	var g view.QuotaGroup
	if err := client.Get(ctx, "/v1/quota/groups/"+url.PathEscape(group), &g); err != nil {
		return err
	}
	return a.Show(g, func(p *cli.Page) { printGroup(p, &g) })
}

// unlimited says that a coordinator has no quotas.yaml.
func unlimited(p *cli.Page) {
	p.Line("no quotas are configured: this coordinator has no quotas.yaml, so that nothing is limited")
}

func printAll(p *cli.Page, q view.Quotas) {
	if !q.Configured {
		unlimited(p)
		return
	}
	limits(p, q.Nodes)
	if q.Next != "" {
		p.Line("… and more nodes: go on with --after %s, or see more at once with --limit", q.Next)
	}
	p.Blank()
	turns(p, q.Groups)
	unpriced(p, q.Unpriced)
	waiting, parked := 0, 0
	for _, g := range q.Groups {
		waiting, parked = waiting+g.Waiting, parked+g.WaitingForQuota
	}
	p.Line("%s; %s waiting, %d for quota", cli.Count(q.TotalNodes, "node"), cli.Count(waiting, "task"), parked)
}

// limits is the table of what is used of nodes' limits. Nodes without any are left out.
func limits(p *cli.Page, nodes []view.QuotaNode) {
	t := cli.NewTable("NODE", "DIMENSION", "USED", "RESERVED", "OF", "%", "BORROWED", "LENT", "DEBT", "RESETS")
	for i := range nodes {
		n := &nodes[i]
		for _, b := range n.Budgets {
			in := func(v float64) string { return cli.Quantity(b.Dimension, v) }
			t.Row(n.ID, b.Dimension, in(b.Used), in(b.Reserved), in(b.Cap), cli.Percent(b.Used+b.Reserved, b.Cap),
				cli.Some(in, b.Borrowed), cli.Some(in, b.Lent), cli.Some(in, b.Debt), p.Until(b.ResetTime))
		}
		for _, r := range n.Rates {
			in := func(v float64) string { return cli.Quantity(r.Dimension, v) }
			all, speed := r.Burst, in(r.Amount)+"/"+cli.Per(r.PerSeconds)
			if r.Amount == 0 {
				all, speed = 0, "what others leave"
			}
			t.Row(n.ID, r.Dimension+"/"+cli.Per(r.PerSeconds), in(max(0, all-r.Remaining)), "", in(all),
				cli.Percent(max(0, all-r.Remaining), all), "", "", cli.Some(in, r.Debt), speed)
		}
		if c := n.Concurrency; c != nil {
			t.Row(n.ID, "concurrency", c.Running, "", c.Limit, cli.Percent(float64(c.Running), float64(c.Limit)), "",
				"", "", "")
		}
	}
	if t.Empty() {
		p.Line("none of these nodes has a limit")
		return
	}
	p.Table(t)
}

// part is a table with an empty line behind it; nothing if it is empty.
func part(p *cli.Page, t *cli.Table) {
	if !t.Empty() {
		p.Table(t)
		p.Blank()
	}
}

// unpriced is the table of models without a price that were named; nothing if there are none.
func unpriced(p *cli.Page, models []view.UnpricedModel) {
	t := cli.NewTable("NO PRICE", "GROUP", "NODE", "REFUSED", "ADMITTED", "LAST")
	for i := range models {
		m := &models[i]
		t.Row(m.Name(), m.Group, m.Node, m.Refused, m.Admitted,
			cli.InUnit(p.Now().Sub(m.LastSeen).Round(time.Second))+" ago")
	}
	part(p, t)
}

// turns is the table of groups that wait or had a part of late; nothing if there are none.
func turns(p *cli.Page, groups []view.QuotaTurns) {
	t := cli.NewTable("GROUP", "SHARE", "TARGET", "WAITING", "FOR QUOTA")
	for _, g := range groups {
		if g.Waiting > 0 || g.Share > 0 {
			t.Row(g.Group, cli.Percent(g.Share, 1), cli.Percent(g.TargetShare, 1), g.Waiting, g.WaitingForQuota)
		}
	}
	part(p, t)
}

// completeNames suggests the names of nodes of a kind; "nodes" for the ids of all nodes, "" for
// these and the names of groups and agents.
func completeNames(a *cli.App, base *string, kind string) cobra.CompletionFunc {
	return a.CompleteBy(base, func(ctx context.Context, of *cli.Client) (words []cobra.Completion, err error) {
		var q view.Quotas
		if err := of.Get(ctx, "/v1/quota", &q); err != nil {
			return nil, err
		}
		seen := make(map[string]bool)
		add := func(word, about string) {
			if !seen[word] {
				seen[word] = true
				words = append(words, cobra.CompletionWithDesc(word, cli.OneLine(about)))
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
