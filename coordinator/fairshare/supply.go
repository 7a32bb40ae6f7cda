package fairshare

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
)

// What others could lend is a number that is kept, so that a refusal asks none of them. A family of
// many shares is reckoned up at some moment; from then on every change of its books is reckoned by
// the levels above it, as of that moment. Within a period nothing but time and such changes makes it
// more, and time no more than what accrues to all of them:
//
//	reckoned <= what may be borrowed now <= reckoned + all shares · (now - then) / length + 1 each
//
// What is asked below the first is there, above the second it is not; in between the family is
// reckoned up anew, which loans nothing and is not done more often than reckonEvery for each share.

// manyShares is from how many shares on a family is not asked through for each refusal.
const manyShares = 64

const reckonEvery = int64(10 * time.Microsecond)

// couldLend returns what others could have of a budget and those below it; below is the sum of the latter.
func (b *budget) couldLend(at, below int64) int64 {
	return max(0, min(b.lendMax-b.lentOut, b.left(), arith.Add(b.lendable(at), below)))
}

// sumBelow sums up what those below it could lend at that moment; nothing is kept.
func (b *budget) sumBelow(at int64) (sum int64) {
	for _, kid := range b.kids {
		sum = arith.Add(sum, kid.couldLend(at, kid.sumBelow(at)))
	}
	return sum
}

// reckonUpAt keeps what each of a family could lend at that moment.
func (f *budget) reckonUpAt(at int64) {
	f.reckoned, f.accruing = at, f.accrues()
	f.reckon(at)
}

// accrues sums up the shares of a budget and those below it to which something accrues.
func (b *budget) accrues() (sum int64) {
	if !b.pool {
		sum = b.share
	}
	for _, kid := range b.kids {
		sum = arith.Add(sum, kid.accrues())
	}
	return sum
}

func (b *budget) reckon(at int64) {
	b.below = 0
	for _, kid := range b.kids {
		kid.reckon(at)
		b.below = arith.Add(b.below, kid.lends)
	}
	b.lends = b.couldLend(at, b.below)
}

// accruedSince returns what may have accrued to all of a family since it was reckoned up, at the most.
func (f *budget) accruedSince(now int64) int64 {
	if now <= f.reckoned {
		return 0
	}
	return arith.Add(f.shares, arith.MulDivUp(now-f.reckoned, f.accruing, f.span.End-f.span.Start))
}

// reckonAgain puts right what the budget could lend after a change of its books. Those above it are
// put right after it.
func (b *budget) reckonAgain() {
	if b.family.reckoned == 0 || b.up == nil {
		return
	}
	was := b.lends
	b.lends = b.couldLend(b.family.reckoned, b.below)
	b.up.below += b.lends - was
}

// reckonUp is reckonAgain for a budget and all above it.
func (b *budget) reckonUp() {
	for ; b.up != nil && b.family.reckoned != 0; b = b.up {
		b.reckonAgain()
	}
}

// borrowable returns all that the share of b could borrow at that moment: what borrow would get of the budgets,
// with the sums that below returns. It takes O(levels), but for these.
func (b *budget) borrowable(at int64, below func(*budget) int64) int64 {
	sum := below(b)
	all, room := sum, arith.NoBound
	for from, up := b, b.up; up != nil; from, up = up, up.up {
		if room = min(room, from.borrowMax-from.borrowedIn); room <= 0 {
			break
		}
		beside := below(up)
		got := beside - from.couldLend(at, sum)
		if sum = beside; !up.pool || !b.rule.NoGlobalPool {
			got = arith.Add(got, up.lendable(at))
		}
		got = min(got, room)
		all, room = arith.Add(all, got), room-got
	}
	return all
}

// borrowableNow is borrowable by the books of this moment. It takes O(shares) and keeps nothing.
func (l *Ledger) borrowableNow(b *budget) int64 {
	return b.borrowable(l.now, func(x *budget) int64 { return x.sumBelow(l.now) })
}

// mayBorrow reports whether a budget that has come to its end may be exceeded now by what others leave: whether
// borrow would get anything from outside it. It takes O(levels), but for lenders that are ripe and have nothing.
func (l *Ledger) mayBorrow(b *budget) bool {
	if b.family.left() <= 0 || b.rule.Rule == coordinator.BorrowNever {
		return false
	}
	for from, up := b, b.up; up != nil && from.borrowedIn < from.borrowMax; from, up = up, up.up {
		switch {
		case b.rule.Rule == coordinator.BorrowGroupRemaining:
			return up.leftToRoot() > 0
		case (!up.pool || !b.rule.NoGlobalPool) && up.lendable(l.now) > 0, l.lendsBelow(up, from):
			return true
		}
	}
	return false
}

// leftToRoot returns the least that the budget and those above it have left.
func (b *budget) leftToRoot() int64 {
	least := b.left()
	for up := b.up; up != nil; up = up.up {
		least = min(least, up.left())
	}
	return least
}

// lendsBelow reports whether a child, but for one, could lend anything. Those that are unripe could not yet.
func (l *Ledger) lendsBelow(b, but *budget) bool {
	lends := func(kid *budget) bool {
		return kid != but && kid.lentOut < kid.lendMax && kid.left() > 0 &&
			(kid.lendable(l.now) > 0 || l.lendsBelow(kid, nil))
	}
	if slices.ContainsFunc(b.ripe.Items, lends) {
		return true
	}
	return b.unripe.Len() > 0 && b.unripe.Items[0].ripeAt <= l.now &&
		slices.ContainsFunc(b.unripe.Items, func(kid *budget) bool { return kid.ripeAt <= l.now && lends(kid) })
}

// tooLittle reports whether a share of a large family cannot borrow so much, and until when it need
// not be asked again.
func (l *Ledger) tooLittle(b *budget, lacking int64) (until int64, is bool) {
	f := b.family
	if f.shares <= manyShares || l.forced {
		return 0, false
	}
	length := f.span.End - f.span.Start
	accruing := f.accruing
	accrues := func(x int64) int64 { return arith.Add(l.now, arith.MulDivUp(x, length, max(1, f.nominal, accruing))) }
	if f.reckoned != 0 {
		has := b.borrowable(f.reckoned, func(x *budget) int64 { return x.below })
		if lacking <= has {
			return 0, false
		}
		until = f.reckoned + min(f.shares*reckonEvery, length/1000)
		if missing := lacking - arith.Add(has, f.accruedSince(l.now)); missing > 0 {
			until = accrues(missing)
		}
		if until > l.now {
			return min(f.span.End, until), true
		}
	}
	l.found = append(l.found, finding{of: f})
	has := l.borrowableNow(b)
	if has == 0 || lacking <= has { // with nothing at all it is not asked again until it may have something: see unripe
		return 0, false
	}
	accruing = f.accrues()
	until = max(accrues(lacking-has-f.shares), l.now+max(length/1_000_000, int64(time.Millisecond)))
	return min(f.span.End, until), true
}
