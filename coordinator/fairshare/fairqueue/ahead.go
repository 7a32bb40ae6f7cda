package fairqueue

import "taskbus/coordinator/fairshare/arith"

// Ahead returns how much may at most be dispatched, in units of cost, from now until the item
// at position of a leaf starts (0: the first), if nothing but turns keeps it from it: its
// leaf waits on and is not parked, and whatever serves can serve any item. It holds for any later arrivals:
// every group of the tree is taken to wait without end. Of one priority alone: see [Shares.Every] for what
// others may add. Where a group on
// the leaf's way has weight 0, and a sibling has not, it is not bounded.
//
// Each of the leaf's own items before that one costs cost at most, any other maxCost at most,
// by estimate as well as in the end; no child of any group has more than unsettled calls
// that were dispatched and not yet settled. (0: every estimate is right.) The result is
// what the items cost in the end; the largest number stands for all that is larger.
//
// # Why it holds
//
// Let c be maxCost, K unsettled; i a child with weight w that has the item, F its tag and Q
// the cost of what is dispatched under it before the item. Up to any time s before that,
// its tag is raised by what it dispatches, of which at most K calls count by their
// estimate, and by bills for at most K calls that are open now, each by c at most:
//
//	F(s) ≤ T = F + (Q + 2K·c)/w
//
// A sibling j is dispatched at s only if F_j(s) ≤ F_i(s) ≤ T. Its tag is where it is now,
// less refunds for at most K calls that are open now, and more for what it has dispatched
// since, of which at most K calls count by less than they cost, by c at most. So what it
// dispatches before s costs at most w_j·(T − F_j) + 2K·c, and then comes the one at s:
//
//	W_j ≤ w_j·(T − F_j) + (2K+1)·c,  and 0 where F_j − K·c/w_j > T
//
// All siblings with Q are what is dispatched under the parent before the item, and so on
// up to the root. Beginning to wait, and caps of lag, only raise a tag F_j; i's own is
// raised by the cap at most to where it counts from here. This asks that no debt is
// forgiven: 2K·c must be less than DebtCap.
//
// Taking F_j and F of the same moment is what makes this the bound of start-time fair
// queueing, |W_i/w_i − W_j/w_j| ≤ (K+1)·(c/w_i + c/w_j) between siblings that wait from
// the same moment on (algorithms.md 1.3; its K counts the call that is dispatched last).
func (s *Shares) Ahead(leaf, position int, cost, maxCost, unsettled int64) (service int64, bounded bool) {
	maxCost = max(maxCost, 1)
	open := arith.MulDiv(maxCost, unsettled, 1) // K·c
	twice := arith.Add(open, open)
	service = arith.MulDiv(int64(max(position, 0)), max(cost, 1), 1)
	for at := int32(leaf); at > 0; at = s.groups[at].parent {
		g := &s.groups[at]
		parent := &s.groups[g.parent]
		// T − F, and one unit for what g.rest leaves out.
		until := arith.Add(arith.MulDivUp(arith.Add(service, twice), 1<<shareBits, g.share), 1)
		if until == arith.NoBound {
			service = arith.NoBound
		}
		for j := parent.first; j < parent.end; j++ {
			sibling := &s.groups[j]
			if j == at || g.weight > 0 && sibling.weight == 0 {
				continue
			}
			if g.weight == 0 && sibling.weight > 0 {
				return 0, false
			}
			gap := s.from(sibling) - s.from(g) // of tags: at most 4·timeBound
			if gap > arith.Add(until, arith.MulDivUp(open, 1<<shareBits, sibling.share)) {
				continue
			}
			own := arith.Add(twice, maxCost)
			switch {
			case gap <= until:
				own = arith.Add(own, arith.MulDiv(arith.Add(until, -gap), sibling.share, 1<<shareBits))
			default:
				own -= arith.MulDiv(gap-until, sibling.share, 1<<shareBits)
			}
			service = arith.Add(service, max(own, 0))
		}
	}
	return service, true
}

// from returns the tag that the group's next dispatch counts from.
func (s *Shares) from(g *group) int64 {
	return max(s.start(g), *s.time(g)-g.span(s.LagCap))
}
