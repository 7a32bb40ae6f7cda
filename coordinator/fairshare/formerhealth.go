package fairshare

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// unlisted is the state of pools and models that quotas do not list, by their providers' answers: those
// that they listed before, and those of others' records. A provider that wants no call for an hour is not
// asked sooner because it was out of the file for a moment. They are what a snapshot says of them, at
// most one for each, and are forgotten when they would stand no worse than one of which nothing was
// heard; how they have answered of late is no reason to keep them.
type unlisted []*coordinator.PoolHeard

// keep adds what is known of a node.
func (u *unlisted) keep(now time.Time, r *coordinator.PoolHeard) {
	u.forget(now)
	*u = slices.DeleteFunc(*u, func(x *coordinator.PoolHeard) bool { return x.Node == r.Node })
	if isOver(now, r) {
		return
	}
	one := *r // what was taken off its rates is in their books
	one.Before, one.Taken = true, coordinator.Amounts{}
	if *u = append(*u, &one); len(*u) > maxFormer {
		(*u)[0] = nil
		*u = (*u)[1:]
	}
}

// forget drops what makes no difference any more.
func (u *unlisted) forget(now time.Time) {
	*u = slices.DeleteFunc(*u, func(x *coordinator.PoolHeard) bool { return isOver(now, x) })
}

// resumeHealth gives nodes that are listed again what was heard of them.
func (l *Ledger) resumeHealth() {
	now := timeOf(l.now)
	l.unlisted = slices.DeleteFunc(l.unlisted, func(r *coordinator.PoolHeard) bool {
		n, listed := l.byID[r.Node]
		if listed && !isOver(now, r) {
			l.takeHeard(n, riseSince(now, r))
		}
		return listed
	})
}

// isOver reports whether a record makes no difference any more.
func isOver(now time.Time, r *coordinator.PoolHeard) bool {
	return !r.BlockedUntil.After(now) && !r.RestUntil.After(now) && !r.TakesAfter.After(now) &&
		riseSince(now, r).PerMille == wholeRate
}

// riseSince returns the record with what has been given back since: risePerMille every riseEvery from the cut on.
func riseSince(now time.Time, r *coordinator.PoolHeard) *coordinator.PoolHeard {
	one := *r
	if r.CutAt.IsZero() {
		one.PerMille = wholeRate
		return &one
	}
	rises := int64(max(0, now.Sub(r.CutAt))/riseEvery) - int64(max(0, r.At.Sub(r.CutAt))/riseEvery)
	if one.PerMille += max(0, rises) * risePerMille; one.PerMille >= wholeRate {
		one.PerMille, one.CutAt = wholeRate, time.Time{}
	}
	one.At = now
	return &one
}
