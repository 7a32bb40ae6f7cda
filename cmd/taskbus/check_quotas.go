package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/config"
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
// if there is none. One that cannot be looked at is found, so that reading it tells why.
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
		if beside := quotasBeside(path); !isQuotas(path) && beside != "" && !slices.ContainsFunc(paths, func(p string) bool { return filepath.Clean(p) == beside }) {
			all = append(all, beside)
		}
	}
	return all
}

// withQuotasBeside is a configuration with the quotas that the coordinator would read with it,
// so that its version is the coordinator's. What is wrong with them is told where they are
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
	ledger.Install(time.Now(), q)
	views := ledger.View(time.Now())
	for i := range q.Nodes {
		n := &q.Nodes[i]
		switch n.Kind {
		case coordinator.QuotaPool:
			if provider := coordinator.ProviderOfPool(n.Provider); provider != "" && !providers[provider] { // keys are one's
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
		c.Nodes = append(c.Nodes, checkedNode{n.ID, n.Kind.String(), n.Weight, limitsOf(n), getsOf(n, &views[i])})
	}
	f.Quotas = c
	for _, w := range config.QuotaWarnings(q) {
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

func limitsOf(n *coordinator.QuotaNode) []string {
	var all []string
	for dim := range coordinator.Dimension(coordinator.NumDimensions) {
		for _, l := range []*coordinator.QuotaLimit{n.Budgets[dim], n.Rates[dim]} {
			if l != nil {
				all = append(all, dim.String()+" "+config.DescribeLimit(dim, l))
			}
		}
	}
	for i := range n.Beside {
		b := &n.Beside[i]
		all = append(all, b.Dimension.String()+" "+config.DescribeLimit(b.Dimension, &b.QuotaLimit))
	}
	if n.Seats != nil {
		all = append(all, coordinator.DimConcurrency.String()+" "+config.DescribeLimit(coordinator.DimConcurrency, n.Seats))
	}
	return all
}

// getsOf says in their units what the limits of a node come to, in the order of limitsOf.
func getsOf(n *coordinator.QuotaNode, v *fairshare.NodeView) []string {
	var all []string
	for dim := range coordinator.Dimension(coordinator.NumDimensions) {
		if n.Budgets[dim] != nil {
			for _, b := range v.Budgets {
				if b.Dimension == dim {
					all = append(all, quantity(dim.String(), shownAmount(dim, b.Nominal)))
				}
			}
		}
		if n.Rates[dim] != nil {
			text := "what others leave"
			for _, r := range v.Rates {
				if r.Dimension == dim && r.Amount > 0 {
					text = quantity(dim.String(), shownAmount(dim, r.Amount)) + "/" + per(r.Per.Seconds())
				}
			}
			all = append(all, text)
		}
	}
	if n.Seats != nil && v.Seats != nil {
		all = append(all, strconv.FormatInt(v.Seats.Nominal, 10))
	}
	return all
}

// shownAmount is an amount in the unit that people read: dollars, else pieces.
func shownAmount(dim coordinator.Dimension, amount int64) float64 {
	if dim == coordinator.DimCost {
		return float64(amount) / 1e6
	}
	return float64(amount)
}

func (c *checkedQuotas) print(w io.Writer, file string) error {
	const most = 200 // nodes; -o json has all
	if _, err := fmt.Fprintf(w, "%s: in order\n%s with %s, %s with %s, %s, time zone %s\n\n", file,
		count(c.Groups, "group"), count(c.Agents, "agent"), count(c.Providers, "provider"), count(c.Models, "model"), count(c.Prices, "price"), c.Timezone); err != nil {
		return err
	}
	nodes := newTable("NODE", "KIND", "WEIGHT", "LIMIT", "GETS")
	for i, n := range c.Nodes {
		if i == most {
			break
		}
		if len(n.Limits) == 0 {
			nodes.row(n.ID, n.Kind, n.Weight, "", "")
		}
		for j, limit := range n.Limits {
			gets := ""
			if j < len(n.Gets) {
				gets = n.Gets[j]
			}
			nodes.row(n.ID, n.Kind, n.Weight, limit, gets)
		}
	}
	if err := nodes.print(w); err != nil {
		return err
	}
	if len(c.Nodes) <= most {
		return nil
	}
	_, err := fmt.Fprintf(w, "… and %s\n", count(len(c.Nodes)-most, "more node"))
	return err
}
