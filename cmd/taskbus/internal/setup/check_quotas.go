package setup

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// checkedQuotas is what check has to say of a quotas.yaml in order.
type checkedQuotas struct {
	Timezone  string        `json:"timezone"`
	Groups    int           `json:"groups"`
	Agents    int           `json:"agents"`
	Providers int           `json:"providers"`
	Models    int           `json:"models"`
	Prices    int           `json:"prices"`
	Nodes     []checkedNode `json:"nodes"`
}

type checkedNode struct {
	ID     string   `json:"id"`
	Kind   string   `json:"kind"`
	Weight int64    `json:"weight"`
	Limits []string `json:"limits,omitempty"`
	// Gets is what each of them is for this node, with what those above it have for it.
	Gets []string `json:"gets,omitempty"`
}

// isQuotas tells by its name whether a file is a quotas.yaml.
func isQuotas(path string) bool { return strings.Contains(filepath.Base(path), "quotas") }

// quotasBeside is the quotas.yaml that the coordinator would read with an agents.yaml; empty
// if there is none. One that cannot be looked at is found, so that reading it says why.
func quotasBeside(path string) string {
	beside, found, err := config.SearchQuotas("", func(string) string { return "" }, path)
	if !found && err == nil {
		return ""
	}
	return beside
}

// withQuotas adds to the files those that the coordinator would read with them.
func withQuotas(paths []string) []string {
	var all []string
	for _, path := range paths {
		all = append(all, path)
		if beside := quotasBeside(path); !isQuotas(path) && beside != "" &&
			!slices.ContainsFunc(paths, func(p string) bool { return filepath.Clean(p) == beside }) {
			all = append(all, beside)
		}
	}
	return all
}

// withQuotasBeside is a configuration with the quotas that the coordinator would read with it,
// so that its version is the coordinator's. What is wrong with them is reported where they are
// checked themselves.
func withQuotasBeside(path string, cfg *config.Config) *config.Config {
	beside := quotasBeside(path)
	if beside == "" {
		return cfg
	}
	q, err := config.LoadQuotas(beside)
	if err != nil {
		return cfg
	}
	return cfg.WithQuotas(q)
}

// checkQuotas reads the file as quotas.yaml; it fails only when that cannot be done.
func (f *checkedFile) checkQuotas() error {
	q, err := config.LoadQuotas(f.File)
	if done, err := f.faulty(err); done {
		return err
	}
	f.OK = true
	c := &checkedQuotas{Timezone: q.Location.String(), Prices: len(q.Prices), Nodes: []checkedNode{}}
	providers := make(map[string]bool)
	ledger := fairshare.NewLedger()
	now := time.Now()
	ledger.Install(now, q)
	all := ledger.View(now)
	views := make(map[string]*fairshare.NodeView, len(all))
	for i := range all {
		views[all[i].ID] = &all[i]
	}
	for i := range q.Nodes {
		n := &q.Nodes[i]
		switch n.Kind {
		case coordinator.QuotaPool:
			if provider := coordinator.ProviderOfPool(n.Provider); provider != "" &&
				!providers[provider] { // keys are one's
				providers[provider] = true
				c.Providers++
			}
		case coordinator.QuotaModel:
			c.Models++
		case coordinator.QuotaGroup:
			c.Groups += inPool(n)
		case coordinator.QuotaAgent:
			c.Agents += inPool(n)
		}
		limits, gets := limitsOf(n, views)
		c.Nodes = append(c.Nodes, checkedNode{n.ID, n.Kind.String(), n.Weight, limits, gets})
	}
	f.Quotas = c
	for _, w := range quotas.Warnings(q) {
		f.Warnings = append(f.Warnings, w.Text)
	}
	return nil
}

// inPool counts a group or agent once: in the pool, and not in providers' trees.
func inPool(n *coordinator.QuotaNode) int {
	if strings.HasPrefix(n.ID, "pool/") {
		return 1
	}
	return 0
}

// limitsOf says what limits a node has, and in their units what each comes to; views are the nodes of the ledger by
// their ids: what a node has for other periods stands there beside it.
func limitsOf(n *coordinator.QuotaNode, views map[string]*fairshare.NodeView) (limits, gets []string) {
	add := func(dim coordinator.Dimension, l *coordinator.QuotaLimit, comes string) {
		limits, gets = append(limits, dim.String()+" "+quotas.DescribeLimit(dim, l)), append(gets, comes)
	}
	budget := func(id string, dim coordinator.Dimension) string {
		for _, b := range views[id].Budgets {
			if b.Dimension == dim {
				return cli.Quantity(dim.String(), dim.Shown(b.Nominal))
			}
		}
		return ""
	}
	v := views[n.ID]
	for dim := range coordinator.Dimension(coordinator.NumDimensions) {
		if l := n.Budgets[dim]; l != nil {
			add(dim, l, budget(n.ID, dim))
		}
		if l := n.Rates[dim]; l != nil {
			comes := "what others leave"
			for _, r := range v.Rates {
				if r.Dimension == dim && r.Amount > 0 {
					comes = cli.Quantity(dim.String(), dim.Shown(r.Amount)) + "/" + cli.Per(r.Per.Seconds())
				}
			}
			add(dim, l, comes)
		}
	}
	for i := range n.Beside {
		b := &n.Beside[i]
		add(b.Dimension, &b.QuotaLimit, budget(n.ID+"@"+b.Period.String(), b.Dimension))
	}
	if n.Seats != nil {
		comes := ""
		if v.Seats != nil {
			comes = strconv.FormatInt(v.Seats.Nominal, 10)
		}
		add(coordinator.DimConcurrency, n.Seats, comes)
	}
	return limits, gets
}

func (c *checkedQuotas) print(p *cli.Page, file string) {
	const most = 200 // nodes; -o json has all
	p.Line("%s: in order", file)
	p.Line("%s with %s, %s with %s, %s, time zone %s", cli.Count(c.Groups, "group"), cli.Count(c.Agents, "agent"),
		cli.Count(c.Providers, "provider"), cli.Count(c.Models, "model"), cli.Count(c.Prices, "price"), c.Timezone)
	p.Blank()
	nodes := cli.NewTable("NODE", "KIND", "WEIGHT", "LIMIT", "GETS")
	for i, n := range c.Nodes {
		if i == most {
			break
		}
		if len(n.Limits) == 0 {
			nodes.Row(n.ID, n.Kind, n.Weight, "", "")
		}
		for j, limit := range n.Limits {
			nodes.Row(n.ID, n.Kind, n.Weight, limit, n.Gets[j])
		}
	}
	p.Table(nodes)
	if more := len(c.Nodes) - most; more > 0 {
		p.Line("… and %s", cli.Count(more, "more node"))
	}
}
