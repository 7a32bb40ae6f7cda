package quotas

import (
	"time"

	"taskbus/coordinator"
)

// fairShareTotal is how FAIR-SHARE writes the budget of a group (3.2.1): its tokens, and how
// often they are reset. Despite the name of the key they need not be for a month.
type fairShareTotal struct{ amount, interval, seconds place }

// fairShareTotal makes a budget of it.
func (d *decoder) fairShareTotal(into *limits, t *fairShareTotal) {
	if t.amount.Node == nil {
		for _, p := range []place{t.interval, t.seconds} {
			if p.Node != nil {
				d.Fault(p, "there is nothing to reset; give total_quota_monthly_tokens, or write the budget into limits")
			}
		}
		return
	}
	before := len(d.Faults)
	l := &ownLimit{at: t.amount}
	d.Whole(&l.Nominal, 0, maxAmount)(t.amount)
	l.Period.Unit = coordinator.PerMonth
	switch {
	case t.interval.Node != nil && t.seconds.Node != nil:
		d.Fault(t.seconds, "reset_interval says how often already; remove one of the two")
	case t.interval.Node != nil:
		var word string
		d.OneOf(&word, "daily", "weekly", "monthly", "annually")(t.interval)
		l.Period.Unit = resetIntervals[word]
	case t.seconds.Node != nil:
		l.Period.Unit = coordinator.PerInterval
		d.Seconds(&l.Period.Interval, 1, mostBudgetPeriod)(t.seconds)
	}
	if len(d.Faults) == before {
		d.onlyOnce(&into.budgets[coordinator.DimTotalTokens], l, "limits.total_tokens has an amount")
	}
}

// fairShareAgent is how FAIR-SHARE writes the limits of an agent (3.2.1).
type fairShareAgent struct{ quota, rps, burst place }

// fairShareAgent makes limits of it: an initial_quota of 0 is the weight's part of the
// group's, rate_limit_rps a rate beyond which nothing is borrowed.
func (d *decoder) fairShareAgent(into *limits, a *fairShareAgent) {
	if a.quota.Node != nil {
		l := &ownLimit{at: a.quota, asAbove: true}
		before := len(d.Faults)
		d.Whole(&l.Nominal, 0, maxAmount)(a.quota)
		if len(d.Faults) == before && l.Nominal > 0 {
			d.onlyOnce(&into.budgets[coordinator.DimTotalTokens], l, "limits.total_tokens has an amount")
		}
	}
	if a.rps.Node == nil {
		if a.burst.Node != nil {
			d.Fault(a.burst, "is the burst of a rate that is not given; add rate_limit_rps")
		}
		return
	}
	l := &ownLimit{at: a.rps, borrow: &coordinator.Bound{Kind: coordinator.BoundAmount}}
	before := len(d.Faults)
	if a.burst.Node != nil {
		d.Whole(&l.Burst, 1, maxAmount)(a.burst)
	}
	d.every(&l.QuotaLimit, time.Second, rpsPlaces, maxRate/1000, a.rps)
	if len(d.Faults) == before {
		d.onlyOnce(&into.rates[coordinator.DimRequests], l, "limits.requests has a rate")
	}
}

// onlyOnce takes a limit over unless there is one of its kind already.
func (d *decoder) onlyOnce(slot **ownLimit, l *ownLimit, there string) {
	if *slot != nil {
		d.Fault(l.at, "%s as well; remove one of the two", there)
		return
	}
	*slot = l
}
