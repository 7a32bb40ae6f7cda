package fairshare

// Freed visits the nodes that have got something back since it was called last, for tasks that wait.
func (l *Ledger) Freed(visit func(node int32)) {
	for _, n := range l.freed {
		l.nodes[n].freed = false
		visit(n)
	}
	l.freed = l.freed[:0]
}

func (l *Ledger) free(p *Path) {
	for _, n := range p.list() {
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
	sat := false
	for _, i := range p.list() {
		nd := &l.nodes[i]
		if nd.seats != nil && !sat {
			sat = true
			nd.seats.wait(int64(n))
		}
		if nd.parent < 0 {
			sat = false
		}
	}
}
