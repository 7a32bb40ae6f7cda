package fairshare

import "taskbus/coordinator"

// What is spent is spent, also beyond what was reserved. But an agent that speaks for itself might
// say that it has spent what all together have, and nobody else would get anything for the rest of
// the period. So its word is believed up to believedTimes what was reserved, and beyond that until
// the budget that is most its own has been used up believedCaps times.
const (
	believedTimes = 10
	believedCaps  = 2
)

// Doubt is that an agent says it has used more than it can be believed: more than Most.
type Doubt struct {
	Node       string
	Dimension  coordinator.Dimension
	Told, Most int64
}

// Doubted holds what an agent says it has used against what was reserved by the charge; nil: it
// can be believed. Where there is no budget nothing is in doubt: a rate is in debt for no longer
// than its burst takes.
func (l *Ledger) Doubted(c *Charge, used *coordinator.Amounts) *Doubt {
	p := l.PathOf(c)
	for d := range coordinator.DimConcurrency {
		if used[d] <= believedTimes*c.Amounts[d] {
			continue
		}
		if b := l.ownBudget(&p, d); b != nil {
			if most := max(believedTimes*c.Amounts[d], believedCaps*max(b.base, b.cap())-b.used, 0); used[d] > most {
				return &Doubt{Node: l.nodes[b.node].spec.ID, Dimension: d, Told: used[d], Most: most}
			}
		}
	}
	return nil
}

// ownBudget is the lowest on a path that is not of nothing.
func (l *Ledger) ownBudget(p *Path, d coordinator.Dimension) *budget {
	for _, n := range p.list() {
		if b := l.nodes[n].budgets[d]; b != nil && b.base > 0 {
			return b
		}
	}
	return nil
}
