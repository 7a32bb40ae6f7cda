package quotas

import (
	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
	"taskbus/coordinator/pattern"
)

// The ranges of what is borrowed and lent.
const (
	mostBorrowPercent    = 1000
	mostLendPercent      = 100
	mostSurchargePercent = 100
	mostBorrowPriority   = 100
)

// terms are on what terms a node borrows and lends.
type terms struct {
	coordinator.Borrowing
	// borrow and lend bound its limits that have no bounds of their own (see boundFor).
	borrow, lend entryBound
}

// entryBound is a bound for all limits below an entry, and where it is written; a nil node:
// nowhere.
type entryBound struct {
	coordinator.Bound
	at place
}

// change is one thing that an entry says of its terms; what it does not say is as it is
// above the entry.
type change func(*terms)

// changed is the terms after some changes.
func (t terms) changed(changes []change) terms {
	for _, c := range changes {
		c(&t)
	}
	return t
}

// change notes what a key says, if it is in order.
func noteChange[T any](d *decoder, into *[]change, read func(*T) reader, set func(*terms, T)) reader {
	return func(p place) {
		var v T
		before := len(d.Faults)
		if read(&v)(p); len(d.Faults) == before {
			*into = append(*into, func(t *terms) { set(t, v) })
		}
	}
}

// borrowing reads the section `borrowing` of an entry.
func (d *decoder) borrowing(into *[]change) reader {
	return func(p place) {
		percent := func(most int64) func(*int64) reader {
			return func(v *int64) reader { return d.Whole(v, 0, most) }
		}
		d.Object(p, readers{
			"rule": noteChange(d, into, func(v *coordinator.BorrowRule) reader { return d.OneOf(v, borrowRules...) },
				func(t *terms, v coordinator.BorrowRule) { t.Rule = v }),
			"limit": noteChange(d, into, func(v *entryBound) reader { return d.entryBound(v, mostBorrowPercent) },
				func(t *terms, v entryBound) { t.borrow = v }),
			"priority": noteChange(d, into, func(v *int) reader { return d.Whole(v, 0, mostBorrowPriority) },
				func(t *terms, v int) { t.Priority = v }),
			"global_pool": noteChange(d, into, func(v *bool) reader { *v = true; return d.Bool(v) },
				func(t *terms, v bool) { t.NoGlobalPool = !v }),
			"surcharge_percent": noteChange(d, into, percent(mostSurchargePercent),
				func(t *terms, v int64) { t.SurchargePercent = v }),
			"headroom_percent": noteChange(d, into, percent(100), func(t *terms, v int64) { t.HeadroomPercent = v }),
		})
	}
}

// lending reads the section `lending` of an entry.
func (d *decoder) lending(into *[]change) reader {
	return func(p place) {
		d.Object(p, readers{"limit": noteChange(d, into,
			func(v *entryBound) reader { return d.entryBound(v, mostLendPercent) },
			func(t *terms, v entryBound) { t.lend = v })})
	}
}

// borrowRules are the words of coordinator.BorrowRule.
var borrowRules = []string{"accrued", "group_remaining", "never"}

// percentPattern is a share of the nominal amount.
var percentPattern = pattern.New(`^(0|[1-9][0-9]{0,5})%$`)

const boundRule = "a number, a percentage such as 50%, or none"

// entryBound reads a bound that is for limits of any dimension.
func (d *decoder) entryBound(into *entryBound, most int64) reader {
	return func(p place) {
		into.at = p
		d.boundOf(&into.Bound, coordinator.DimRequests, most)(p)
	}
}

// boundOf reads a bound of a limit of that dimension; percentages up to most.
func (d *decoder) boundOf(into *coordinator.Bound, dim coordinator.Dimension, most int64) reader {
	return func(p place) {
		text := p.Node.Value
		switch {
		case p.Scalar() && text == "none":
			*into = coordinator.Bound{}
		case p.Scalar() && percentPattern.MatchString(text):
			n, ok := yamlconf.ParseWhole(text[:len(text)-1], 0, most)
			if !ok {
				d.Fault(p, "must be a percentage from 0%% to %d%%, not %s", most, text)
				return
			}
			*into = coordinator.Bound{Kind: coordinator.BoundPercent, Value: n}
		case p.Number():
			*into = coordinator.Bound{Kind: coordinator.BoundAmount}
			if dim == coordinator.DimCost {
				d.Decimals(&into.Value, dollarPlaces, 0, maxAmount)(p)
			} else {
				d.Whole(&into.Value, 0, maxAmount)(p)
			}
		default:
			d.Fault(p, "must be %s, not %s", boundRule, p.Found())
		}
	}
}

// bound reads the bound of one limit.
func (d *decoder) bound(into **coordinator.Bound, of bearer, dim coordinator.Dimension, most int64) reader {
	return func(p place) {
		if of == bearsPool {
			d.Fault(p, "a pool has nothing above it to borrow from or to lend to; remove it")
			return
		}
		*into = new(coordinator.Bound)
		d.boundOf(*into, dim, most)(p)
	}
}

// boundFor is what a bound of an entry says of one of its limits. An amount is of tokens,
// which is what FAIR-SHARE counts in: of requests, dollars, seats, or tokens in a minute it
// would say something else each time. But 0 is nothing in every unit.
func boundFor(b coordinator.Bound, kind limitKind, dim coordinator.Dimension) coordinator.Bound {
	tokens := dim == coordinator.DimInputTokens || dim == coordinator.DimOutputTokens || dim == coordinator.DimTotalTokens
	if b.Kind == coordinator.BoundAmount && b.Value > 0 && !(tokens && kind == kindBudget) {
		return coordinator.Bound{}
	}
	return b
}

// entryBounds are the numbers of tokens that entries give as bounds, and whether they bound any
// limit, by where they are written. The zero value is usable.
type entryBounds struct {
	all   []entryBound
	bound map[*yaml.Node]bool
}

// met notes that an entry's bound concerns a limit; bounds reports whether it bounds that.
func (e *entryBounds) met(b entryBound, bounds bool) {
	if b.at.Node == nil || b.Kind != coordinator.BoundAmount || b.Value == 0 {
		return
	}
	if e.bound == nil {
		e.bound = make(map[*yaml.Node]bool)
	}
	if _, known := e.bound[b.at.Node]; !known {
		e.all = append(e.all, b)
	}
	e.bound[b.at.Node] = e.bound[b.at.Node] || bounds
}

// check refuses a number that bounds nothing: what it was meant to bound would be without bound.
func (e *entryBounds) check(d *decoder) {
	for _, b := range e.all {
		if !e.bound[b.at.Node] {
			d.Fault(b.at,
				"bounds nothing: a number is of tokens, and there is no budget of tokens that it could bound; write a "+
					"percentage, 0 for never, or borrow and lend at the limit that is meant")
		}
	}
}
