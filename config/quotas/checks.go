package quotas

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
)

// limitKind is which of an entry's limits of a dimension is meant.
type limitKind uint8

const (
	kindBudget limitKind = iota
	kindRate
	kindSeats
)

// String is the word used in faults.
func (k limitKind) String() string { return [...]string{"budget", "rate", "limit"}[k] }

func (k limitKind) of(n *coordinator.QuotaNode, dim coordinator.Dimension) *coordinator.QuotaLimit {
	return [...]*coordinator.QuotaLimit{n.Budgets[dim], n.Rates[dim], n.Seats}[k]
}

func (k limitKind) own(l *limits, dim coordinator.Dimension) *ownLimit {
	return [...]*ownLimit{l.budgets[dim], l.rates[dim], l.seats}[k]
}

// checkSums sees that what is promised to those below a node fits into what the node has,
// and leaves something for those that share by weight. It is of use only for a file without
// other faults: a limit that cannot be read would be missed.
func (g *grower) checkSums() {
	for dim := range coordinator.DimConcurrency {
		g.checkSumsOf(kindBudget, dim)
		g.checkSumsOf(kindRate, dim)
	}
	g.checkSumsOf(kindSeats, coordinator.DimConcurrency)
}

// division is one limit and the limits that are parts of it.
type division struct {
	node  int
	limit *coordinator.QuotaLimit
	// beside another limit of the node: it is not written in the file, so that it may be of nothing.
	beside bool
	whole  int64
	per    time.Duration // of a rate
	parts  []*division
}

// checkSumsOf checks one kind of limit in one dimension, from the roots down. It returns how
// each is divided, by node; nil: it has none.
func (g *grower) checkSumsOf(kind limitKind, dim coordinator.Dimension) []*division {
	all := make([]*division, len(g.nodes))
	of := make([][]*division, len(g.nodes)) // by node: its limit, and those beside it
	for i := range g.nodes {
		n := &g.nodes[i]
		add := func(l *coordinator.QuotaLimit) *division {
			d := &division{node: i, limit: l, whole: l.Nominal, per: l.Per} // of parts by weight: until the whole is divided
			of[i] = append(of[i], d)
			if up := g.partOf(d, kind, of); up != nil {
				up.parts = append(up.parts, d)
			}
			return d
		}
		if l := kind.of(n, dim); l != nil {
			all[i] = add(l)
		}
		for k := range n.Beside {
			if b := &n.Beside[k]; kind == kindBudget && b.Dimension == dim {
				add(&b.QuotaLimit).beside = b.Nominal == coordinator.ByWeight
			}
		}
	}
	for i := range of { // a part comes after what it is a part of
		for _, d := range of[i] {
			if len(d.parts) > 0 {
				g.checkDivision(kind, dim, d)
			}
		}
	}
	return all
}

// partOf is the nearest limit above that a limit is a part of; nil: none. A budget for another
// period is no part, but a limit beside it.
func (g *grower) partOf(own *division, kind limitKind, of [][]*division) *division {
	for up := g.nodes[own.node].Parent; up >= 0; up = g.nodes[up].Parent {
		for _, d := range of[up] {
			if kind != kindBudget || own.limit.Period == d.limit.Period {
				return d
			}
		}
	}
	return nil
}

// checkDivision divides a limit among its parts.
func (g *grower) checkDivision(kind limitKind, dim coordinator.Dimension, d *division) {
	var promised big.Rat
	var own []string
	i := d.node
	whole := coordinator.QuotaLimit{Nominal: d.whole, Per: d.per}
	weights, left := make([]int64, len(d.parts)), d.whole
	var starving *division
	for k, p := range d.parts {
		part, l := p.node, p.limit
		n := &g.nodes[part]
		if l.Nominal == coordinator.ByWeight {
			if weights[k] = n.Weight; n.Weight > 0 && !p.beside && starving == nil {
				starving = p
			}
			continue
		}
		amount := new(big.Rat).SetInt64(l.Nominal)
		if kind == kindRate { // for the time that the whole is for
			amount.Mul(amount, big.NewRat(int64(d.per), int64(l.Per)))
		}
		if amount.Cmp(new(big.Rat).SetInt64(left)) < 0 {
			left -= new(big.Int).Quo(amount.Num(), amount.Denom()).Int64()
		} else {
			left = 0
		}
		if kind == kindRate && l.Borrow == (coordinator.Bound{Kind: coordinator.BoundAmount}) {
			if amount.Cmp(new(big.Rat).SetInt64(d.whole)) > 0 { // a cap promises nothing, but this one is never reached
				g.d.Fault(g.written(p, kind, dim), "%s is more than the %s of %s; lower it", amountText(kind, dim, l),
					amountText(kind, dim, &whole), short(g.nodes[i].ID))
			}
			continue
		}
		promised.Add(&promised, amount)
		own = append(own, fmt.Sprintf("%s %s", n.Name, amountText(kind, dim, l)))
	}
	for k, amount := range arith.Apportion(left, weights, nil) {
		if part := d.parts[k]; part.whole == coordinator.ByWeight {
			part.whole, part.per = amount, d.per
		}
	}
	switch {
	case promised.Cmp(new(big.Rat).SetInt64(d.whole)) > 0:
		const most = 4
		if len(own) > most {
			own = append(own[:most], fmt.Sprintf("%d more", len(own)-most))
		}
		g.d.Fault(g.written(d, kind, dim),
			"%s has %s of %s, less than those below it have of their own (%s); lower theirs or raise this",
			short(g.nodes[i].ID), amountText(kind, dim, &whole), dim, strings.Join(own, ", "))
	case left == 0 && d.whole > 0 && starving != nil:
		g.d.Fault(g.written(starving, kind, dim),
			"%s shares the %s of %s by weight, and others have all of it (%s) of their own; lower theirs, or give it an "+
				"amount of its own (0: what others leave is all it has)",
			short(g.nodes[starving.node].ID), dim, short(g.nodes[i].ID), amountText(kind, dim, &whole))
	}
}

// written is where a limit stands, or what gives its node one.
func (g *grower) written(d *division, kind limitKind, dim coordinator.Dimension) place {
	r := &g.origins[d.node]
	if kind == kindBudget && d.limit != kind.of(&g.nodes[d.node], dim) { // one beside that
		for _, own := range r.limits.further[dim] {
			if own.Period == d.limit.Period {
				return own.at
			}
		}
		return r.at
	}
	if own := kind.own(r.limits, dim); own != nil {
		return own.at
	}
	return r.at
}
