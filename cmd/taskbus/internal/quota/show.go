package quota

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/nearest"
	"taskbus/coordinator/view"
)

func showCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "show NODE|GROUP|AGENT|PROVIDER",
		Short: "Show the quota of one group, agent, provider or node of the trees",
		Long: `Shows everything about one quota: of a group its budget, its turn among the groups, and all
nodes that stand for it and its agents; of an agent its own and its group's; of a
provider its whole tree, with all of its keys, or that of one of them (openai@main); of
a node (its id has a slash, or is pool) its limits.

A name is looked for among the groups, then the agents, then the providers.

` + columnsHelp,
		Example: `  taskbus quota show team-a
  taskbus quota show pool/team-a/agent-1
  taskbus quota show openai -o json`,
		Args: cobra.ExactArgs(1),
	}
	base := cli.URLFlag(c)
	c.ValidArgsFunction = completeNames(a, base, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !httpapi.ValidNodeID(args[0]) {
			return cli.UsageError("%q is not the id of a node, group, agent or provider of quotas.yaml",
				cli.OneLine(args[0]))
		}
		client, err := a.NewClient(*base)
		if err != nil {
			return err
		}
		kind, body, err := find(c.Context(), client, args[0])
		if err != nil {
			return err
		}
		switch kind {
		case "groups":
			return showOne(a, body, func(p *cli.Page, g *view.QuotaGroup) {
				printGroup(p, g)
				borrowable(c.Context(), p, client, args[0])
			})
		case "agents":
			return showOne(a, body, printAgent)
		case "providers":
			return showOne(a, body, func(p *cli.Page, g *view.QuotaProvider) {
				printNodes(p, "provider "+g.ID, g.Nodes)
			})
		default:
			return showOne(a, body, func(p *cli.Page, n *view.QuotaNode) {
				printNodes(p, fmt.Sprintf("%s %s, weight %d", n.Kind, n.ID, n.Weight), []view.QuotaNode{*n})
			})
		}
	}
	return c
}

// kindsOfNames are the places where a name without a slash is looked for.
var kindsOfNames = []string{"groups", "agents", "providers", "nodes"}

// find asks for a name in all places until one knows it.
func find(ctx context.Context, client *cli.Client, name string) (kind string, body json.RawMessage, err error) {
	kinds := kindsOfNames
	switch _, key := coordinator.CutPool(name); {
	case strings.Contains(name, "/"):
		kinds = []string{"nodes"}
	case key != "": // no group and no agent is called so
		kinds = []string{"providers"}
	}
	var first error
	for _, kind := range kinds {
		parts := strings.Split(name, "/")
		for i := range parts {
			parts[i] = url.PathEscape(parts[i])
		}
		err := client.Get(ctx, "/v1/quota/"+kind+"/"+strings.Join(parts, "/"), &body)
		if err == nil {
			return kind, body, nil
		}
		if !strings.HasPrefix(err.Error(), "Unknown quota:") {
			return "", nil, err
		}
		first = err
	}
	if len(kinds) > 1 {
		first = fmt.Errorf("no group, agent, provider or node of quotas.yaml is called %s; `taskbus quota ls` "+
			"lists them", name)
	}
	if meant := meant(ctx, client, name); meant != "" {
		first = fmt.Errorf("%w (%s)", first, meant)
	}
	return "", nil, first
}

// meant asks for the quota that may have been meant by a name; "": none comes near.
func meant(ctx context.Context, client *cli.Client, name string) string {
	var q view.Quotas
	if err := client.Get(ctx, "/v1/quota", &q); err != nil {
		return "" // what is asked has been answered
	}
	var known []string
	for i := range q.Nodes {
		if n := &q.Nodes[i]; strings.Contains(name, "/") {
			known = append(known, n.ID)
		} else if !slices.Contains(known, n.Name) {
			known = append(known, n.Name)
		}
	}
	return nearest.DidYouMean(name, known)
}

// known reports whether quotas.yaml lists a group or agent (kind) of a name, as far as that can be asked, and
// which may have been meant: ", did you mean ...", or nothing.
func known(ctx context.Context, client *cli.Client, kind, name string) (known bool, meant string) {
	var q view.Quotas
	if err := client.Get(ctx, "/v1/quota?limit="+strconv.Itoa(httpapi.MaxQuotaLimit), &q); err != nil || !q.Configured {
		return true, ""
	}
	var names []string
	for i := range q.Nodes {
		switch n := &q.Nodes[i]; {
		case n.Kind == kind && n.Name == name:
			return true, ""
		case n.Kind == kind && !slices.Contains(names, n.Name):
			names = append(names, n.Name)
		}
	}
	if meant = nearest.DidYouMean(name, names); meant != "" {
		meant = ": " + meant
	}
	return false, meant
}

// showOne prints an answer.
func showOne[T any](a *cli.App, body json.RawMessage, text func(*cli.Page, *T)) error {
	v := new(T)
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("read the answer of the coordinator: %w", err)
	}
	return a.Show(v, func(p *cli.Page) { text(p, v) })
}

func printGroup(p *cli.Page, g *view.QuotaGroup) {
	p.Line("group %s, weight %d: %s", g.ID, g.Weight, budgetText(g.Dimension, g.Total, g.Used, g.Reserved, g.Remaining))
	if g.ResetTime != nil {
		p.Line("its budget begins anew %s (%s)", p.Until(*g.ResetTime), g.ResetTime.UTC().Format(time.RFC3339))
	}
	if t := g.Turns; t != nil {
		p.Line("%s waiting, %d for quota", cli.Count(t.Waiting, "task"), t.WaitingForQuota)
		p.Line("it had %s of the cost of the last minute or two; its weight gives it %s", cli.Percent(t.Share, 1),
			cli.Percent(t.TargetShare, 1))
	}
	p.Blank()
	limits(p, g.Nodes)
}

// borrowable says what a group may borrow at this moment, besides what is left of its own.
func borrowable(ctx context.Context, p *cli.Page, client *cli.Client, group string) {
	one := url.Values{"group": {group}, "requests": {"1"}, "input_tokens": {"1"}, "output_tokens": {"1"},
		"cost_usd": {"0.000001"}}
	var x view.QuotaAnswer
	if err := client.Get(ctx, "/v1/quota/explain?"+one.Encode(), &x); err != nil {
		return // what is asked has been answered
	}
	for i := range x.Limits {
		if l := &x.Limits[i]; l.Limit == "budget" && l.Borrowable > 0 && strings.HasSuffix(l.Node, "/"+group) {
			p.Line("besides it may borrow %s %s now (%s)", cli.Quantity(l.Dimension, l.Borrowable), l.Dimension, l.Node)
		}
	}
}

func printAgent(p *cli.Page, g *view.QuotaAgent) {
	p.Line("agent %s, weight %d: %s", g.ID, g.Weight, budgetText(g.Dimension, g.Allocated, g.Used, g.Reserved,
		g.Remaining))
	if x := g.Group; x != nil {
		p.Line("its group %s: %s", x.ID, budgetText(g.Dimension, x.Total, x.Used, nil, x.Remaining))
	}
	if b := g.Bucket; b != nil {
		p.Line("%s of %s requests may be made at once now; %s come back in a second", cli.Quantity("", b.Current),
			cli.Quantity("", b.Capacity), cli.Quantity("", b.FillRate))
	}
	p.Blank()
	limits(p, g.Nodes)
}

func printNodes(p *cli.Page, what string, nodes []view.QuotaNode) {
	p.Line("%s", what)
	for i := range nodes {
		if h := nodes[i].Provider; h != nil {
			p.Line("%s: %s", nodes[i].ID, providerText(p, h))
		}
	}
	p.Blank()
	limits(p, nodes)
}

// providerText says how a provider's pool stands.
func providerText(p *cli.Page, h *view.ProviderHealth) string {
	var parts []string
	if !h.BlockedUntil.IsZero() {
		parts = append(parts, fmt.Sprintf("left alone until %s (%s), because it refuses calls",
			h.BlockedUntil.UTC().Format(time.RFC3339), p.Until(h.BlockedUntil)))
	}
	if h.RatePercent < 100 {
		parts = append(parts, fmt.Sprintf("used at %g%% of its rates", h.RatePercent))
	}
	if h.Calls > 0 {
		parts = append(parts, fmt.Sprintf("%g%% of the latest calls succeeded, after %.0f ms", h.SuccessPercent,
			h.LatencyMS))
	}
	return cmp.Or(strings.Join(parts, "; "), "it has answered again")
}

// budgetText is FAIR-SHARE's numbers in a sentence. Nil numbers are not known.
func budgetText(dimension string, total, used, reserved, remaining *float64) string {
	if total == nil || used == nil || remaining == nil {
		return "no budget of its own"
	}
	text := fmt.Sprintf("%s of %s %s used", cli.Quantity(dimension, *used), cli.Quantity(dimension, *total), dimension)
	if reserved != nil && *reserved > 0 {
		text += ", " + cli.Quantity(dimension, *reserved) + " set aside"
	}
	return text + ", " + cli.Quantity(dimension, *remaining) + " left"
}
