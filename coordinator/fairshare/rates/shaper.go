package rates

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
)

// Forever is a time that does not come.
const Forever = arith.NoBound

// Shaper is a node's rate in one dimension, after HTB (hierarchical token bucket): what is
// assured to it, and the most that it may have (its ceiling) while others leave theirs.
//
// A node within its assured rate is served. One that is not may take what its parent has left
// beyond the bursts that are assured to its siblings: so a sibling that comes back finds its
// whole burst, and from then on its rate, and a lone one gets all of its parent's rate. A
// request that is larger than the burst passes when the bucket is full, and is paid for
// afterwards; only what is larger than the burst of a hard limit above it never passes.
type Shaper struct {
	Node     int32
	ID       string // of the node
	Up       *Shaper
	kids     []*Shaper
	spec     *coordinator.QuotaLimit
	weight   int64
	Amount   int64 // assured for every Per
	Per      time.Duration
	Burst    int64
	Assured  Bucket // not used while amount is 0: nothing is assured
	Ceiling  Bucket // amount 0: none of its own
	Reported Bucket // what its agents' own reports alone may take (see trust.go)
	Hard     bool   // it may have no more than what is assured to it
}

// New makes the rate of a node below up (nil: there is none); nil where it is a part of nothing.
func New(n int32, spec *coordinator.QuotaNode, q *coordinator.QuotaLimit, up *Shaper) *Shaper {
	s := &Shaper{Node: n, ID: spec.ID, spec: q, weight: spec.Weight, Per: q.Per, Up: up}
	s.Hard = s.Up == nil || spec.Borrowing.Rule == coordinator.BorrowNever || q.Borrow.Kind != coordinator.BoundNone &&
		q.Borrow.Value == 0
	switch {
	case s.Up != nil:
		if q.Nominal == coordinator.ByWeight {
			s.Per = s.Up.Per
		}
		s.Up.kids = append(s.Up.kids, s)
	case q.Nominal == coordinator.ByWeight:
		return nil
	default:
		s.Amount, s.Burst = q.Nominal, q.Burst
	}
	return s
}

// trustedBursts is how many of its bursts the reports of its agents alone may take at once.
const trustedBursts = 10

// Divide gives the children their parts, and begins with full buckets.
func (s *Shaper) Divide() {
	if s.Burst == 0 {
		s.Burst = max(1, s.Amount)
	}
	if s.Amount > 0 {
		s.Assured = NewBucket(s.Amount, s.Per, s.Burst)
		s.Burst = s.Assured.Burst
		s.Reported = NewBucket(s.Amount, s.Per, arith.MulDiv(s.Burst, trustedBursts, 1))
	}
	if more := arith.Bound(s.spec.Borrow, s.Amount); !s.Hard && more != arith.NoBound && s.Amount+more > 0 {
		s.Ceiling = NewBucket(s.Amount+more, s.Per, max(1, arith.MulDiv(s.Burst, s.Amount+more, max(1, s.Amount))))
	}
	amounts := arith.Parts(s.Amount, len(s.kids), func(i int) (int64, int64) {
		kid := s.kids[i]
		if kid.spec.Nominal != coordinator.ByWeight { // in the parent's unit of time
			return arith.MulDiv(kid.spec.Nominal, int64(s.Per), int64(kid.Per)), 0
		}
		return coordinator.ByWeight, kid.weight
	})
	bursts := arith.Parts(s.Burst, len(s.kids), func(i int) (int64, int64) {
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
		kid.Amount, kid.Burst = amounts[i], max(1, bursts[i])
		if kid.spec.Nominal != coordinator.ByWeight {
			kid.Amount = kid.spec.Nominal
		}
	}
}

// Level returns how much may pass by its assured rate; 0 while it is in debt.
func (s *Shaper) Level(now int64) int64 {
	if s.Amount == 0 {
		return 0
	}
	return s.Assured.Remaining(now)
}

// Excess returns how much more there seems to be of it than its provider says. A twentieth of
// the rate is no difference: what is on its way the provider has counted, or has not.
func (s *Shaper) Excess(now, remains int64) int64 {
	if more := s.Level(now) - max(0, remains); more > max(1, s.Amount/20) {
		return more
	}
	return 0
}

// Check returns which of the rates from s up serves the cost, or, if none does, when it may be
// asked again (forever: never), and behind which of them it waits; own is when its own serves
// it, where it waits for another's.
func (s *Shaper) Check(now, cost int64) (by *Shaper, retry, own int64, at, behind *Shaper) {
	if wait, at := s.capped(now, cost); wait > 0 {
		return nil, wait, s.ownAfter(now, cost), at, at
	}
	wait, own, behind := Forever, Forever, s
	if s.Amount > 0 {
		ok, after := s.Assured.Check(now, min(cost, s.Burst))
		if ok {
			return s, 0, Forever, nil, nil
		}
		wait, own = after, after
	}
	if s.Hard {
		return nil, wait, Forever, s, s
	}
	// Beyond its own it takes of its parent what no other node is assured of; a parent that
	// has not enough asks its own. It waits for these also where its own is back before: what
	// is given back there may serve it sooner.
	soonest := Forever
	for x := s; !x.Hard; x = x.Up {
		ok, after := x.borrows(now, cost)
		if ok {
			return x.Up, 0, Forever, nil, nil
		}
		if after < soonest {
			soonest, behind = after, x.Up
		}
	}
	return nil, min(wait, soonest), own, s, behind
}

// borrows reports whether the node above leaves it the cost beyond what is assured there, and if not, after how many
// ns it may (forever: never).
func (s *Shaper) borrows(now, cost int64) (ok bool, after int64) {
	up := s.Up
	if up.Amount == 0 {
		return false, Forever
	}
	keep := max(0, up.Burst-max(s.Burst, cost)) + s.Level(now)
	return up.Assured.Check(now, min(cost+keep, up.Burst))
}

// Below returns after how many ns one of the rates from s up to that one, but without it, may serve the cost, if
// none does now; forever: none may, or that one is not above s.
func (s *Shaper) Below(now, cost int64, id string) int64 {
	soonest := s.ownAfter(now, cost)
	for x := s; x.ID != id; x = x.Up {
		if x.Hard {
			return Forever
		}
		if x.Up.ID != id {
			_, after := x.borrows(now, cost)
			soonest = min(soonest, after)
		}
	}
	return soonest
}

// ownAfter returns when what is assured to it serves the cost; forever: never.
func (s *Shaper) ownAfter(now, cost int64) int64 {
	if s.Amount == 0 {
		return Forever
	}
	_, after := s.Assured.Check(now, min(cost, s.Burst))
	return after
}

// capped looks at the limits above which nothing passes: ceilings, and rates of those that
// may not borrow.
func (s *Shaper) capped(now, cost int64) (wait int64, at *Shaper) {
	for x := s; x != nil; x = x.Up {
		var ok bool
		after := int64(0)
		switch {
		case x.Ceiling.Amount > 0:
			ok, after = x.Ceiling.Check(now, cost)
		case x.Hard && x.Amount > 0:
			ok, after = x.Assured.Check(now, cost)
		case x.Hard:
			ok, after = false, Forever
		default:
			ok = true
		}
		if !ok && after > wait {
			wait, at = after, x
		}
	}
	return wait, at
}

// Take charges a cost that was let pass: to the assured rate of the node that serves it and of those above,
// and to every ceiling.
func (s *Shaper) Take(now, cost int64, by *Shaper) {
	serves := false
	for x := s; x != nil; x = x.Up {
		serves = serves || x == by
		if serves && x.Amount > 0 {
			x.Assured.Take(now, cost)
		}
		if x.Ceiling.Amount > 0 {
			x.Ceiling.Take(now, cost)
		}
	}
}

// Owe charges usage that was never admitted. The node that has used it pays.
func (s *Shaper) Owe(now, cost int64) { s.Correct(now, 0, cost, s) }

// Correct puts right what was charged for a reservation. What turns out to have been more
// is a debt, of as much as the burst at most: so that nothing is refused for longer than burst / rate,
// whatever usage is reported.
func (s *Shaper) Correct(now, reserved, actual int64, by *Shaper) {
	serves := false
	for x := s; x != nil; x = x.Up {
		serves = serves || x == by
		if serves && x.Amount > 0 {
			x.Assured.Correct(now, reserved, actual, x.Burst)
		}
		if x.Ceiling.Amount > 0 {
			x.Ceiling.Correct(now, reserved, actual, x.Ceiling.Burst)
		}
	}
}

// Forgive takes down a debt of more than the burst to that. Where what passes need not be there (see
// check), such a debt may have been let pass, and is paid; all forgives that, too.
func (s *Shaper) Forgive(now int64, all bool) {
	if s.Hard || all {
		s.Assured.Forgive(now)
	}
	s.Ceiling.Forgive(now)
}
