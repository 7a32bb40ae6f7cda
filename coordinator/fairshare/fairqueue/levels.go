package fairqueue

import (
	"math/bits"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
)

// Levels is how many priorities there are: 0 to Levels-1, the highest goes first. They are
// those of coordinator.Priority.
const Levels = coordinator.Priorities

// AllLevels has a bit for each level.
const AllLevels = 1<<Levels - 1

// levelTurns divides dispatches among priorities by their weights: smooth weighted
// round-robin. Strict priority would starve the lower ones, and ageing, which was here before,
// is first come, first served as soon as tasks wait for longer than it takes to age.
//
// A dispatch for which tasks of several levels compete earns each of these its part of a
// dispatch, its weight against the sum of theirs, and goes to the one that has earned most; that
// one pays for it what all of them earned. A level of which nothing competes neither earns nor
// pays: what an agent cannot do is not passed over by it. So nothing is saved up while there is no
// competition, and a part is had where there is some: low tasks that only one agent can do get
// their 1 in 65 of that agent, not of the fleet.
//
// # What is bounded
//
// No level ever has more than 3/2 of a dispatch, or owes more. Let M1, M2 and M3 be the most that
// one, two and three levels together have. The sum of all four is 0 at any time, for what is paid
// is what was earned. A level x that is chosen had the most of those that competed; so what a
// set of levels has after it is at most
//
//	M1 ≤ (M2+1)/2     M2 ≤ max((M3+1)·2/3, (M1+M3+1)/2)     M3 ≤ max(3/4, (M2+1)/2, (M1+2)/3)
//
// (the sum over the set and x was M of one more at most, is 1 less by x paying, and each of the set
// that competed has no more than x had; one that did not compete has what it had). M1 = M3 = 3/2
// and M2 = 2 satisfy all three, whichever levels compete for which dispatch and however weights
// change. A level owes what the other three have: M3 at most.
type levelTurns struct {
	strict  bool
	weights [Levels]int64
	// credit of each in 2^-creditBits of a dispatch; their sum is 0.
	credit [Levels]int64
}

const (
	creditBits = 32
	// maxCredit is the most that a level has or owes: see levelTurns.
	maxCredit = 3 << creditBits / 2
)

// Order takes over how priorities take turns. What each has earned stays.
func (s *Shares) Order(o coordinator.PriorityOrder) {
	s.turns.strict, s.turns.weights = o.Strict, o.Weighted()
	if o.Strict {
		s.turns.credit = [Levels]int64{}
	}
}

// ForgetPriorities has what they have earned begin anew.
func (s *Shares) ForgetPriorities() { s.turns.credit = [Levels]int64{} }

// competing has the levels of a set that there are, the highest of them, and the sum of their weights.
func (t *levelTurns) competing(waiting uint8) (levels uint8, top int, sum int64) {
	levels = waiting & (1<<Levels - 1)
	for m := levels; m != 0; m &= m - 1 {
		sum += t.weights[bits.TrailingZeros8(m)]
	}
	return levels, bits.Len8(levels) - 1, sum
}

// earns returns what a level is given of one dispatch.
func (t *levelTurns) earns(level int, sum int64) int64 { return t.weights[level] << creditBits / sum }

// turn is [Shares.Turn].
func (t *levelTurns) turn(waiting uint8) int {
	levels, top, sum := t.competing(waiting)
	if top < 0 || levels == 1<<top || t.strict {
		return top
	}
	next, most := top, t.credit[top]+t.earns(top, sum)
	for l := top - 1; l >= 0; l-- {
		if levels>>l&1 == 0 {
			continue
		}
		if has := t.credit[l] + t.earns(l, sum); has > most {
			next, most = l, has
		}
	}
	return next
}

// served is [Shares.Served].
func (t *levelTurns) served(level int, waiting uint8) {
	levels, top, sum := t.competing(waiting | 1<<level)
	if t.strict || levels == 1<<top || t.turn(levels) != level {
		return
	}
	for m := levels; m != 0; m &= m - 1 {
		l := bits.TrailingZeros8(m)
		by := t.earns(l, sum)
		t.credit[l] += by
		t.credit[level] -= by
	}
}

// Turn says which priority goes next, of those that wait: bit l of waiting stands for level l.
// It is the one that has earned most by its weight, of equal ones the highest; in a strict order
// always the highest. -1: nothing waits.
func (s *Shares) Turn(waiting uint8) int { return s.turns.turn(waiting) }

// Served notes that the level was served of those that waited, itself included. A level that
// could not be served at all, by an agent that can do nothing of what waits there, is not among
// them: it has not been passed over. Nor has any of them if it was not the level's turn, which then
// was served because those before it could not be.
func (s *Shares) Served(level int, waiting uint8) { s.turns.served(level, waiting) }

// Within returns of how many dispatches running, for all of which these levels compete, at least n
// are the level's, whatever was before; or that there is no bound: the order is strict, and a
// higher one waits.
//
// Of N dispatches it has at least N·w/S − 3, for it earns N·w/S and begins with 3/2 less than
// nothing at worst and ends with 3/2 at most (see levelTurns). That is more than n−1, and so n, from
// N = ⌊(n+2)·S/w⌋ + 1 on.
func (s *Shares) Within(level int, waiting uint8, n int64) (dispatches int64, bounded bool) {
	levels, top, sum := s.turns.competing(waiting | 1<<level)
	switch {
	case levels == 1<<top, s.turns.strict && level == top:
		return n, true
	case s.turns.strict:
		return 0, false
	}
	return arith.Add(arith.MulDiv(arith.Add(n, 2), sum, s.turns.weights[level]), 1), true
}

// Part is which part, 0 to 1, of the dispatches for which these levels compete is the level's.
func (s *Shares) Part(level int, waiting uint8) float64 {
	_, top, sum := s.turns.competing(waiting | 1<<level)
	switch {
	case !s.turns.strict:
		return float64(s.turns.weights[level]) / float64(sum)
	case level == top:
		return 1
	}
	return 0
}

// Preceding counts what goes before a task of a level, if nothing else comes and any of it can be
// served: waiting returns how many wait at each level, at its own those that go before it. It counts
// to most at most, in O(result).
func (s *Shares) Preceding(level int, waiting [Levels]int, most int) (n int) {
	t := s.turns
	waiting[level]++ // the one that is asked about
	for ; n < most; n++ {
		var levels uint8
		for l, w := range waiting {
			if w > 0 {
				levels |= 1 << l
			}
		}
		next := t.turn(levels)
		if waiting[next]--; next == level && waiting[next] == 0 {
			return n
		}
		t.served(next, levels)
	}
	return n
}

// takeCredit takes over what an image says that levels have earned, if that can be.
func (t *levelTurns) takeCredit(credit [Levels]int64) {
	sum := int64(0)
	for _, c := range credit {
		if c > maxCredit || c < -maxCredit {
			return
		}
		sum += c
	}
	if sum == 0 && !t.strict {
		t.credit = credit
	}
}
