package fairshare

import (
	"time"

	"taskbus/coordinator"
)

// shaper is a node's rate in one dimension, after HTB (hierarchical token bucket): what is
// assured to it, and the most that it may have (its ceiling) while others leave theirs.
//
// A node within its assured rate is served. One that is not may take what its parent has left
// beyond the bursts that are assured to its siblings: so a sibling that comes back finds its
// whole burst, and from then on its rate, and a lone one gets all of its parent's rate. A
// request that is larger than the burst passes when the bucket is full, and is paid for
// afterwards; only what is larger than the burst of a hard limit above it never passes.
type shaper struct {
	node     int32
	id       string // of the node
	up       *shaper
	kids     []*shaper
	spec     *coordinator.QuotaLimit
	weight   int64
	amount   int64 // assured for every Per
	per      time.Duration
	burst    int64
	assured  rate // not used while amount is 0: nothing is assured
	ceiling  rate // amount 0: none of its own
	reported rate // what its agents' own reports alone may take (see trust.go)
	hard     bool // it may have no more than what is assured to it
}

// newShaper makes the rate of a node; nil where it is a part of nothing.
func (l *Ledger) newShaper(n int32, d coordinator.Dimension, q *coordinator.QuotaLimit) *shaper {
	spec := l.nodes[n].spec
	s := &shaper{node: n, id: spec.ID, spec: q, weight: spec.Weight, per: q.Per}
	for up := l.nodes[n].parent; up >= 0 && s.up == nil; up = l.nodes[up].parent {
		s.up = l.nodes[up].rates[d]
	}
	s.hard = s.up == nil || spec.Borrowing.Rule == coordinator.BorrowNever || q.Borrow.Kind != coordinator.BoundNone &&
		q.Borrow.Value == 0
	switch {
	case s.up != nil:
		if q.Nominal == coordinator.ByWeight {
			s.per = s.up.per
		}
		s.up.kids = append(s.up.kids, s)
	case q.Nominal == coordinator.ByWeight:
		return nil
	default:
		s.amount, s.burst = q.Nominal, q.Burst
	}
	return s
}

// divide gives the children their parts, and begins with full buckets.
func (s *shaper) divide() {
	if s.burst == 0 {
		s.burst = max(1, s.amount)
	}
	if s.amount > 0 {
		s.assured = newRate(s.amount, s.per, s.burst)
		s.burst = s.assured.burst
		s.reported = newRate(s.amount, s.per, mulDiv(s.burst, trustedBursts, 1))
	}
	if more := bound(s.spec.Borrow, s.amount); !s.hard && more != noBound && s.amount+more > 0 {
		s.ceiling = newRate(s.amount+more, s.per, max(1, mulDiv(s.burst, s.amount+more, max(1, s.amount))))
	}
	amounts := parts(s.amount, len(s.kids), func(i int) (int64, int64) {
		kid := s.kids[i]
		if kid.spec.Nominal != coordinator.ByWeight { // in the parent's unit of time
			return mulDiv(kid.spec.Nominal, int64(s.per), int64(kid.per)), 0
		}
		return coordinator.ByWeight, kid.weight
	})
	bursts := parts(s.burst, len(s.kids), func(i int) (int64, int64) {
		kid := s.kids[i]
		switch {
		case kid.spec.Burst > 0:
			return kid.spec.Burst, 0
		case kid.spec.Nominal != coordinator.ByWeight:
			return kid.spec.Nominal, 0
		}
		return coordinator.ByWeight, kid.weight
	})
	for i, kid := range s.kids {
		kid.amount, kid.burst = amounts[i], max(1, bursts[i])
		if kid.spec.Nominal != coordinator.ByWeight {
			kid.amount = kid.spec.Nominal
		}
	}
}

// level returns how much may pass by its assured rate; 0 while it is in debt.
func (s *shaper) level(now int64) int64 {
	if s.amount == 0 {
		return 0
	}
	return s.assured.remaining(now)
}

// check returns which of the rates from s up serves the cost, or, if none does, when it may be
// asked again (forever: never), and behind which of them it waits; own is when its own serves
// it, where it waits for another's.
func (s *shaper) check(now, cost int64) (by *shaper, retry, own int64, at, behind *shaper) {
	if wait, at := s.capped(now, cost); wait > 0 {
		return nil, wait, s.ownAfter(now, cost), at, at
	}
	wait, own, behind := forever, forever, s
	if s.amount > 0 {
		ok, after := s.assured.check(now, min(cost, s.burst))
		if ok {
			return s, 0, forever, nil, nil
		}
		wait, own = after, after
	}
	if s.hard {
		return nil, wait, forever, s, s
	}
	// Beyond its own it takes of its parent what no other node is assured of; a parent that
	// has not enough asks its own. It waits for these also where its own is back before: what
	// is given back there may serve it sooner.
	soonest := forever
	for x := s; !x.hard; x = x.up {
		up := x.up
		keep := max(0, up.burst-max(x.burst, cost)) + x.level(now)
		if up.amount > 0 {
			ok, after := up.assured.check(now, min(cost+keep, up.burst))
			if ok {
				return up, 0, forever, nil, nil
			}
			if after < soonest {
				soonest, behind = after, up
			}
		}
	}
	return nil, min(wait, soonest), own, s, behind
}

// ownAfter returns when what is assured to it serves the cost; forever: never.
func (s *shaper) ownAfter(now, cost int64) int64 {
	if s.amount == 0 {
		return forever
	}
	_, after := s.assured.check(now, min(cost, s.burst))
	return after
}

// capped looks at the limits above which nothing passes: ceilings, and rates of those that
// may not borrow.
func (s *shaper) capped(now, cost int64) (wait int64, at *shaper) {
	for x := s; x != nil; x = x.up {
		var ok bool
		after := int64(0)
		switch {
		case x.ceiling.amount > 0:
			ok, after = x.ceiling.check(now, cost)
		case x.hard && x.amount > 0:
			ok, after = x.assured.check(now, cost)
		case x.hard:
			ok, after = false, forever
		default:
			ok = true
		}
		if !ok && after > wait {
			wait, at = after, x
		}
	}
	return wait, at
}

// take charges a cost that was let pass: to the assured rate of the node that serves it and of those above,
// and to every ceiling.
func (s *shaper) take(now, cost int64, by *shaper) {
	serves := false
	for x := s; x != nil; x = x.up {
		serves = serves || x == by
		if serves && x.amount > 0 {
			x.assured.take(now, cost)
		}
		if x.ceiling.amount > 0 {
			x.ceiling.take(now, cost)
		}
	}
}

// owe charges usage that was never admitted. The node that has used it pays.
func (s *shaper) owe(now, cost int64) { s.correct(now, 0, cost, s) }

// correct puts right what was charged for a reservation. What turns out to have been more
// is a debt, of as much as the burst at most: so that nothing is refused for longer than burst / rate,
// whatever usage is reported.
func (s *shaper) correct(now, reserved, actual int64, by *shaper) {
	serves := false
	for x := s; x != nil; x = x.up {
		serves = serves || x == by
		if serves && x.amount > 0 {
			x.assured.correct(now, reserved, actual, x.burst)
		}
		if x.ceiling.amount > 0 {
			x.ceiling.correct(now, reserved, actual, x.ceiling.burst)
		}
	}
}

// forgive takes down a debt of more than the burst to that. Where what passes need not be there (see
// check), such a debt may have been let pass, and is paid; all forgives that, too.
func (s *shaper) forgive(now int64, all bool) {
	if s.hard || all {
		s.assured.forgive(now)
	}
	s.ceiling.forgive(now)
}
