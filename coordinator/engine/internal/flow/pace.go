package flow

import "time"

// Pace counts what is dispatched of a class while tasks of it wait, in windows likewise.
type Pace struct {
	span  // since tasks began to wait
	count count
}

// Restart forgets what was dispatched while none waited, which says nothing of how fast they go.
func (p *Pace) Restart(now time.Time) { *p = Pace{span: span{now, now}} }

// Add counts one that is dispatched.
func (p *Pace) Add(now time.Time) {
	p.roll(now)
	p.count.now++
}

func (p *Pace) roll(now time.Time) {
	if passed := p.span.roll(now); passed > 0 {
		p.count.next(passed)
	}
}

// Rate returns how many are dispatched in a second.
func (p Pace) Rate(now time.Time) float64 {
	if p.first.IsZero() {
		return 0
	}
	p.roll(now) // of a copy
	return float64(p.count.sum()) / max(p.length(now), time.Second).Seconds()
}

// count is a sum in the present window and the one before.
type count struct{ now, before int64 }

func (c count) sum() int64 { return c.now + c.before }

// next begins a window of the count, as many as passed after the one before.
func (c *count) next(passed time.Duration) {
	if *c = (count{before: c.now}); passed > 1 {
		c.before = 0
	}
}

const window = time.Minute

// span is the time over which counts are taken: since first, and from since on in the present window.
type span struct{ first, since time.Time }

// roll begins the window in which now is; passed is how many windows ago the one before began, 0: it goes on.
func (s *span) roll(now time.Time) (passed time.Duration) {
	if s.first.IsZero() {
		s.first, s.since = now, now
	}
	passed = max(0, now.Sub(s.since)/window)
	s.since = s.since.Add(passed * window)
	return passed
}

// length returns how long the present window and the one before are, as far as there was anything to count.
func (s *span) length(now time.Time) time.Duration {
	return min(now.Sub(s.since)+window, now.Sub(s.first))
}
