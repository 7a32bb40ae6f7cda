package quota

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

func explainCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain",
		Short: "Say whether there is quota for a task now, and which limit binds",
		Long: `Asks whether a task of a group (by an agent, for a provider and model) would be
admitted at this moment. Nothing is set aside. What you do not say of its usage is
estimated as for a task that does not say it.

Shows every limit that it meets, from the leaf to the root of each tree:

  ASKED       what would be set aside
  LEFT        of the node's own; BORROWABLE of others besides, now
  RENEWS      when more of it may be there by itself
  VERDICT     ok, or refuses; "binds" at the one that lasts longest

With --alternatives it is a call that is asked about, which may go to one of several
models. Shows each of them, those of a provider with several keys once for each key,
with what they are judged by (1 is the best) and why it is chosen, or passed over;
then the limits of the one that is chosen, or has quota again first.

Exit code 1 if there is no quota for it.`,
		Example: `  taskbus quota explain --group team-a --input-tokens 4000 --output-tokens 500
  taskbus quota explain --group team-a --agent agent-1 --no-borrowing
  taskbus quota explain --provider openai --model gpt-4o -o json
  taskbus quota explain --group team-a --alternatives openai/gpt-4o,anthropic/claude-sonnet-4-5`,
		Args: cobra.NoArgs,
	}
	base := cli.URLFlag(c)
	words := map[string]*string{
		"group":     c.Flags().String("group", "", "group of the task"),
		"agent":     c.Flags().String("agent", "", "agent that would have it"),
		"provider":  c.Flags().String("provider", "", "provider of the LLM; the group's if not given"),
		"model":     c.Flags().String("model", "", "model; the group's if not given"),
		"task_type": c.Flags().String("task-type", "", "task type, for prices and estimates"),
		"alternatives": c.Flags().String("alternatives", "",
			"models that a call may go to, PROVIDER or PROVIDER/MODEL separated by commas,\ninstead of --provider "+
				"and --model"),
	}
	numbers := map[string]*float64{
		"requests":      c.Flags().Float64("requests", 0, "calls of the LLM (1 if not given)"),
		"input_tokens":  c.Flags().Float64("input-tokens", 0, "input tokens; estimated if not given"),
		"output_tokens": c.Flags().Float64("output-tokens", 0, "output tokens; estimated if not given"),
		"cost_usd":      c.Flags().Float64("cost-usd", 0, "cost in US dollars; by the prices if not given"),
	}
	own := c.Flags().Bool("no-borrowing", false, "it must not borrow from other groups")
	cli.CompleteFlag(c, "group", completeNames(a, base, "group"))
	cli.CompleteFlag(c, "agent", completeNames(a, base, "agent"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		query := url.Values{}
		for name, value := range words {
			if *value != "" {
				query.Set(name, *value)
			}
		}
		for name, value := range numbers {
			if *value != 0 {
				query.Set(name, strconv.FormatFloat(*value, 'f', -1, 64))
			}
		}
		if *own {
			query.Set("allow_borrowing", "false")
		}
		if _, err := httpapi.ParseQuotaQuestion(query.Encode()); err != nil {
			return cli.UsageError("--%s", strings.ReplaceAll(err.Error(), "_", "-"))
		}
		x, err := cli.Ask[view.QuotaAnswer](c.Context(), a, *base, "/v1/quota/explain?"+query.Encode())
		if err != nil {
			return err
		}
		err = a.Show(x, func(p *cli.Page) { printAnswer(p, x) })
		if err != nil || x.Admitted {
			return err
		}
		return cli.ErrReported
	}
	return c
}

func printAnswer(p *cli.Page, x view.QuotaAnswer) {
	verdict := "refused"
	switch {
	case x.Admitted:
		verdict = "admitted"
	case x.Permanent:
		verdict = "refused for good"
	}
	p.Line("%s: %s", verdict, x.Reason)
	if !x.GroupKnown && x.Admitted {
		p.Line("quotas.yaml does not list group %s: only the pools limit it", x.Group)
	}
	p.Line("set aside for it: %s", amounts(x.Amounts))
	p.Routes(x.Routes, x.Routing)
	if len(x.Limits) == 0 {
		p.Line("no limit concerns it")
		return
	}
	if len(x.Routes) > 0 {
		p.Blank()
		p.Line("limits of %s:", cli.ModelOf(x.Provider, x.Model))
	}
	t := cli.NewTable("NODE", "DIMENSION", "LIMIT", "ASKED", "LEFT", "BORROWABLE", "RENEWS", "VERDICT")
	for _, l := range x.Limits {
		in := func(v float64) string { return cli.Quantity(l.Dimension, v) }
		says := "ok"
		switch {
		case l.Binds:
			says = "refuses, binds"
		case l.Refuses:
			says = "refuses"
		}
		t.Row(l.Node, l.Dimension, l.Limit, in(l.Asked), in(l.Left), cli.Some(in, l.Borrowable),
			p.Until(l.Renews), says)
	}
	p.Blank()
	p.Table(t)
}

// amounts lists what is above 0, by dimension.
func amounts(all map[string]float64) string {
	var parts []string
	for _, d := range slices.Sorted(maps.Keys(all)) {
		if all[d] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", cli.Quantity(d, all[d]), d))
		}
	}
	return strings.Join(parts, ", ")
}
