package fairshare

import (
	"iter"

	"taskbus/coordinator/fairshare/seats"
)

// Freed visits the nodes that have got something back since it was called last, for tasks that wait.
func (l *Ledger) Freed(visit func(node int32)) {
	for _, n := range l.freed {
		l.nodes[n].freed = false
		visit(n)
	}
	l.freed = l.freed[:0]
}

func (l *Ledger) free(p *Path) {
	for _, n := range p.Nodes() {
		l.freeNode(n)
	}
}

func (l *Ledger) freeNode(n int32) {
	if nd := &l.nodes[n]; !nd.freed {
		nd.freed = true
		l.freed = append(l.freed, n)
	}
}

// Wait notes that n more tasks (n < 0: fewer) wait for seats on the path: for those below their part, seats
// that come free are kept from groups beyond theirs. It is not for tasks that wait for something else, and
// would not take a seat that is free. Install forgets it.
func (l *Ledger) Wait(p *Path, n int) {
	for s := range l.seatsOf(p) {
		s.Wait(int64(n))
	}
}

// HasSeat reports whether so many seats may be taken now on a path, in every tree.
func (l *Ledger) HasSeat(p *Path, n int64) bool {
	for s := range l.seatsOf(p) {
		if ok, _, _ := s.Check(n); n > 0 && !ok {
			return false
		}
	}
	return true
}

// seatsOf yields the seats that a charge on a path takes: in each tree the nearest, which ask those above.
func (l *Ledger) seatsOf(p *Path) iter.Seq[*seats.Limit] {
	return func(yield func(*seats.Limit) bool) {
		sat := false
		for _, n := range p.Nodes() {
			nd := &l.nodes[n]
			if nd.seats != nil && !sat {
				if sat = true; !yield(nd.seats) {
					return
				}
			}
			if nd.parent < 0 {
				sat = false
			}
		}
	}
}
