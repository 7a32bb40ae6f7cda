package flow

import (
	"time"

	"taskbus/coordinator"
)

// Flow is what has been dispatched of late.
type Flow struct {
	span // since the first dispatch
	all  count
	of   map[string]*count // by group
	// dearest and least are the most and the least that one dispatch was charged.
	dearest, least [2]int64
	// reserved and used are tokens of tasks with reported usage: set aside, and used.
	reserved, used count
}

// New returns a Flow of which nothing was dispatched.
func New() Flow { return Flow{of: make(map[string]*count)} }

// Dispatched counts a dispatch of a group at that cost.
func (f *Flow) Dispatched(now time.Time, group string, cost int64) {
	f.roll(now)
	c := f.of[group]
	if c == nil { // groups are those of the configuration
		c = &count{}
		f.of[group] = c
	}
	c.now += cost
	f.all.now += cost
	f.dearest[0] = max(f.dearest[0], cost)
	if f.least[0] == 0 || cost < f.least[0] {
		f.least[0] = cost
	}
}

// Settled counts a task with reported usage.
func (f *Flow) Settled(now time.Time, reserved, used *coordinator.Amounts) {
	f.roll(now)
	f.reserved.now += reserved[coordinator.DimTotalTokens]
	f.used.now += used[coordinator.DimTotalTokens]
}

// roll begins the window in which now is.
func (f *Flow) roll(now time.Time) {
	passed := f.span.roll(now)
	if passed == 0 {
		return
	}
	for group, c := range f.of { // each by itself
		if c.next(passed); c.before == 0 {
			delete(f.of, group)
		}
	}
	for _, c := range []*count{&f.all, &f.reserved, &f.used} {
		c.next(passed)
	}
	for _, bound := range []*[2]int64{&f.dearest, &f.least} {
		if *bound = [2]int64{0, bound[0]}; passed > 1 {
			bound[1] = 0
		}
	}
}

// leastSpan is how long a rate is taken over at least: what fills idle slots at once when
// work begins is not what goes out in every second.
const leastSpan = 10 * time.Second

// At returns the Flow as it is at that moment, for readers.
func (f *Flow) At(now time.Time) Flow {
	at := *f
	if at.span.roll(now) > 0 { // the counts are changed, which are shared
		at.span, at.of = f.span, make(map[string]*count, len(f.of))
		for group, c := range f.of {
			own := *c
			at.of[group] = &own
		}
		at.roll(now)
	}
	return at
}

// Rate returns the cost that is dispatched in a second; 0: nothing was of late. It is of At(now).
func (f *Flow) Rate(now time.Time) float64 {
	return float64(f.all.sum()) / max(f.length(now), leastSpan).Seconds()
}

// Part returns which part of the cost was the group's; 0 where nothing was dispatched.
func (f *Flow) Part(group string) float64 {
	c, all := f.of[group], f.all.sum()
	if c == nil || all == 0 {
		return 0
	}
	return float64(c.sum()) / float64(all)
}

// Bounds returns the least and the most that one dispatch was charged, at least 1.
func (f *Flow) Bounds() (least, most int64) {
	least = min(f.least[0], f.least[1])
	if least == 0 {
		least = max(f.least[0], f.least[1])
	}
	return max(least, 1), max(f.dearest[0], f.dearest[1], 1)
}

// NotAfter makes the present window begin at now if it began later, by a clock that was ahead.
func (f *Flow) NotAfter(now time.Time) {
	if f.since.After(now) {
		f.first, f.since = now, now
	}
}

// Reported returns the tokens of tasks with reported usage: what was reserved for them, and what they used.
func (f *Flow) Reported() (reserved, used int64) { return f.reserved.sum(), f.used.sum() }
