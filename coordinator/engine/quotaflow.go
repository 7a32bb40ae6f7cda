package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// quotaFlow is what has been dispatched and refused of late, for people: nothing is decided
// by it. It counts in windows of flowWindow, and tells of the present one and the one before.
type quotaFlow struct {
	first, since time.Time // of the first dispatch; when the present window began
	all          flowCount
	of           map[string]*flowCount // by group
	// dearest and least are the most and the least that one dispatch was charged.
	dearest, least [2]int64
	// reserved and used are tokens: set aside for tasks that have told what they used, and
	// that.
	reserved, used flowCount
	// refused counts since the start.
	refused QuotaRefusals
}

// QuotaRefusals counts tasks that had to wait, or failed, for want of quota: by
// fairshare.Limit and dimension.
type QuotaRefusals [fairshare.NumLimits][coordinator.NumDimensions]uint64

// flowCount is a sum in the present window and the one before.
type flowCount struct{ now, before int64 }

func (c flowCount) sum() int64 { return c.now + c.before }

const flowWindow = time.Minute

func newQuotaFlow() quotaFlow { return quotaFlow{of: make(map[string]*flowCount)} }

// dispatched counts a dispatch of a group at that cost.
func (f *quotaFlow) dispatched(now time.Time, group string, cost int64) {
	f.roll(now)
	c := f.of[group]
	if c == nil { // groups are those of the configuration
		c = &flowCount{}
		f.of[group] = c
	}
	c.now += cost
	f.all.now += cost
	f.dearest[0] = max(f.dearest[0], cost)
	if f.least[0] == 0 || cost < f.least[0] {
		f.least[0] = cost
	}
}

// settled counts a task that has told what it used.
func (f *quotaFlow) settled(now time.Time, reserved, used *coordinator.Amounts) {
	f.roll(now)
	f.reserved.now += reserved[coordinator.DimTotalTokens]
	f.used.now += used[coordinator.DimTotalTokens]
}

// roll begins the window in which now is.
func (f *quotaFlow) roll(now time.Time) {
	if f.first.IsZero() {
		f.first, f.since = now, now
		return
	}
	passed := now.Sub(f.since) / flowWindow
	if passed <= 0 {
		return
	}
	f.since = f.since.Add(passed * flowWindow)
	next := func(c *flowCount) {
		if *c = (flowCount{before: c.now}); passed > 1 {
			c.before = 0
		}
	}
	for group, c := range f.of { // each by itself
		if next(c); c.before == 0 {
			delete(f.of, group)
		}
	}
	for _, c := range []*flowCount{&f.all, &f.reserved, &f.used} {
		next(c)
	}
	for _, bound := range []*[2]int64{&f.dearest, &f.least} {
		if *bound = [2]int64{0, bound[0]}; passed > 1 {
			bound[1] = 0
		}
	}
}

// pace counts what is dispatched of a class while tasks of it wait, in windows likewise.
type pace struct {
	first, since time.Time // when tasks began to wait; when the present window began
	count        flowCount
}

func (p *pace) add(now time.Time) {
	p.roll(now)
	p.count.now++
}

func (p *pace) roll(now time.Time) {
	if p.first.IsZero() {
		p.first, p.since = now, now
		return
	}
	passed := now.Sub(p.since) / flowWindow
	if passed <= 0 {
		return
	}
	p.since = p.since.Add(passed * flowWindow)
	if p.count = (flowCount{before: p.count.now}); passed > 1 {
		p.count.before = 0
	}
}

// rate is how many are dispatched in a second.
func (p pace) rate(now time.Time) float64 {
	if p.first.IsZero() {
		return 0
	}
	p.roll(now) // of a copy
	span := min(now.Sub(p.since)+flowWindow, now.Sub(p.first))
	return float64(p.count.sum()) / max(span, time.Second).Seconds()
}

// leastSpan is how long a rate is taken over at least: what fills idle slots at once when
// work begins is not what goes out in every second.
const leastSpan = 10 * time.Second

// rate is the cost that is dispatched in a second; 0: nothing was of late.
func (f *quotaFlow) rate(now time.Time) float64 {
	f.roll(now)
	span := now.Sub(f.since) + flowWindow
	if since := now.Sub(f.first); since < span {
		span = since
	}
	return float64(f.all.sum()) / max(span, leastSpan).Seconds()
}

// part is which part of the cost was the group's; 0 where nothing was dispatched.
func (f *quotaFlow) part(group string) float64 {
	c, all := f.of[group], f.all.sum()
	if c == nil || all == 0 {
		return 0
	}
	return float64(c.sum()) / float64(all)
}

// bounds are the least and the most that one dispatch was charged, at least 1.
func (f *quotaFlow) bounds() (least, most int64) {
	least = min(f.least[0], f.least[1])
	if least == 0 {
		least = max(f.least[0], f.least[1])
	}
	return max(least, 1), max(f.dearest[0], f.dearest[1], 1)
}

// dispatched charges a dispatch to its group's turn.
func (q *quotas) dispatched(now time.Time, group string, cost int64) {
	leaf := q.shares.Leaf(group)
	q.shares.Charge(leaf, cost)
	q.flow.dispatched(now, q.shares.Name(leaf), cost)
}
