package quota

import (
	"encoding/csv"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

// reconcileTimeout is how long a bill may take: it is large.
const reconcileTimeout = 45 * time.Second

func reconcileCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "reconcile BILL.csv|-",
		Short: "Compare a provider's bill with the history, and list where they differ",
		Long: `Compares a provider's bill or usage export, as CSV, with what the history says was used:
by day, and by provider, model, group and agent as far as the bill has these columns.

  date           2026-11-22, a time of RFC 3339, or seconds since 1970; needed. UTC
  provider       (or --provider for all lines)
  model
  group          also: project, workspace
  agent          also: api_key, api_key_name
  input_tokens   also: prompt_tokens
  output_tokens  also: completion_tokens
  total_tokens, requests
  cost_usd       also: cost, amount; US dollars

The first line names the columns; blanks, - and letter case do not matter. At least one
of the last five is needed; other columns are ignored, and named. --column says which
one it is where the name is another, --model and --agent what is called otherwise here.

A measure agrees if it differs by no more than --tolerance percent of what the bill says,
or by no more than the tolerance in its own unit. Days of the bill are the provider's
(mostly UTC), those of the history are those of quotas.yaml: where these are not the
same, --by total compares whole times only.

Exit code 0 if they agree, 3 if they differ.`,
		Example: `  taskbus quota reconcile november.csv --provider openai
  taskbus quota reconcile usage.csv --column date=bucket --model gpt-4o-2024-08-06=gpt-4o
  taskbus quota reconcile november.csv --by total --tolerance 0.5`,
		Args: cobra.ExactArgs(1),
	}
	base := cli.URLFlag(c)
	words := map[string]*string{
		"by":       c.Flags().String("by", "day", "compare each day, month, or the total"),
		"from":     c.Flags().String("from", "", "from this day on (default: the bill's first)"),
		"to":       c.Flags().String("to", "", "up to this day (default: the bill's last)"),
		"provider": c.Flags().String("provider", "", "provider of all lines, if the bill does not say"),
	}
	lists := map[string]*[]string{
		"columns": c.Flags().StringArray("column", nil, "COLUMN=NAME: how the bill names a column; may be given again"),
		"models": c.Flags().StringArray("model", nil,
			"BILL=OURS: what a model of the bill is called here; may be given again"),
		"agents": c.Flags().StringArray("agent", nil, "BILL=OURS: the agent of an API key of the bill; may be given "+
			"again"),
		"groups": c.Flags().StringArray("group", nil,
			"BILL=OURS: the group of a project of the bill; may be given again"),
	}
	tolerance := c.Flags().Float64("tolerance", 1, "percent of the bill by which they may differ")
	dollars := c.Flags().Float64("tolerance-usd", 0.01, "US dollars by which costs may differ")
	tokens := c.Flags().Int64("tolerance-tokens", 0, "tokens by which they may differ")
	requests := c.Flags().Int64("tolerance-requests", 0, "requests by which they may differ")
	c.RunE = func(c *cobra.Command, args []string) error {
		query := url.Values{
			"tolerance_percent":  {strconv.FormatFloat(*tolerance, 'f', -1, 64)},
			"tolerance_usd":      {strconv.FormatFloat(*dollars, 'f', -1, 64)},
			"tolerance_tokens":   {strconv.FormatInt(*tokens, 10)},
			"tolerance_requests": {strconv.FormatInt(*requests, 10)},
		}
		for name, value := range words {
			if *value != "" {
				query.Set(name, *value)
			}
		}
		for name, values := range lists {
			if len(*values) > 0 {
				query.Set(name, inOneLine(*values))
			}
		}
		body, err := a.ReadInput("the bill", args[0], httpapi.MaxBill,
			"it has more than %d bytes: reconcile a shorter time")
		if err != nil {
			return err
		}
		client, err := a.NewClient(*base)
		if err != nil {
			return err
		}
		client.HTTP.Timeout = reconcileTimeout
		r, err := cli.AskAbout[view.Reconciled](c.Context(), client, "/v1/quota/reconcile?"+query.Encode(),
			"text/csv", body)
		if err != nil {
			return err
		}
		err = a.Show(r, func(p *cli.Page) { printReconciled(p, r) })
		if err != nil || r.Agrees {
			return err
		}
		return cli.ErrDiffers
	}
	return c
}

// inOneLine writes pairs as the coordinator reads them: those with a comma, or a quote, quoted as in CSV.
func inOneLine(pairs []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(pairs) // into memory
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

func printReconciled(p *cli.Page, r view.Reconciled) {
	if len(r.Differences) > 0 {
		t := cli.NewTable(timeHeads[r.By], "MODEL", "GROUP", "AGENT", "MEASURE", "HISTORY", "BILL", "DIFFERENCE", "%")
		for i := range r.Differences {
			d := &r.Differences[i]
			part := relative(d.Relative)
			switch d.Only {
			case "history":
				part = "not billed"
			case "bill":
				part = "only billed"
			}
			t.Row(d.Day, cli.ModelOf(d.Provider, d.Model), d.Group, d.Agent, d.Measure, exact(d.Measure, d.History),
				exact(d.Measure, d.Bill), signed(d.Measure, d.Difference), part)
		}
		p.Table(t)
		if r.More {
			p.Line("… and more")
		}
		p.Blank()
	}
	t := cli.NewTable("TOTAL", "HISTORY", "BILL", "DIFFERENCE", "%")
	for _, x := range r.Totals {
		t.Row(x.Measure, exact(x.Measure, x.History), exact(x.Measure, x.Bill), signed(x.Measure, x.Difference),
			relative(x.Relative))
	}
	p.Table(t)
	p.Blank()
	for _, name := range r.Ignored {
		p.Line("not understood: the column %s", name)
	}
	if r.Lost.Calls > 0 {
		p.Line("of %s the journal did not know any more whose they were: %d tokens, %s",
			cli.Count(int(r.Lost.Calls), "call"), r.Lost.TotalTokens, cli.Quantity("cost_usd", r.Lost.CostUSD))
	}
	projection(p, &r.Projection)
	if r.Agrees {
		p.Line("they agree: %s of the bill, %d compared, from %s to %s", cli.Count(r.Lines, "line"), r.Compared,
			r.From, r.To)
	} else {
		p.Line("they differ: %d of %d compared, from %s to %s", r.Differ, r.Compared, r.From, r.To)
	}
}

// exact is an amount with all its digits: what is to be found in two lists must look the same.
func exact(measure string, v float64) string {
	if measure == "cost_usd" {
		return "$" + strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func signed(measure string, v float64) string {
	switch {
	case v > 0:
		return "+" + exact(measure, v)
	case v < 0:
		return "-" + exact(measure, -v)
	}
	return "0"
}

func relative(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(100**v, 'f', 1, 64) + "%"
}
