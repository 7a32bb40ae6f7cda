package fairshare

import (
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
)

// seats is how much of a node may run at one time. What is not used may be used by others at once, and
// comes back by attrition: no group gets a seat beyond its part for which one below its part waits. The
// arithmetic is Kueue's (algorithms.md §1.2):
//
//	sub(n)   = own(n) + Σ_children (sub(c) - local(c))
//	local(n) = max(0, sub(n) - bound on lending), what is never lent
//	avail(n) = at the root sub - use, else
//	           max(0, local-use) + min(avail(parent), sub - local - max(0, use-local) + bound on borrowing)
type seats struct {
	node    int32
	up      *seats
	kids    []*seats
	spec    *coordinator.QuotaLimit
	rule    coordinator.BorrowRule
	weight  int64
	nominal int64 // of it and those below
	sub     int64
	local   int64
	borrow  int64
	use     int64 // what it has of its parent's, and of its own
	running int64 // of it and those below: for people
	most    int64 // what one task may have when nothing runs
	waiting int64 // tasks of it and those below
	wants   int64 // how many of them may be seated within its part
	wanting int64 // the sum of what its children want
}

// newSeats makes the seats of a node; nil where they are a part of nothing.
func (l *Ledger) newSeats(n int32, q *coordinator.QuotaLimit) *seats {
	spec := l.nodes[n].spec
	s := &seats{node: n, spec: q, weight: spec.Weight, rule: spec.Borrowing.Rule}
	for up := l.nodes[n].parent; up >= 0 && s.up == nil; up = l.nodes[up].parent {
		s.up = l.nodes[up].seats
	}
	switch {
	case s.up != nil:
		s.up.kids = append(s.up.kids, s)
	case q.Nominal == coordinator.ByWeight:
		return nil
	default:
		s.nominal = q.Nominal
	}
	return s
}

// divide gives the children their parts.
func (s *seats) divide() {
	own := s.nominal
	all := arith.Parts(s.nominal, len(s.kids), func(i int) (int64, int64) { return s.kids[i].spec.Nominal, s.kids[i].weight })
	for i, kid := range s.kids {
		kid.nominal = all[i]
		own -= all[i]
	}
	s.sub = max(0, own) // the children add what they lend, see share
	s.borrow = arith.Bound(s.spec.Borrow, s.nominal)
	if s.rule == coordinator.BorrowNever {
		s.borrow = 0
	}
}

// share adds to its parent's what others may have of it. Children come before parents.
func (s *seats) share() {
	s.local = 0
	if lend := arith.Bound(s.spec.Lend, s.nominal); lend < s.sub {
		s.local = s.sub - lend
	}
	if s.up != nil {
		s.up.sub += s.sub - s.local
	}
}

// bounds finds what may run at most when nothing does. Parents come before children.
func (s *seats) bounds() { s.most = s.available() }

// available returns how many more may run, without regard to the order of those that wait.
func (s *seats) available() int64 {
	if s.up == nil {
		return s.sub - s.use
	}
	lent := s.sub - s.local - max(0, s.use-s.local)
	return max(0, s.local-s.use) + min(s.up.available(), arith.Add(lent, s.borrow))
}

// check reports whether n more may run, and else at which node they may not, and behind which they wait:
// the uppermost that has none.
func (s *seats) check(n int64) (ok bool, at, behind *seats) {
	if s.available() < n {
		behind = s
		for x := s.up; x != nil; x = x.up {
			if x.available() < n {
				behind = x
			}
		}
		return false, s, behind
	}
	for x := s; x.up != nil; x = x.up {
		if x.use+n <= x.sub {
			break // it is within its part, and so are those above
		}
		if others := x.up.wanting - x.wants; others > 0 && x.up.available()-n < others {
			return false, x.up, x.up // a group below its part waits
		}
	}
	return true, nil, nil
}

// HasSeat reports whether so many seats may be taken now on a path, in every tree.
func (l *Ledger) HasSeat(p *Path, n int64) bool {
	if n <= 0 {
		return true
	}
	sat := false // the nearest ask those above
	for _, at := range p.list() {
		nd := &l.nodes[at]
		if nd.seats != nil && !sat {
			sat = true
			if ok, _, _ := nd.seats.check(n); !ok {
				return false
			}
		}
		if nd.parent < 0 {
			sat = false
		}
	}
	return true
}

// add takes n seats, or gives them back (n < 0).
func (s *seats) add(n int64) {
	for x, v := s, n; x != nil; x = x.up {
		x.running += n
		before := max(0, x.use-x.local)
		x.use += v
		v = max(0, x.use-x.local) - before
		x.look()
	}
}

// wait notes that so many more (or, n < 0, fewer) wait for it.
func (s *seats) wait(n int64) {
	for x := s; x != nil; x = x.up {
		x.waiting = max(0, x.waiting+n)
		x.look()
	}
}

// look keeps count of the groups that wait although they are below their part.
func (s *seats) look() {
	if s.up == nil {
		return
	}
	wants := min(s.waiting, max(0, s.sub-s.use))
	s.up.wanting += wants - s.wants
	s.wants = wants
}
