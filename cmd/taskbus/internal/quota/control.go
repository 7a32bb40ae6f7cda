package quota

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

// keysHelp explains the settings of a node.
const keysHelp = `  weight                    by which it shares with its siblings
  DIMENSION.amount          a budget, or seats; .per or .interval_seconds is its period
  DIMENSION.rate            a rate; .burst how much of it may be taken at once
  DIMENSION.borrow, .lend   how much may be borrowed and lent

DIMENSION is requests, input_tokens, output_tokens, total_tokens, cost_usd or
concurrency. Values are those of quotas.yaml (docs/quotas.md); an amount or rate of
"none" takes the limit away, "by_weight" makes it a part by weight. FAIR-SHARE's keys
go by these names, too: total_quota_monthly_tokens is total_tokens.amount.`

// actsHelp ends the help of every command that changes quotas.
const actsHelp = `

The change acts at once, also on what already waits. It is kept in the journal,
through restarts and failovers. What does not fit the other quotas is refused, and
nothing changes.` + cli.NeedsToken

// changeFlags are those of every command that changes quotas.
type changeFlags struct {
	base       *string
	by, reason string
}

// addChangeFlags adds them to a command.
func addChangeFlags(a *cli.App, c *cobra.Command) *changeFlags {
	f := &changeFlags{base: cli.URLFlag(c)}
	c.Flags().StringVar(&f.by, "by", "", "your name, for the list and the log (default: the system user)")
	c.Flags().StringVar(&f.reason, "reason", "", "reason, for the list and the log")
	return f
}

// byWhom is the operator that makes the change: as it is given, else the user of the system.
func byWhom(a *cli.App, f *changeFlags) string {
	if name := cmp.Or(f.by, a.Getenv("USER"), a.Getenv("LOGNAME")); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "user " + strconv.Itoa(os.Getuid())
}

// lastingFlags say how long a change stands.
type lastingFlags struct {
	length time.Duration
	until  string
}

// add declares them; unless is what counts without them.
func (f *lastingFlags) add(c *cobra.Command, unless string) {
	c.Flags().DurationVar(&f.length, "for", 0, "how long it stands, e.g. 90m or 48h ("+unless+")")
	c.Flags().StringVar(&f.until, "until", "", "until when it stands, e.g. 2026-12-01T18:00:00Z")
}

// put adds it to the body of a change.
func (f *lastingFlags) put(body map[string]any) error {
	switch {
	case f.length != 0 && f.until != "":
		return cli.UsageError("--for and --until both say how long; give one")
	case f.length < 0 || f.length > 0 && f.length < time.Second:
		return cli.UsageError("--for must be at least a second")
	case f.length > 0:
		body["for_seconds"] = int64(f.length / time.Second)
	case f.until != "":
		if _, err := time.Parse(time.RFC3339, f.until); err != nil {
			return cli.UsageError("--until must be a time such as 2026-12-01T18:00:00Z, not %q", cli.OneLine(f.until))
		}
		body["until"] = f.until
	}
	return nil
}

func setCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "set NODE KEY=VALUE...",
		Short: "Change weights and limits of a node, in place of what quotas.yaml says",
		Long: `Changes settings of one node of the quota trees (taskbus quota ls names them) until
they are unset, or for a time. All of one command are changed, or none.

` + keysHelp + actsHelp,
		Example: `  taskbus quota set pool/team-a weight=5
  taskbus quota set pool/team-a total_tokens.amount=2000000 --reason "the launch"
  taskbus quota set openai/gpt-4o/team-b requests.rate=5 --for 24h`,
		Args: cobra.MinimumNArgs(2),
	}
	flags, lasting := addChangeFlags(a, c), &lastingFlags{}
	lasting.add(c, "default: until it is unset")
	c.ValidArgsFunction = completeNodes(a, flags.base, "weight=", "total_tokens.amount=", "requests.rate=",
		"cost_usd.amount=", "concurrency.amount=")
	c.RunE = func(c *cobra.Command, args []string) error {
		values := make(map[string]string, len(args)-1)
		for _, arg := range args[1:] {
			key, value, ok := strings.Cut(arg, "=")
			if _, twice := values[key]; !ok || key == "" || value == "" || twice {
				return cli.UsageError("%q must be KEY=VALUE such as weight=5, each key once", cli.OneLine(arg))
			}
			values[key] = value
		}
		return change(c.Context(), a, flags, lasting, args[0], "set", values)
	}
	return c
}

func boostCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "boost NODE DIMENSION +N%|+N",
		Short: "Raise a limit or weight of a node for a time",
		Long: `Raises one limit of a node by a percentage or an amount of what it otherwise is, for a
time; then it is as before, by itself. A budget is raised for the period at hand, a
rate at once. A part by weight becomes an amount of the node's own meanwhile, which
its siblings leave. What it comes from, and what of it is lent and does not come back
before its period ends, is said first; at a terminal it is asked whether to go on.

DIMENSION is requests, input_tokens, output_tokens, total_tokens, cost_usd,
concurrency or weight; total_tokens.amount or total_tokens.rate where there are both.
After -- it may also be less: -25%.` + actsHelp,
		Example: `  taskbus quota boost pool/team-a total_tokens +50% --for 2h --reason "the report is due"
  taskbus quota boost pool/team-a/agent-1 requests +20 --until 2026-12-01T18:00:00Z
  taskbus quota boost --for 8h pool/team-b weight -- -1`,
		Args: cobra.ExactArgs(3),
	}
	c.SetFlagErrorFunc(afterDashes)
	flags, lasting := addChangeFlags(a, c), &lastingFlags{}
	lasting.add(c, "a boost needs this or --until")
	yes := c.Flags().Bool("yes", false, "do not ask at a terminal")
	c.ValidArgsFunction = completeNodes(a, flags.base, "total_tokens", "requests", "input_tokens", "output_tokens",
		"cost_usd", "concurrency", "weight")
	c.RunE = func(c *cobra.Command, args []string) error {
		if lasting.length == 0 && lasting.until == "" {
			return cli.UsageError("a boost is for a time: say --for 2h or --until; `taskbus quota set` changes a " +
				"limit for good")
		}
		return boost(c.Context(), a, flags, lasting, *yes, args)
	}
	return c
}

// boost shows what a boost takes and from where, asks a terminal whether it is to be, and makes it. args are the node,
// the setting, and by how much.
func boost(ctx context.Context, a *cli.App, flags *changeFlags, lasting *lastingFlags, yes bool, args []string) error {
	body, err := changeBody(a, flags, lasting, args[0], "boost", map[string]string{args[1]: args[2]})
	if err != nil {
		return err
	}
	if a.Output != cli.OutputJSON {
		preview := maps.Clone(body)
		preview["preview"] = true
		would, err := cli.Tell[view.QuotaChanged](ctx, a, *flags.base, http.MethodPost, "/v1/quota/controls", preview)
		if err != nil {
			return err
		}
		if err := a.Text(func(p *cli.Page) { printMoves(p, &would, args[0]) }); err != nil {
			return err
		}
		if cli.Terminal(a.In) && !yes {
			if err := a.Agreed("boost " + args[0] + " by that"); err != nil {
				return err
			}
		}
	}
	return send(ctx, a, flags, http.MethodPost, "/v1/quota/controls", body)
}

// printMoves says what a boost would make of the node's budgets, what it takes of others, and what of it is lent.
func printMoves(p *cli.Page, would *view.QuotaChanged, node string) {
	for _, m := range would.Moves {
		before, after := cli.Quantity(m.Dimension, m.Before), cli.Quantity(m.Dimension, m.After)
		switch {
		case m.Node == node && !m.Spare:
			p.Line("%s %s: %s, before %s", m.Node, m.Dimension, after, before)
		case strings.HasPrefix(m.Node, node+"/") || m.Node == node: // what is below it has more, too
		case m.Spare:
			p.Line("it comes from what %s has given to none: %s, before %s", m.Node, after, before)
		case m.After < m.Before:
			p.Line("it comes from %s: %s, before %s", m.Node, after, before)
		}
	}
	for i := range would.Nodes {
		if would.Nodes[i].ID != node {
			continue
		}
		for _, b := range would.Nodes[i].Budgets {
			boosted := func(m view.QuotaMove) bool { return m.Node == node && m.Dimension == b.Dimension }
			if b.Lent > 0 && slices.ContainsFunc(would.Moves, boosted) {
				p.Line("%s has lent %s of its %s to others: a boost does not bring that back; its budget begins "+
					"anew %s",
					node, cli.Quantity(b.Dimension, b.Lent), cli.Quantity(b.Dimension, b.Limit), p.Until(b.ResetTime))
			}
		}
	}
}

func correctCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "correct NODE DIMENSION -N|+N",
		Short: "Correct what counts as used of a node, because usage was reported wrongly",
		Long: `Moves what counts as used of a node's budget, and of all above it in its tree, in the
periods at hand, once. Downwards it goes no further than to what the nodes below have
used: it says how far it has moved. A provider's tree is corrected by its own node. What is
in the history stays.

DIMENSION is requests, input_tokens, output_tokens, total_tokens or cost_usd (dollars).
A negative number comes after --. The log and the journal have the operator and the reason. Sent
twice, it corrects twice.` + actsHelp,
		Example: `  taskbus quota correct --reason "t-17 counted wrong" pool/team-a total_tokens -- -1900
  taskbus quota correct pool/team-a cost_usd +12.50`,
		Args: cobra.ExactArgs(3),
	}
	c.SetFlagErrorFunc(afterDashes)
	flags := addChangeFlags(a, c)
	c.ValidArgsFunction = completeNodes(a, flags.base, "total_tokens", "requests", "input_tokens", "output_tokens",
		"cost_usd")
	c.RunE = func(c *cobra.Command, args []string) error {
		return change(c.Context(), a, flags, &lastingFlags{}, args[0], "correct", map[string]string{args[1]: args[2]})
	}
	return c
}

// change sends a change and shows what came of it.
func change(ctx context.Context, a *cli.App, flags *changeFlags, lasting *lastingFlags, node, what string,
	values map[string]string) error {
	body, err := changeBody(a, flags, lasting, node, what, values)
	if err != nil {
		return err
	}
	return send(ctx, a, flags, http.MethodPost, "/v1/quota/controls", body)
}

func changeBody(a *cli.App, flags *changeFlags, lasting *lastingFlags, node, what string,
	values map[string]string) (map[string]any, error) {
	if !httpapi.ValidNodeID(node) {
		return nil, cli.UsageError("%q is not the id of a node; `taskbus quota ls` lists them", cli.OneLine(node))
	}
	body := map[string]any{"node": node, what: values, "by": byWhom(a, flags), "reason": flags.reason}
	return body, lasting.put(body)
}

func send(ctx context.Context, a *cli.App, flags *changeFlags, method, path string, body any) error {
	changed, err := cli.Tell[view.QuotaChanged](ctx, a, *flags.base, method, path, body)
	if err != nil {
		return err
	}
	return a.Show(changed, func(p *cli.Page) { printChanged(p, &changed) })
}

// printChanged shows a change, and the nodes that it concerns as they are now.
func printChanged(p *cli.Page, q *view.QuotaChanged) {
	for i := range q.Controls {
		c := &q.Controls[i]
		switch {
		case c.Kind != "correct":
			p.Line("stands: %s", controlLine(p, c))
		case c.Value == "0":
			p.Line("nothing moved: %s (asked for %s): in this period it has used nothing, but for what nodes below "+
				"it have; correct those", controlLine(p, c), c.Asked)
		case !sameNumber(c.Value, c.Asked):
			p.Line("corrected: %s (asked for %s; in this period it has used no more, but for what nodes below it have)",
				controlLine(p, c), c.Asked)
		default:
			p.Line("corrected: %s", controlLine(p, c))
		}
	}
	for i := range q.Removed {
		p.Line("ended: %s", controlLine(p, &q.Removed[i]))
	}
	if len(q.Nodes) > 0 {
		p.Blank()
		for i := range q.Nodes {
			p.Line("%s, weight %d", q.Nodes[i].ID, q.Nodes[i].Weight)
		}
		p.Blank()
		limits(p, q.Nodes)
	}
}

// sameNumber reports whether two texts are the same number: +12.50 is 12.5. An earlier coordinator does not say what
// was asked for.
func sameNumber(value, asked string) bool {
	a, err := strconv.ParseFloat(value, 64)
	b, err2 := strconv.ParseFloat(asked, 64)
	return asked == "" || err == nil && err2 == nil && a == b
}

// afterDashes says of a negative number that was taken for flags where it belongs.
func afterDashes(c *cobra.Command, err error) error {
	if _, number, is := strings.Cut(err.Error(), "unknown shorthand flag: "); is {
		if _, number, is = strings.Cut(number, " in -"); is && number != "" && number[0] >= '0' && number[0] <= '9' {
			return cli.UsageError("a negative number comes last, after --: taskbus quota %s ... -- -%s", c.Name(),
				cli.OneLine(number))
		}
	}
	return err
}

// controlLine says in a line what a change is: "set-1f… pool/team-a weight=5, ends in 2h".
func controlLine(p *cli.Page, c *view.QuotaControl) string {
	text := c.ID + "  " + c.Target + " " + changeText(c)
	if end := p.Until(c.Until); end != "" {
		text += ", ends " + end
	}
	return text
}

// changeText is what is changed, in short.
func changeText(c *view.QuotaControl) string {
	switch c.Kind {
	case "set":
		return c.Key + "=" + c.Value
	case "boost", "correct":
		return c.Key + " " + c.Value
	default:
		return c.Kind + " " + c.Value
	}
}

func unsetCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "unset ID",
		Short: "End a standing change: what quotas.yaml says counts again",
		Long: `Ends one standing change of "taskbus quota set" or "boost", or of a rule, by its id
(taskbus quota controls lists them). What quotas.yaml says counts again at once.` + cli.NeedsToken,
		Example: `  taskbus quota controls
  taskbus quota unset boost-1353ed6f47`,
		Args: cobra.ExactArgs(1),
	}
	flags := &changeFlags{base: cli.URLFlag(c)}
	c.ValidArgsFunction = a.CompleteBy(flags.base, func(ctx context.Context, of *cli.Client) (words []cobra.Completion,
		err error) {
		var q view.QuotaControls
		if err := of.Get(ctx, "/v1/quota/controls", &q); err != nil {
			return nil, err
		}
		for i := range q.Controls {
			words = append(words, cobra.CompletionWithDesc(q.Controls[i].ID,
				cli.OneLine(q.Controls[i].Target+" "+changeText(&q.Controls[i]))))
		}
		return words, nil
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := cli.CheckID("a change's", args[0]); err != nil {
			return err
		}
		return send(c.Context(), a, flags, http.MethodDelete, "/v1/quota/controls/"+url.PathEscape(args[0]), struct{}{})
	}
	return c
}

func controlsCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "controls",
		Short: "List the standing changes to quotas.yaml: what, until when, by which operator and why",
		Long: `Lists what has been changed of quotas.yaml since it was written, by people or by its
own rules (adjustment), in the order in which it was changed.

  ENDS    when a change ends by itself
  BY      the operator, or the name of the rule

A change that is suspended does not fit quotas.yaml as it is now, for the reason below
the table. It counts again as soon as it does.`,
		Example: `  taskbus quota controls
  taskbus quota controls -o json`,
		Args: cobra.NoArgs,
	}
	cli.Shows(a, c, "/v1/quota/controls", printControls)
	return c
}

func printControls(p *cli.Page, q view.QuotaControls) {
	if len(q.Controls) == 0 {
		p.Line("quotas.yaml counts as it is written: nothing has been changed")
		return
	}
	t := cli.NewTable("ID", "TARGET", "CHANGE", "MADE", "ENDS", "BY", "REASON")
	for i := range q.Controls {
		c := &q.Controls[i]
		by, change := cmp.Or(c.By, "(not said)"), changeText(c)
		if c.Rule != "" {
			by = "rule " + c.Rule
		}
		if c.Suspended != "" {
			change += " (suspended)"
		}
		t.Row(c.ID, c.Target, change, p.Ago(c.At), p.Until(c.Until), by, c.Reason)
	}
	p.Blank()
	p.Table(t)
	for i := range q.Controls {
		if c := &q.Controls[i]; c.Suspended != "" {
			p.Line("%s is suspended: %s", c.ID, c.Suspended)
		}
	}
}

// completeNodes suggests nodes for the first argument, and words for those behind it.
func completeNodes(a *cli.App, base *string, words ...string) cobra.CompletionFunc {
	nodes := completeNames(a, base, "nodes")
	return func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nodes(c, args, typed)
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
