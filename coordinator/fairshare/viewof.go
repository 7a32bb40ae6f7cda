package fairshare

import (
	"time"

	"taskbus/coordinator"
)

// ViewOf gives the nodes that are wanted, most at most, parents before children, and how
// many are wanted in all. wanted is told the node and the provider in whose tree it is,
// empty in the pool without one. It takes O(nodes), and allocates for those that it gives.
func (l *Ledger) ViewOf(now time.Time, most int, wanted func(n *coordinator.QuotaNode, provider string) bool) (some []NodeView, all int) {
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

func (l *Ledger) providerOf(n int32) string {
	for l.nodes[n].parent >= 0 {
		n = l.nodes[n].parent
	}
	return l.nodes[n].spec.Provider
}

// Chain names the nodes that a charge concerns, from the leaf to the root of one tree, and
// then of the other.
func (l *Ledger) Chain(p *Path) (ids []string) {
	for _, n := range p.list() {
		ids = append(ids, l.nodes[n].spec.ID)
	}
	return ids
}
