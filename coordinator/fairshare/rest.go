package fairshare

import "time"

// Fresh reports whether nothing has been charged or folded yet: what quotas have been installed before
// those of now has left no trace.
func (l *Ledger) Fresh() bool { return l.fresh && len(l.open) == 0 }

// AtRest reports whether between two instants there is nothing in the books: nothing is set aside, lent,
// borrowed or to be repaid, nothing has been used in the periods at hand, all rates are full, no pool is
// ailing, nothing is kept of what is not listed any more, and no period begins. If agents are registered
// one after the other in such a time, or removed so, to install the quotas with all of them leaves the same
// books as to install those with each of them in its turn. (Of what has been used that is not so: the loans
// when a share shrinks below it depend on the time.)
func (l *Ledger) AtRest(from, until time.Time) bool {
	since := from.UnixNano()
	if len(l.ailing) > 0 || len(l.former) > 0 || l.nextPeriod <= until.UnixNano() {
		return false
	}
	for _, r := range l.open { // order does not matter
		for part := r; part != nil; part = part.later {
			if part.state == resOpen || len(part.loans) > 0 {
				return false
			}
		}
	}
	for i := range l.nodes {
		if !l.nodes[i].atRest(since) {
			return false
		}
	}
	return true
}

func (nd *node) atRest(since int64) bool {
	if !nd.health.Well(since) {
		return false
	}
	for _, b := range nd.budgets {
		if b != nil && !b.atRest() {
			return false
		}
	}
	for _, s := range nd.rates {
		if s != nil && s.Assured.Since(since)|s.Ceiling.Since(since) != 0 {
			return false
		}
	}
	return true
}

func (b *budget) atRest() bool {
	return b.unused() && b.reserved == (tally{}) && b.held == (tally{}) && !b.family.repays && !b.family.moved
}
