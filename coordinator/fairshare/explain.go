package fairshare

import (
	"math/bits"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/rates"
	"taskbus/coordinator/fairshare/seats"
)

// Explanation is why a charge would be admitted now or not: the verdict, and every limit that
// it meets, in the order of its path.
type Explanation struct {
	Verdict Verdict
	Limits  []LimitView
}

// LimitView is one limit that a charge meets.
type LimitView struct {
	Node      string
	Dimension coordinator.Dimension
	Limit     Limit
	Asked     int64
	// Left of it; Borrowable is what others could lend besides now.
	Left, Borrowable int64
	// Refuses: neither it nor any possible lender has room for what is asked. Binds: it is the limit that
	// the verdict names.
	Refuses, Binds bool
	// Renews is when more of it may be there by itself: when a budget's period ends, or the
	// rate allows what is asked. Zero: when something is given back, or never.
	Renews time.Time
}

// Explain returns which limits a charge meets now. Nothing is charged, and the question changes no later
// answer, not even the time at which to try again.
func (l *Ledger) Explain(now time.Time, p *Path, c *Charge) Explanation {
	asked := *c
	billing.Tidy(&asked.Amounts)
	e := Explanation{Verdict: l.Check(now, p, &asked)}
	l.SoonestEnd(&e.Verdict, asked.Amounts[e.Verdict.Dimension])
	set := dimensionsOf(&asked.Amounts)
	var t turn
	for _, n := range p.Nodes() {
		nd := &l.nodes[n]
		for m := nd.limited & set; m != 0; m &= m - 1 {
			d := coordinator.Dimension(bits.TrailingZeros8(m))
			if nd.budgets[d] != nil {
				e.Limits = append(e.Limits, l.explainBudget(nd.budgets[d], p, &asked))
			}
			if s := nd.rates[d]; s != nil {
				e.Limits = append(e.Limits, l.explainRate(s, d, asked.Amounts[d], t.rated&(1<<d) == 0))
				t.rated |= 1 << d
			}
		}
		if n := asked.Amounts[coordinator.DimConcurrency]; nd.seats != nil && n > 0 {
			e.Limits = append(e.Limits, l.explainSeats(nd.seats, n, !t.sat))
			t.sat = true
		}
		if nd.parent < 0 {
			t = turn{}
		}
	}
	for i := range e.Limits {
		x := &e.Limits[i]
		x.Binds = !e.Verdict.OK && x.Node == e.Verdict.Node && x.Dimension == e.Verdict.Dimension &&
			x.Limit == e.Verdict.Limit
		x.Refuses = !e.Verdict.OK && (x.Refuses || x.Binds) // a share below may borrow by other rules than the node
	}
	return e
}

// forgetKnown forgets what is known of refusals on a path.
func (l *Ledger) forgetKnown(p *Path) {
	for _, n := range p.Nodes() {
		for _, b := range l.nodes[n].budgets {
			if b != nil {
				b.knew = known{}
			}
		}
	}
}

// explainBudget looks at one budget. What could be lent to it from outside is summed up, and is the same whether the
// charge comes out of its own share or of one below.
func (l *Ledger) explainBudget(b *budget, p *Path, c *Charge) LimitView {
	v := LimitView{
		Node: l.nodes[b.node].spec.ID, Dimension: b.dim, Limit: LimitBudget, Asked: c.Amounts[b.dim],
		Left: b.left(), Renews: timeOf(b.family.span.End),
	}
	first := l.isFirst(p, b)
	if first {
		v.Left = min(v.Left, b.room()+b.agentsLeft())
	}
	switch {
	case c.NoBorrowing || b.rule.Rule == coordinator.BorrowNever:
	case b.rule.Rule == coordinator.BorrowGroupRemaining:
		all := b.left()
		if b.up != nil {
			all = min(arith.Add(all, b.borrowMax-b.borrowedIn), b.up.leftToRoot())
		}
		v.Borrowable = all - v.Left
	default:
		lends := l.borrowableNow(b)
		for _, kid := range b.kids {
			if kid.own || !first { // it is in Left
				lends -= kid.couldLend(l.now, kid.sumBelow(l.now))
			}
		}
		v.Borrowable = min(b.family.left()-v.Left, lends)
	}
	v.Borrowable = max(0, v.Borrowable)
	v.Refuses = v.Asked > arith.Add(v.Left, v.Borrowable)
	return v
}

// isFirst reports whether the charge comes out of the budget's own share.
func (l *Ledger) isFirst(p *Path, b *budget) bool {
	for _, n := range p.Nodes() {
		if x := l.nodes[n].budgets[b.dim]; x != nil && x.family == b.family {
			return x == b
		}
	}
	return false
}

func (l *Ledger) explainRate(s *rates.Shaper, d coordinator.Dimension, asked int64, first bool) LimitView {
	v := LimitView{Node: s.ID, Dimension: d, Limit: LimitRate, Asked: asked, Left: s.Level(l.now)}
	if !first {
		var after int64
		if s.Hard && s.Amount > 0 {
			if ok, wait := s.Assured.Check(l.now, asked); !ok {
				v.Refuses, after = true, wait
			}
		}
		if s.Ceiling.Amount > 0 {
			if ok, wait := s.Ceiling.Check(l.now, asked); !ok {
				v.Refuses, after = true, max(after, wait)
			}
		}
		if after > 0 && after != rates.Forever {
			v.Renews = timeOf(l.now + after)
		}
		return v
	}
	by, wait, _, _, _ := s.Check(l.now, asked)
	v.Refuses = by == nil
	if by != nil && by != s {
		v.Borrowable = max(0, asked-v.Left)
	}
	if v.Refuses && wait != rates.Forever {
		v.Renews = timeOf(l.now + wait)
	}
	return v
}

func (l *Ledger) explainSeats(s *seats.Limit, asked int64, first bool) LimitView {
	v := LimitView{Node: l.NodeID(s.Node), Dimension: coordinator.DimConcurrency, Limit: LimitSeats, Asked: asked}
	all := max(0, s.Available())
	v.Left = min(all, s.Own())
	v.Borrowable = all - v.Left
	v.Refuses = first && all < asked // above, it need not ask for all of it
	return v
}
