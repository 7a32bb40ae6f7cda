package config

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
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
	whole int64
	per   time.Duration // of a rate
	parts []int         // nodes
}

// checkSumsOf checks one kind of limit in one dimension, from the roots down. It returns how
// each is divided, by node; nil: it has none.
func (g *grower) checkSumsOf(kind limitKind, dim coordinator.Dimension) []*division {
	all := make([]*division, len(g.nodes))
	for i := range g.nodes {
		n := &g.nodes[i]
		l := kind.of(n, dim)
		if l == nil {
			continue
		}
		all[i] = &division{whole: l.Nominal, per: l.Per} // of parts by weight: until the whole is divided
		if up := g.partOf(i, kind, dim); up >= 0 {
			all[up].parts = append(all[up].parts, i)
		}
	}
	for i := range g.nodes { // a part comes after what it is a part of
		if d := all[i]; d != nil && len(d.parts) > 0 {
			g.checkDivision(i, kind, dim, d, all)
		}
	}
	return all
}

// partOf is the nearest node above whose limit a node's limit is a part of; -1: none. A
// budget for another period is no part, but a limit beside it.
func (g *grower) partOf(i int, kind limitKind, dim coordinator.Dimension) int {
	own := kind.of(&g.nodes[i], dim)
	for up := g.nodes[i].Parent; up >= 0; up = g.nodes[up].Parent {
		l := kind.of(&g.nodes[up], dim)
		if l != nil && (kind != kindBudget || own.Nominal == coordinator.ByWeight || own.Period == l.Period) {
			return up
		}
	}
	return -1
}

// checkDivision divides the limit of node i among its parts.
func (g *grower) checkDivision(i int, kind limitKind, dim coordinator.Dimension, d *division, all []*division) {
	var promised big.Rat
	var own []string
	whole := coordinator.QuotaLimit{Nominal: d.whole, Per: d.per}
	weights, left, starving := make([]int64, len(d.parts)), d.whole, -1
	for k, part := range d.parts {
		n := &g.nodes[part]
		l := kind.of(n, dim)
		if l.Nominal == coordinator.ByWeight {
			if weights[k] = n.Weight; n.Weight > 0 && starving < 0 {
				starving = part
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
				g.d.fault(g.written(part, kind, dim), "%s is more than the %s of %s; lower it", amountText(kind, dim, l), amountText(kind, dim, &whole), short(g.nodes[i].ID))
			}
			continue
		}
		promised.Add(&promised, amount)
		own = append(own, fmt.Sprintf("%s %s", n.Name, amountText(kind, dim, l)))
	}
	for k, amount := range fairshare.Apportion(left, weights, nil) {
		if part := all[d.parts[k]]; part.whole == coordinator.ByWeight {
			part.whole, part.per = amount, d.per
		}
	}
	switch {
	case promised.Cmp(new(big.Rat).SetInt64(d.whole)) > 0:
		const most = 4
		if len(own) > most {
			own = append(own[:most], fmt.Sprintf("%d more", len(own)-most))
		}
		g.d.fault(g.written(i, kind, dim), "%s has %s of %s, less than those below it have of their own (%s); lower theirs or raise this",
			short(g.nodes[i].ID), amountText(kind, dim, &whole), dim, strings.Join(own, ", "))
	case left == 0 && d.whole > 0 && starving >= 0:
		g.d.fault(g.written(starving, kind, dim), "%s shares the %s of %s by weight, and others have all of it (%s) of their own; lower theirs, or give it an amount of its own (0: what others leave is all it has)",
			short(g.nodes[starving].ID), dim, short(g.nodes[i].ID), amountText(kind, dim, &whole))
	}
}

// written is where a node's limit stands, or what gives it one.
func (g *grower) written(i int, kind limitKind, dim coordinator.Dimension) place {
	if own := kind.own(g.origins[i].limits, dim); own != nil {
		return own.at
	}
	return g.origins[i].at
}
