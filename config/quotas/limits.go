package quotas

import (
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// The largest numbers of quotas.yaml: far beyond any budget, and sums of a few thousand of
// them still fit an int64.
const (
	maxAmount = 1_000_000_000_000_000 // of a budget, in the unit of the dimension; micro-USD: a billion dollars
	maxRate   = 1_000_000_000_000     // of a rate, for every period
	maxSeats  = 1_000_000_000
)

// Decimal places of what may be fractional.
const (
	dollarPlaces = 6 // micro-USD
	ratePlaces   = 3
	rpsPlaces    = 6 // of rate_limit_rps
)

const (
	wordByWeight     = "by_weight"
	mostBudgetPeriod = 3650 * yamlconf.Day // seconds
	mostRatePeriod   = yamlconf.Day
)

// limits are what one entry of quotas.yaml says of its own limits.
type limits struct {
	budgets, rates [coordinator.NumDimensions]*ownLimit
	further        [coordinator.NumDimensions][]*ownLimit // budgets for other periods, of members alone
	seats          *ownLimit
}

// ownLimit is a limit as it is written. What depends on what is above it is found out when
// the tree is built.
type ownLimit struct {
	coordinator.QuotaLimit
	// borrow and lend, if given, go before the bounds of the entry.
	borrow, lend *coordinator.Bound
	// asAbove: its period is that of the budget above it, a month if there is none.
	asAbove bool
	at      place
}

// bearer is what has limits.
type bearer uint8

const (
	bearsPool   bearer = iota // neither shares nor borrows
	bearsModel                // does not share
	bearsMember               // a group or an agent
)

// limits reads a mapping of dimensions to limits.
func (d *decoder) limits(into *limits, of bearer) reader {
	return func(p place) {
		known := make(readers, coordinator.NumDimensions)
		for dim := range coordinator.Dimension(coordinator.NumDimensions) {
			known[dim.String()] = func(p place) { d.dimension(into, of, dim, p) }
		}
		d.Object(p, known)
	}
}

// dimension reads the limit of one dimension, or the list of its budget and its rate.
func (d *decoder) dimension(into *limits, of bearer, dim coordinator.Dimension, p place) {
	if p.Node.Kind == yaml.SequenceNode && dim != coordinator.DimConcurrency && len(p.Node.Content) > 0 {
		d.Items(p, "limits", func(item place) { d.limit(into, of, dim, item) })
		return
	}
	d.limit(into, of, dim, p)
}

// writtenLimit is where the parts of a limit stand; a nil node: nowhere.
type writtenLimit struct {
	amount, rate, per, interval, burst place
}

// limit reads one limit into its place.
func (d *decoder) limit(into *limits, of bearer, dim coordinator.Dimension, p place) {
	var w writtenLimit
	l := &ownLimit{at: p}
	known := readers{"amount": w.amount.Here, "borrow": d.bound(&l.borrow, of, dim, mostBorrowPercent),
		"lend": d.bound(&l.lend, of, dim, mostLendPercent)}
	example := "{amount: 20}"
	if dim != coordinator.DimConcurrency {
		example = "{amount: 1000, per: day} or {rate: 5, per: second}"
		known["rate"], known["per"], known["interval_seconds"], known["burst"] = w.rate.Here, w.per.Here, w.interval.Here,
			w.burst.Here
	}
	before := len(d.Faults)
	if dim == coordinator.DimConcurrency && p.Has("rate") {
		d.Fault(p, "is no rate: it says how much may run at one time; write e.g. %s", example)
		return
	}
	if p.Null() || p.Node.Kind == yaml.SequenceNode && len(p.Node.Content) == 0 {
		d.Fault(p, "no limit is given; write e.g. %s, or remove the key", example)
		return
	}
	d.ObjectOf(p, known, func() []string {
		own := slices.Sorted(maps.Keys(known))
		if of == bearsPool { // which has them only to be refused
			own = slices.DeleteFunc(own, func(key string) bool { return key == "borrow" || key == "lend" })
		}
		return own
	})
	slot := &into.budgets[dim]
	switch {
	case p.Node.Kind != yaml.MappingNode: // said already
	case w.amount.Node != nil && w.rate.Node != nil:
		d.Fault(w.rate, "amount makes a budget and rate a rate; write a list of two limits if both are meant")
	case dim == coordinator.DimConcurrency && w.amount.Node != nil:
		d.amount(&l.Nominal, of, dim, w.amount)
		slot = &into.seats
	case w.amount.Node != nil:
		d.budget(l, of, dim, &w)
	case w.rate.Node != nil:
		d.rate(l, of, dim, &w)
		slot = &into.rates[dim]
	default:
		d.Fault(p, "says nothing; write e.g. %s", example)
	}
	if len(d.Faults) > before {
		return
	}
	if first := *slot; first != nil {
		if w.amount.Node != nil && slot != &into.seats && into.hold(l, of, dim) {
			return
		}
		d.Fault(p, "is the second of its kind, after the one in line %d; remove one of the two", first.at.Node.Line)
		return
	}
	*slot = l
}

// hold keeps a budget beside those that there are of the dimension; false: it is for the period of one of
// them, or one of the two is a part by weight.
func (into *limits) hold(l *ownLimit, of bearer, dim coordinator.Dimension) bool {
	for _, other := range append([]*ownLimit{into.budgets[dim]}, into.further[dim]...) {
		if of != bearsMember || other.Period == l.Period || other.Nominal == coordinator.ByWeight ||
			l.Nominal == coordinator.ByWeight {
			return false
		}
	}
	into.further[dim] = append(into.further[dim], l)
	return true
}

// byWeight reports whether by_weight stands there.
func (d *decoder) byWeight(of bearer, p place) bool {
	is := p.Scalar() && p.Node.Value == wordByWeight
	if is && of != bearsMember {
		d.Fault(p, "only groups and agents share by weight; write a number")
	}
	return is
}

// amount reads how much of a dimension: a number, or by_weight.
func (d *decoder) amount(into *int64, of bearer, dim coordinator.Dimension, p place) {
	switch {
	case d.byWeight(of, p):
		*into = coordinator.ByWeight
	case dim == coordinator.DimCost:
		d.Decimals(into, dollarPlaces, 0, maxAmount)(p)
	case dim == coordinator.DimConcurrency:
		d.Whole(into, 0, maxSeats)(p)
	default:
		d.Whole(into, 0, maxAmount)(p)
	}
}

// budget makes a budget of what is written.
func (d *decoder) budget(l *ownLimit, of bearer, dim coordinator.Dimension, w *writtenLimit) {
	d.amount(&l.Nominal, of, dim, w.amount)
	if w.burst.Node != nil {
		d.Fault(w.burst, "belongs to a rate, not to an amount; remove it")
	}
	if d.periodless(l, w, "budget") {
		return
	}
	if w.interval.Node != nil {
		l.Period.Unit = coordinator.PerInterval
		d.Seconds(&l.Period.Interval, 1, mostBudgetPeriod)(w.interval)
		return
	}
	d.OneOf(&l.Period.Unit, budgetPeriods...)(w.per)
}

// rate makes a rate of what is written.
func (d *decoder) rate(l *ownLimit, of bearer, dim coordinator.Dimension, w *writtenLimit) {
	if d.byWeight(of, w.rate) {
		l.Nominal = coordinator.ByWeight
	}
	switch {
	case w.burst.Node == nil:
	case dim == coordinator.DimCost:
		d.Decimals(&l.Burst, dollarPlaces, 1, maxAmount)(w.burst)
	default:
		d.Whole(&l.Burst, 1, maxAmount)(w.burst)
	}
	if d.periodless(l, w, "rate") {
		return
	}
	var per time.Duration
	if w.interval.Node != nil {
		d.Seconds(&per, 1, mostRatePeriod)(w.interval)
	} else {
		var word string
		d.OneOf(&word, ratePeriods...)(w.per)
		per = rateUnits[word]
	}
	if dim == coordinator.DimCost {
		d.Decimals(&l.Nominal, dollarPlaces, 1, maxAmount)(w.rate)
		l.Per = per
		return
	}
	d.every(&l.QuotaLimit, per, ratePlaces, maxRate, w.rate)
}

// every reads a rate that may be fractional and expresses it exactly in whole numbers: 2.5
// per second is 5 for every 2 seconds. Its burst, if none is given, stays that of one period:
// 3.
func (d *decoder) every(l *coordinator.QuotaLimit, per time.Duration, places int, most int64, p place) {
	unit := int64(1)
	for range places {
		unit *= 10
	}
	var n int64
	d.Decimals(&n, places, 1, most*unit)(p)
	common := gcd(n, unit)
	l.Nominal, l.Per = n/common, per*time.Duration(unit/common)
	if l.Burst == 0 && l.Per != per {
		l.Burst = (n + unit - 1) / unit
	}
}

func gcd(a, b int64) int64 {
	for a != 0 {
		a, b = b%a, a
	}
	return b
}

// periodless sees that a limit has a period, or none where it shares one by weight; it
// reports whether there is nothing to read of it.
func (d *decoder) periodless(l *ownLimit, w *writtenLimit, kind string) bool {
	given := w.per
	if given.Node == nil {
		given = w.interval
	}
	switch {
	case l.Nominal == coordinator.ByWeight:
		if given.Node != nil {
			d.Fault(given, "a part by weight is for the period of the %s it is a part of; remove it", kind)
		}
		return true
	case given.Node == nil:
		d.Fault(l.at, "does not say for how long; add per: %s, or interval_seconds",
			strings.Join(map[string][]string{"budget": budgetPeriods, "rate": ratePeriods}[kind], ", "))
		return true
	case w.per.Node != nil && w.interval.Node != nil:
		d.Fault(w.interval, "per says for how long already; remove one of the two")
		return true
	}
	return false
}

// The words for periods, and what they stand for.
var (
	budgetPeriods = []string{"minute", "hour", "day", "week", "month", "year"} // by coordinator.PeriodUnit
	ratePeriods   = []string{"second", "minute", "hour", "day"}
	rateUnits     = map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour,
		"day": 24 * time.Hour}
	// resetIntervals are FAIR-SHARE's words.
	resetIntervals = map[string]coordinator.PeriodUnit{
		"daily": coordinator.PerDay, "weekly": coordinator.PerWeek, "monthly": coordinator.PerMonth,
		"annually": coordinator.PerYear,
	}
)
