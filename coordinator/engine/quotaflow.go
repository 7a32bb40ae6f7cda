package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// quotaFlow is what has been dispatched and refused of late, for views: no decision depends on
// it. It counts in windows of flowWindow, and tells of the present one and the one before.
type quotaFlow struct {
	flowSpan // since the first dispatch
	all      flowCount
	of       map[string]*flowCount // by group
	// dearest and least are the most and the least that one dispatch was charged.
	dearest, least [2]int64
	// reserved and used are tokens of tasks whose usage was reported: set aside, and used.
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

// next begins a window of the count, as many as passed after the one before.
func (c *flowCount) next(passed time.Duration) {
	if *c = (flowCount{before: c.now}); passed > 1 {
		c.before = 0
	}
}

const flowWindow = time.Minute

// flowSpan is the time over which counts are taken: since first, and from since on in the present window.
type flowSpan struct{ first, since time.Time }

// roll begins the window in which now is; passed is how many windows ago the one before began, 0: it goes on.
func (s *flowSpan) roll(now time.Time) (passed time.Duration) {
	if s.first.IsZero() {
		s.first, s.since = now, now
	}
	passed = max(0, now.Sub(s.since)/flowWindow)
	s.since = s.since.Add(passed * flowWindow)
	return passed
}

// length is how long the present window and the one before are, as far as there was anything to count.
func (s *flowSpan) length(now time.Time) time.Duration {
	return min(now.Sub(s.since)+flowWindow, now.Sub(s.first))
}

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

// settled counts a task whose usage was reported.
func (f *quotaFlow) settled(now time.Time, reserved, used *coordinator.Amounts) {
	f.roll(now)
	f.reserved.now += reserved[coordinator.DimTotalTokens]
	f.used.now += used[coordinator.DimTotalTokens]
}

// roll begins the window in which now is.
func (f *quotaFlow) roll(now time.Time) {
	passed := f.flowSpan.roll(now)
	if passed == 0 {
		return
	}
	for group, c := range f.of { // each by itself
		if c.next(passed); c.before == 0 {
			delete(f.of, group)
		}
	}
	for _, c := range []*flowCount{&f.all, &f.reserved, &f.used} {
		c.next(passed)
	}
	for _, bound := range []*[2]int64{&f.dearest, &f.least} {
		if *bound = [2]int64{0, bound[0]}; passed > 1 {
			bound[1] = 0
		}
	}
}

// pace counts what is dispatched of a class while tasks of it wait, in windows likewise.
type pace struct {
	flowSpan // since tasks began to wait
	count    flowCount
}

func (p *pace) add(now time.Time) {
	p.roll(now)
	p.count.now++
}

func (p *pace) roll(now time.Time) {
	if passed := p.flowSpan.roll(now); passed > 0 {
		p.count.next(passed)
	}
}

// rate is how many are dispatched in a second.
func (p pace) rate(now time.Time) float64 {
	if p.first.IsZero() {
		return 0
	}
	p.roll(now) // of a copy
	return float64(p.count.sum()) / max(p.length(now), time.Second).Seconds()
}

// leastSpan is how long a rate is taken over at least: what fills idle slots at once when
// work begins is not what goes out in every second.
const leastSpan = 10 * time.Second

// rate is the cost that is dispatched in a second; 0: nothing was of late.
func (f *quotaFlow) rate(now time.Time) float64 {
	f.roll(now)
	return float64(f.all.sum()) / max(f.length(now), leastSpan).Seconds()
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
