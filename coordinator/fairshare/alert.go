package fairshare

import (
	"math/bits"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
)

// Alert says that a budget's use has reached a threshold of what it may be.
type Alert struct {
	Node      string
	Dimension coordinator.Dimension
	Percent   int64 // of what may be used
	Used, Cap int64
	Ends      time.Time // when the period ends
	// MayBorrow: others leave something that it may use beyond Cap.
	MayBorrow bool
	// Echo: a node above it has reached the same by the same charge, and is published.
	Echo bool

	node int32
}

// Told returns the record of the alert.
func (a *Alert) Told(at time.Time) *coordinator.QuotaTold {
	return &coordinator.QuotaTold{Node: a.Node, Dimension: a.Dimension, Percent: a.Percent, At: at}
}

// Reached returns the event of the alert.
func (a *Alert) Reached() coordinator.QuotaReached {
	return coordinator.QuotaReached{
		Node: a.Node, Dimension: a.Dimension, Percent: int(a.Percent), Used: a.Used, Cap: a.Cap, Ends: a.Ends,
		MayBorrow: a.MayBorrow,
	}
}

// watch notes that a budget's use has reached a threshold for the first time in its period. All of it is reached
// where nothing can be borrowed either.
func (l *Ledger) watch(b *budget) {
	use, all := b.used+b.reserved.sum(), b.cap()
	if l.tentative || all <= 0 || len(l.alertAt) == 0 || use < all/100*l.alertAt[0] {
		return
	}
	for _, percent := range l.alertAt {
		if percent <= b.alerted || use < arith.MulDivUp(all, percent, 100) {
			continue
		}
		mayBorrow := l.mayBorrow(b)
		if percent == 100 && mayBorrow {
			return // the last of them
		}
		b.alerted = percent
		l.alerts = append(l.alerts, Alert{
			Node: l.nodes[b.node].spec.ID, Dimension: b.dim, Percent: percent, Used: use, Cap: all,
			Ends:      timeOf(b.family.span.End),
			MayBorrow: mayBorrow, node: b.node,
		})
	}
}

// Lacks notes what has reached a threshold because others have used what it could borrow: the charge was refused.
func (l *Ledger) Lacks(now time.Time, c *Charge) {
	l.advance(now.UnixNano())
	p := l.PathOf(c)
	l.watchAll(&p, dimensionsOf(&c.Amounts))
}

// watchAll does so for all budgets of a path in some dimensions.
func (l *Ledger) watchAll(p *Path, dims uint8) {
	for _, n := range p.Nodes() {
		nd := &l.nodes[n]
		for m := nd.limited & dims; m != 0; m &= m - 1 {
			if b := nd.budgets[bits.TrailingZeros8(m)]; b != nil {
				l.watch(b)
			}
		}
	}
}

// Review notes what has reached a threshold by nothing that was used: because there is less of it now, or
// because the leader before did not publish it. It takes O(nodes · dimensions).
func (l *Ledger) Review(now time.Time) {
	l.advance(now.UnixNano())
	for i := range l.nodes {
		for _, b := range l.nodes[i].budgets {
			if b != nil {
				l.watch(b)
			}
		}
	}
}

// Alerts appends what has reached a threshold since it was called last: to be called after each charge. It
// takes O(alerts · depth): after other quotas are installed these may be those of all nodes.
func (l *Ledger) Alerts(dst []Alert) []Alert {
	l.echoes()
	dst = append(dst, l.alerts...)
	l.alerts = l.alerts[:0]
	return dst
}

// echoes marks the alerts of nodes below one that has reached the same.
func (l *Ledger) echoes() {
	if len(l.alerts) < 2 {
		return
	}
	type reached struct {
		node    int32
		dim     coordinator.Dimension
		percent int64
	}
	all := make(map[reached]bool, len(l.alerts))
	for i := range l.alerts {
		a := &l.alerts[i]
		all[reached{a.node, a.Dimension, a.Percent}] = true
	}
	for i := range l.alerts {
		a := &l.alerts[i]
		for up := l.nodes[a.node].parent; up >= 0 && !a.Echo; up = l.nodes[up].parent {
			a.Echo = all[reached{up, a.Dimension, a.Percent}]
		}
	}
}

// Tentatively has what is reserved from now on raise no alert, because it may be released at once;
// with false those that are reserved from then on do again. Stands raises those of one that was
// not released.
func (l *Ledger) Tentatively(on bool) { l.tentative = on }

// Stands raises the alerts of a reservation that was made tentatively.
func (l *Ledger) Stands(key coordinator.TaskKey) {
	if r := l.open[key]; r != nil {
		l.watchAll(&r.path, dimensionsOf(&r.charge.Amounts))
	}
}
