package fairshare

import (
	"time"

	"taskbus/coordinator"
)

// ViewOf returns the nodes that are wanted, most at most, parents before children, and how many are wanted
// in all. wanted is called with the node and the provider of its tree, empty in the pool without
// one. It takes O(nodes), and allocates for those that it returns.
func (l *Ledger) ViewOf(now time.Time, most int, wanted func(n *coordinator.QuotaNode, provider string) bool) (
	some []NodeView, all int) {
	l.advance(now.UnixNano())
	for i := range l.nodes {
		nd := &l.nodes[i]
		if !wanted(nd.spec, l.providerOf(int32(i))) {
			continue
		}
		if all++; all <= most {
			some = append(some, l.view(nd))
		}
	}
	return some, all
}

// Page is at most most of all nodes, from the one behind that of an ID on (empty: from the first), in
// the order of View, and how many there are in all; more: there are some behind them. ok is false where
// there is no node of that ID. It takes O(most).
func (l *Ledger) Page(now time.Time, after string, most int) (some []NodeView, all int, more, ok bool) {
	l.advance(now.UnixNano())
	from := 0
	if after != "" {
		i, listed := l.byID[after]
		if !listed {
			return nil, len(l.nodes), false, false
		}
		from = int(i) + 1
	}
	for i := from; i < min(len(l.nodes), from+most); i++ {
		some = append(some, l.view(&l.nodes[i]))
	}
	return some, len(l.nodes), from+most < len(l.nodes), true
}

// IDs names the nodes that are wanted, in the order of View; wanted is called as by ViewOf. It takes
// O(nodes).
func (l *Ledger) IDs(wanted func(n *coordinator.QuotaNode, provider string) bool) (ids []string) {
	for i := range l.nodes {
		if spec := l.nodes[i].spec; wanted(spec, l.providerOf(int32(i))) {
			ids = append(ids, spec.ID)
		}
	}
	return ids
}

func (l *Ledger) providerOf(n int32) string {
	for l.nodes[n].parent >= 0 {
		n = l.nodes[n].parent
	}
	return l.nodes[n].spec.Provider
}

// Chain names the nodes that a charge concerns, from the leaf to the root of one tree, and
// then of the other.
func (l *Ledger) Chain(p *Path) (ids []string) {
	for _, n := range p.Nodes() {
		ids = append(ids, l.nodes[n].spec.ID)
	}
	return ids
}
