package seats

import (
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
)

// Limit is how much of a node may run at one time. What is not used may be used by others at once, and
// comes back by attrition: no group gets a seat beyond its part for which one below its part waits. The
// arithmetic is Kueue's (algorithms.md §1.2):
//
//	sub(n)   = own(n) + Σ_children (sub(c) - local(c))
//	local(n) = max(0, sub(n) - bound on lending), what is never lent
//	avail(n) = at the root sub - use, else
//	           max(0, local-use) + min(avail(parent), sub - local - max(0, use-local) + bound on borrowing)
type Limit struct {
	Node    int32
	Nominal int64 // of it and those below
	Most    int64 // what one task may have when nothing runs
	Running int64 // of it and those below, what is borrowed included
	Waiting int64 // tasks of it and those below

	up      *Limit
	kids    []*Limit
	spec    *coordinator.QuotaLimit
	rule    coordinator.BorrowRule
	weight  int64
	sub     int64
	local   int64
	borrow  int64
	use     int64 // what it has of its parent's, and of its own
	wants   int64 // how many of those that wait may be seated within its part
	wanting int64 // the sum of what its children want
}

// New makes the seats of a node below up (nil: there are none); nil where they are a part of nothing. When all of a
// tree are made, Divide gives them their parts.
func New(n int32, spec *coordinator.QuotaNode, q *coordinator.QuotaLimit, up *Limit) *Limit {
	s := &Limit{Node: n, up: up, spec: q, weight: spec.Weight, rule: spec.Borrowing.Rule}
	switch {
	case up != nil:
		up.kids = append(up.kids, s)
	case q.Nominal == coordinator.ByWeight:
		return nil
	default:
		s.Nominal = q.Nominal
	}
	return s
}

// Divide gives all of a tree their parts, when it is called of the root; of others it does nothing.
func (s *Limit) Divide() {
	if s.up == nil {
		s.divide()
		s.bounds()
	}
}

// divide gives the children their parts, and adds to its parent's what others may have of it.
func (s *Limit) divide() {
	parts := arith.Parts(s.Nominal, len(s.kids), func(i int) (int64, int64) {
		return s.kids[i].spec.Nominal, s.kids[i].weight
	})
	own := s.Nominal
	for i, kid := range s.kids {
		kid.Nominal = parts[i]
		own -= parts[i]
	}
	s.sub, s.local = max(0, own), 0
	for _, kid := range s.kids {
		kid.divide()
	}
	s.borrow = arith.Bound(s.spec.Borrow, s.Nominal)
	if s.rule == coordinator.BorrowNever {
		s.borrow = 0
	}
	if lend := arith.Bound(s.spec.Lend, s.Nominal); lend < s.sub {
		s.local = s.sub - lend
	}
	if s.up != nil {
		s.up.sub += s.sub - s.local
	}
}

// bounds finds what may run at most when nothing does.
func (s *Limit) bounds() {
	s.Most = s.Available()
	for _, kid := range s.kids {
		kid.bounds()
	}
}

// Own returns how many more may run within its part.
func (s *Limit) Own() int64 { return max(0, s.sub-s.use) }

// Available returns how many more may run, without regard to the order of those that wait.
func (s *Limit) Available() int64 {
	if s.up == nil {
		return s.sub - s.use
	}
	lent := s.sub - s.local - max(0, s.use-s.local)
	return max(0, s.local-s.use) + min(s.up.Available(), arith.Add(lent, s.borrow))
}

// Check reports whether n more may run, and else at which node they may not, and behind which they wait:
// the uppermost that has none.
func (s *Limit) Check(n int64) (ok bool, at, behind *Limit) {
	if s.Available() < n {
		behind = s
		for x := s.up; x != nil; x = x.up {
			if x.Available() < n {
				behind = x
			}
		}
		return false, s, behind
	}
	for x := s; x.up != nil; x = x.up {
		if x.use+n <= x.sub {
			break // it is within its part, and so are those above
		}
		if others := x.up.wanting - x.wants; others > 0 && x.up.Available()-n < others {
			return false, x.up, x.up // a group below its part waits
		}
	}
	return true, nil, nil
}

// Take takes n seats, or gives them back (n < 0).
func (s *Limit) Take(n int64) {
	for x, v := s, n; x != nil; x = x.up {
		x.Running += n
		before := max(0, x.use-x.local)
		x.use += v
		v = max(0, x.use-x.local) - before
		x.look()
	}
}

// Wait notes that so many more (or, n < 0, fewer) wait for it.
func (s *Limit) Wait(n int64) {
	for x := s; x != nil; x = x.up {
		x.Waiting = max(0, x.Waiting+n)
		x.look()
	}
}

// look keeps count of the groups that wait although they are below their part.
func (s *Limit) look() {
	if s.up == nil {
		return
	}
	wants := min(s.Waiting, s.Own())
	s.up.wanting += wants - s.wants
	s.wants = wants
}
