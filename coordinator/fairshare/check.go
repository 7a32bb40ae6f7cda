package fairshare

import (
	"cmp"
	"math"
	"math/bits"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/rates"
	"taskbus/coordinator/fairshare/seats"
)

// Limit is which kind of limit refused something.
type Limit uint8

// The kinds of limits.
const (
	_ Limit = iota // none
	LimitBudget
	LimitRate
	LimitSeats
	LimitProvider // what its provider itself says
	LimitPrice    // money is limited, and its model has no price
	NumLimits     = int(LimitPrice) + 1
)

// String returns the word used in answers and metrics.
func (k Limit) String() string {
	return [...]string{"", "budget", "rate", "seats", "provider", "price"}[k]
}

// Verdict is the answer to a charge.
type Verdict struct {
	OK bool
	// Known: the reservation stands already, or has ended; nothing was charged.
	Known bool
	// Charged: a reservation has been made, and is to be remembered.
	Charged bool
	// Borrowed: some of it comes from shares that others leave unused.
	Borrowed bool
	// Permanent: it will never be admitted, because it is more than some limit allows at
	// all. RetryAt is else when it may be asked again: not before, and not for sure then.
	// Zero: when something is given back.
	Permanent bool
	RetryAt   time.Time
	// Ends, of a budget: what is set aside of it, and not used, would be enough for this. RetryAt is the end
	// of its period all the same, except in the answer to a call (see SoonestEnd).
	Ends bool
	// Node, of that Kind, Dimension and Limit that refused it: of several the one that lasts
	// longest. What is set aside, and seats, are thought to be back within reservation_ttl.
	Node      string
	Kind      coordinator.QuotaKind
	Dimension coordinator.Dimension
	Limit     Limit
	// Behind is the node at which something must come back: charges that are refused with the same one wait
	// for the same. For what may be borrowed it is above Node.
	Behind string
	// OwnAt, of a rate that lacks what others leave it, is when what is its own is back; zero:
	// nothing is.
	OwnAt time.Time
	// Empty: nothing is left of it; else there is less than was asked.
	Empty bool
	// Asked, of a budget, is what its Node was asked for, Left what it has and Lent what others have of it.
	// By names the node below that has borrowed all that it may, so that it gets no more loans; empty:
	// none.
	Asked, Left, Lent int64
	By                string
	// Of is the model that has no price, of LimitPrice.
	Of string
	// Kept: there are seats, and they are kept for groups below their part.
	Kept bool
	// Owns, of a rate that lacks what is above it: what it waits for is its own by then.
	Owns bool

	at, behind int32
	retry, own int64
	kept, owns bool
	soon       int64 // when what is set aside is thought to be back
	share      int32 // of the budget that was asked for so much when a budget refused; -1: none was
	asked      int64
	first      bool // and the charge comes out of that one's share
}

// refuse notes that a limit refuses the charge, until then (forever: for good).
func (v *Verdict) refuse(node int32, d coordinator.Dimension, by Limit, until int64) {
	v.refuseBehind(node, node, d, by, until)
}

// refuseBehind is refuse where it waits for another node than the one that refuses.
func (v *Verdict) refuseBehind(node, behind int32, d coordinator.Dimension, by Limit, until int64) (noted bool) {
	return v.note(node, behind, d, by, until, false)
}

// refuseBudget is refuseBehind of a budget of which so much is missing.
func (l *Ledger) refuseBudget(v *Verdict, b *budget, behind int32, missing, until int64) {
	v.note(b.node, behind, b.dim, LimitBudget, until, until != rates.Forever && missing <= b.reserved.sum())
}

// note notes a refusal that lasts longer than the one that was noted before.
func (v *Verdict) note(node, behind int32, d coordinator.Dimension, by Limit, until int64, ends bool) bool {
	if !v.OK && cmp.Or(cmp.Compare(v.lasts(until, ends), v.lasts(v.retry, v.Ends)), cmp.Compare(until, v.retry)) <= 0 {
		return false
	}
	v.OK, v.at, v.Dimension, v.Limit, v.retry, v.Ends = false, node, d, by, until, ends
	v.behind, v.own, v.kept, v.owns, v.share = behind, rates.Forever, false, false, -1
	return true
}

// lasts is until when a refusal is thought to last. Seats, and what is set aside of a budget, come back when
// something ends; of both, nothing at all is known of the seats.
func (v *Verdict) lasts(until int64, ends bool) int64 {
	switch {
	case until == unknown:
		return v.soon
	case ends:
		return min(until, v.soon-1)
	}
	return until
}

// unknown is the time of a refusal that ends when something is given back, which cannot be predicted.
const unknown int64 = math.MaxInt64 - 1

// rateUse is one rate that a reservation was charged to, and which of those from it up serves; nil:
// none does, and it is a debt.
type rateUse struct {
	leaf, by *rates.Shaper
	dim      coordinator.Dimension
}

// turn is what a walk along one chain has met: the nearest rates and seats are those that
// are asked; they ask those above.
type turn struct {
	rated uint8
	sat   bool
}

// walk begins another walk along a path: walks distinguishes it from the one before.
func (l *Ledger) walk() { l.walks++ }

// first reports whether a budget is the first of its family in this walk: a charge comes out of
// its share. (Between it and its root there may be budgets of other families.)
func (l *Ledger) first(b *budget) bool {
	if b.family.walked == l.walks {
		return false
	}
	b.family.walked = l.walks
	return true
}

// check looks whether all nodes of the path have room for the charge. What must be borrowed
// for it is borrowed (l.loans) whatever the answer: the caller undoes it. Rates that serve
// it are appended to uses.
func (l *Ledger) check(p *Path, c *Charge, uses []rateUse) (Verdict, []rateUse) {
	v := Verdict{OK: true, soon: l.soon()}
	asked := dimensionsOf(&c.Amounts)
	var t turn
	if n, free := l.unpriced(p, c); free && l.Quotas().Unpriced == coordinator.UnpricedRefuse {
		v.refuse(n, coordinator.DimCost, LimitPrice, rates.Forever)
		v.Of = c.ModelName()
	}
	l.walk()
	l.found = l.found[:0]
	for _, n := range p.Nodes() {
		nd := &l.nodes[n]
		if until := nd.health.Blocked(); until > l.now {
			v.refuse(n, coordinator.DimRequests, LimitProvider, until)
		}
		for m := nd.limited & asked; m != 0; m &= m - 1 {
			d := coordinator.Dimension(bits.TrailingZeros8(m))
			amount := c.Amounts[d]
			if b := nd.budgets[d]; b != nil {
				first := b.family.walked != l.walks
				if l.checkBudget(&v, b, amount, c.NoBorrowing); !v.OK && v.Limit == LimitBudget && v.share < 0 {
					v.share, v.asked, v.first = n, amount, first
				}
			}
			if s := nd.rates[d]; s != nil && t.rated&(1<<d) == 0 {
				t.rated |= 1 << d
				uses = append(uses, l.checkRate(&v, s, d, amount))
			}
		}
		if s := nd.seats; s != nil && !t.sat && c.Amounts[coordinator.DimConcurrency] > 0 {
			t.sat = true
			l.checkSeats(&v, s, c.Amounts[coordinator.DimConcurrency])
		}
		if nd.parent < 0 {
			t = turn{}
		}
	}
	return v, uses
}

// unpriced reports whether a charge is for a model without a price although money is limited on its
// path, and at which node first.
func (l *Ledger) unpriced(p *Path, c *Charge) (n int32, is bool) {
	if !l.Unpriced(c) {
		return 0, false
	}
	for _, n := range p.Nodes() {
		if l.nodes[n].limited&(1<<coordinator.DimCost) != 0 {
			return n, true
		}
	}
	return 0, false
}

// checkBudget looks at one budget of the path.
func (l *Ledger) checkBudget(v *Verdict, b *budget, amount int64, noBorrowing bool) {
	if l.first(b) {
		b.family.lacking = 0
		if lacking := amount - b.room(); lacking > 0 && !l.checkLacking(v, b, amount, lacking, noBorrowing) {
			b.family.lacking = lacking
			return // what is missing may be borrowed before the period ends
		}
	}
	// What its share lacks may be lent to those above it, too: that is no other refusal.
	comes := int64(0)
	if b.up != nil {
		comes = min(b.family.lacking, max(0, b.borrowMax-b.borrowedIn))
	}
	if amount-comes > b.left() {
		l.refuseBudget(v, b, b.node, amount-comes-b.left(),
			sooner(amount > b.most && !b.family.repays, b.family.span.End))
	}
}

// checkLacking has a share take what it lacks for an amount of its own agents, and borrows the rest;
// false: it cannot.
func (l *Ledger) checkLacking(v *Verdict, b *budget, amount, lacking int64, noBorrowing bool) (has bool) {
	end := b.family.span.End
	switch lacking = l.drawAgents(b, lacking, mostLenders); {
	case lacking == 0:
		return true
	case noBorrowing || b.rule.Rule == coordinator.BorrowNever:
		l.refuseBudget(v, b, b.node, lacking, sooner(amount > b.itsOwn() && !b.family.repays, end))
	case amount > b.reach: // unless a share has more in this period, because it is repaid
		v.refuse(b.node, b.dim, LimitBudget, sooner(!b.family.repays, end))
	case amount > b.family.left(): // it need not be tried: there is not so much left of all
		l.refuseBudget(v, b.family, b.family.node, amount-b.family.left(), end)
	case b.rule.Rule == coordinator.BorrowGroupRemaining:
		if v.Borrowed, has = true, l.borrowRemaining(b, amount, lacking); !has {
			l.refuseBudget(v, b, b.family.node, lacking, end)
		}
	default:
		v.Borrowed = true
		if until, still := l.stillLacks(b, lacking); still {
			l.refuseBudget(v, b, b.family.node, lacking, until)
			return false
		}
		if until, is := l.tooLittle(b, lacking); is {
			l.refuseBudget(v, b, b.family.node, lacking, until)
			return false
		}
		if left := l.borrow(b, lacking, mostLenders); left > 0 {
			l.found = append(l.found, finding{b, known{had: lacking - left, at: l.now, ripens: l.ripens,
				given: b.family.given, start: b.family.span.Start}})
			l.refuseBudget(v, b, b.family.node, left, l.accrues(b, left))
			return false
		}
		has = true
	}
	return has
}

// known is what a share could borrow at some moment in some period, and when any other would have more for
// it; given counts what had been given back in its family.
type known struct{ had, at, ripens, given, start int64 }

// finding is what a check has found out of a share that could not borrow enough or, where nothing is known of that, of
// a family: that it is to be reckoned up.
type finding struct {
	of *budget
	known
}

// keep keeps what the check at hand has found out, so that refusals after it cost less, and end when those say that
// were found so. A mere question must not: a history with it would differ from one without.
func (l *Ledger) keep() {
	for _, x := range l.found {
		if x.at == 0 {
			x.of.reckonUpAt(l.now)
		} else {
			x.of.knew = x.known
		}
	}
}

// stillLacks reports, without asking the other shares, that a share cannot borrow so much yet, and until
// when: all that it could have besides what it found when it was refused last has been given back since, or
// has accrued, to each of the family perhaps one more than its part. So it costs little to be refused again
// and again. In a large family all are not asked more often than once in a thousandth of the period, and
// that not for more than 1 ms for each share.
func (l *Ledger) stillLacks(b *budget, lacking int64) (until int64, still bool) {
	f, k := b.family, &b.knew
	if k.at == 0 || k.start != f.span.Start {
		return 0, false
	}
	length := f.span.End - f.span.Start
	accrues := func(x int64) int64 { return arith.MulDivUp(x, length, max(1, f.nominal)) }
	missing := lacking - arith.Add(k.had, f.given-k.given)
	if f.given == k.given && l.now < k.ripens { // no share has more to lend
		until = max(k.ripens, arith.Add(k.at, accrues(missing-f.shares)))
		return min(f.span.End, until), missing > 0
	}
	missing -= arith.Add(arith.MulDivUp(l.now-k.at, f.nominal, length), f.shares)
	switch {
	case missing > 0:
		until = arith.Add(l.now, accrues(missing))
	case f.shares > manyShares:
		until = k.at + min(f.shares*int64(time.Millisecond), length/1000)
	}
	return min(f.span.End, until), until > l.now
}

// checkRate looks at the nearest rate of a chain, and those above it.
func (l *Ledger) checkRate(v *Verdict, s *rates.Shaper, d coordinator.Dimension, amount int64) rateUse {
	by, wait, own, at, behind := s.Check(l.now, amount)
	switch {
	case by != nil:
		v.Borrowed = v.Borrowed || by != s
	case wait == rates.Forever:
		v.refuse(at.Node, d, LimitRate, rates.Forever)
	default:
		if !v.refuseBehind(at.Node, behind.Node, d, LimitRate, l.now+wait) {
			break
		}
		if v.owns = own <= wait && at == behind; !v.owns && own != rates.Forever {
			v.own = l.now + own
		}
	}
	return rateUse{s, by, d}
}

// checkSeats looks at the nearest seats of a chain, and those above them.
func (l *Ledger) checkSeats(v *Verdict, s *seats.Limit, n int64) {
	if n > s.Most {
		v.refuse(s.Node, coordinator.DimConcurrency, LimitSeats, rates.Forever)
	} else if ok, at, behind := s.Check(n); !ok && v.refuseBehind(at.Node, behind.Node, coordinator.DimConcurrency,
		LimitSeats, unknown) {
		v.kept = at != s
	}
}

// accrues returns when so much more may have accrued to the possible lenders, just after it was tried to borrow
// it: not before the first of them has one more, nor before the whole family has so many more (of which
// each may be less than one short). In a family of many there is always a share that soon has one more: so
// not before a millionth of the period.
func (l *Ledger) accrues(b *budget, left int64) int64 {
	f := b.family
	length := f.span.End - f.span.Start
	whole := arith.Add(l.now, arith.MulDivUp(left-f.shares, length, max(1, f.nominal)))
	return min(f.span.End, max(l.ripens, whole, l.now+max(length/1_000_000, int64(time.Millisecond))))
}

func sooner(never bool, at int64) int64 {
	if never {
		return rates.Forever
	}
	return at
}

// finish answers the caller: RetryAt and Node for people.
func (l *Ledger) finish(v *Verdict) Verdict {
	if v.OK {
		return *v
	}
	spec := l.nodes[v.at].spec
	v.Node, v.Kind, v.Borrowed = spec.ID, spec.Kind, false
	v.Behind, v.Kept, v.Owns = l.nodes[v.behind].spec.ID, v.kept, v.owns
	b := l.nodes[v.at].budgets[v.Dimension]
	v.Empty = v.Limit != LimitBudget || b.left() <= 0 || b.room()+b.agentsLeft() <= 0
	if v.Limit == LimitBudget && v.share >= 0 {
		l.lacks(v, b, l.nodes[v.share].budgets[v.Dimension])
	}
	if v.own != rates.Forever {
		v.OwnAt = timeOf(v.own)
	}
	switch v.retry {
	case rates.Forever:
		v.Permanent = true
	case unknown:
	default:
		v.RetryAt = timeOf(v.retry)
	}
	return *v
}

// lacks says how much a budget that refuses has, to which a share turned for what it lacks, or which it is.
func (l *Ledger) lacks(v *Verdict, b, share *budget) {
	v.Asked, v.Left, v.Lent = v.asked, b.left(), b.lentOut
	has := max(0, min(share.left(), share.room()+share.agentsLeft()))
	switch {
	case !v.first:
	case share.borrowMax > 0 && share.borrowMax-share.borrowedIn < v.asked-has:
		v.By, v.Left, v.Lent = l.nodes[share.node].spec.ID, has, share.lentOut
	case b == share:
		v.Left = has
	case v.Left >= v.asked: // there is enough, and others do not leave it yet
		v.Asked -= has
	}
	v.Left = max(0, v.Left)
}

// Check reports whether the charge would be admitted now. It is a question: nothing is charged, and no later answer
// depends on it.
func (l *Ledger) Check(now time.Time, p *Path, c *Charge) Verdict { return l.Ask(now, p, c, false) }

// Ask is Check; keep, for a charge that is to be made: what is found out of a refusal is kept.
func (l *Ledger) Ask(now time.Time, p *Path, c *Charge, keep bool) Verdict {
	l.advance(now.UnixNano())
	asked := *c
	billing.Tidy(&asked.Amounts)
	v, uses := l.check(p, &asked, l.uses[:0])
	if l.uses = uses; keep {
		l.keep()
	}
	l.undo()
	return l.finish(&v)
}

// CheckDebt reports whether a charge that states neither tokens nor money is let pass: not while a budget
// of these on its path is overdrawn, for its statement proves nothing of what it will take.
func (l *Ledger) CheckDebt(now time.Time, p *Path) Verdict {
	l.advance(now.UnixNano())
	v := Verdict{OK: true}
	l.walk()
	for _, n := range p.Nodes() {
		for _, d := range [...]coordinator.Dimension{coordinator.DimInputTokens, coordinator.DimOutputTokens,
			coordinator.DimTotalTokens, coordinator.DimCost} {
			if b := l.nodes[n].budgets[d]; b != nil && (l.first(b) && b.room() < 0 || b.left() < 0) {
				v.refuse(n, d, LimitBudget, b.family.span.End)
			}
		}
	}
	return l.finish(&v)
}

// ServedBy visits the rates that a charge would be served by now: those out of which it comes, each that of
// the nearest node in its dimension, or of one above it that leaves it some; and, as caps, those that must
// let it through besides. Nothing is charged, and none is visited where it would be refused.
func (l *Ledger) ServedBy(now time.Time, c *Charge, visit func(node string, d coordinator.Dimension, cap bool)) {
	l.advance(now.UnixNano())
	p, asked := l.PathOf(c), *c
	billing.Tidy(&asked.Amounts)
	v, uses := l.check(&p, &asked, l.uses[:0])
	l.uses = uses
	if l.undo(); !v.OK {
		return
	}
	for _, u := range uses {
		for s := u.leaf; s != nil; s = s.Up {
			switch {
			case s == u.by:
				visit(s.ID, u.dim, false)
			case s.Hard || s.Ceiling.Amount > 0:
				visit(s.ID, u.dim, true)
			}
		}
	}
}

// Nearer returns, for a charge that the rate of a node would serve by lending (see ServedBy), the node whose own rate
// is asked first, and when one below the lender may serve it instead; zero: never. That does not take from the
// lender what others wait to borrow.
func (l *Ledger) Nearer(now time.Time, c *Charge, lender string, d coordinator.Dimension) (own string, at time.Time) {
	l.advance(now.UnixNano())
	p, asked := l.PathOf(c), c.Amounts
	billing.Tidy(&asked)
	l.uses = l.ratesOf(&p, &asked, l.uses[:0])
	for _, u := range l.uses {
		if u.dim != d || u.leaf.ID == lender {
			continue
		}
		if after := u.leaf.Below(l.now, asked[d], lender); after != rates.Forever {
			return u.leaf.ID, timeOf(l.now + after)
		}
	}
	return lender, time.Time{}
}
