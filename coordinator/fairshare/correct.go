package fairshare

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/billing"
)

// Correct moves what counts as used of a node in one dimension, and of all above it, in their periods at
// hand, on behalf of an operator: usage was reported wrongly. Downwards it goes no further than to what is
// used by the nodes below in the same periods. What an agent's report took of others is given back with it.
// It returns by how much it has moved; false: there is no such budget.
func (l *Ledger) Correct(now time.Time, node string, d coordinator.Dimension, by int64) (moved int64, ok bool) {
	l.advance(now.UnixNano())
	n, listed := l.byID[node]
	if !listed || l.nodes[n].budgets[d] == nil {
		return 0, false
	}
	moved = min(max(by, -billing.Most), billing.Most)
	l.chain(n, d, func(b *budget, lowest bool) {
		if moved = max(moved, -b.used); lowest {
			moved = max(moved, -b.spent)
		}
	})
	back := max(0, -moved)
	l.chain(n, d, func(b *budget, lowest bool) {
		b.used = min(b.used+moved, mostUsed)
		if lowest {
			b.spent = min(b.spent+moved, mostUsed)
			b.family.given += min(back, mostGiven)
		}
		b.told, b.beyond = max(0, b.told-back), max(0, b.beyond-back)
		b.reckonAgain()
		l.watch(b)
		l.freeNode(b.node)
	})
	return moved, true
}

// FoldCorrection takes over a correction as it was made then, whether or not it could be made now.
func (l *Ledger) FoldCorrection(c *coordinator.QuotaControl) {
	d, by, err := c.Correction()
	if err != nil {
		return
	}
	l.Tentatively(true)
	defer l.Tentatively(false)
	l.at(c.At)
	l.Correct(c.At, c.Target, d, by)
	l.Freed(func(int32) {})
}

// chain visits the budgets of a node and of those above it; lowest: it is the first of its family.
func (l *Ledger) chain(n int32, d coordinator.Dimension, visit func(b *budget, lowest bool)) {
	l.walk()
	at := func(n int32) {
		if b := l.nodes[n].budgets[d]; b != nil {
			visit(b, l.first(b))
		}
	}
	for ; n >= 0; n = l.nodes[n].parent {
		at(n)
		for _, beside := range l.nodes[n].beside {
			at(beside)
		}
	}
}
