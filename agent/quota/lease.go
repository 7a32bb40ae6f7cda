package quota

import (
	"context"
	"errors"
	"slices"
	"time"
)

// lease is quota that is reserved for several calls, or for one. pool.mu guards it.
//
// It admits calls while it has not been closed, it has calls and tokens left, and its time is not
// over by this process's clock, which is before it is over by the coordinator's. When it admits no
// more and the last of its calls has ended, its reservation is settled at what they have used. It
// is extended while calls run, and while it is in use.
type lease struct {
	p   *pool
	id  string
	ttl time.Duration
	// provider that is charged, with its key.
	provider string
	// begun is when it was asked for.
	begun time.Time

	calls   int64    // left
	left    estimate // tokens left
	running int64
	until   time.Time // it admits until then
	closed  bool      // it admits no more
	ended   bool      // its end has been told
	// free: no quota concerns it, and there is nothing to settle.
	free bool
	// gone: the coordinator has ended the reservation by itself.
	gone bool
	// granter has granted it without a leader, and gets its end; nil: any coordinator does. It is not
	// extended: it admits no longer than its end is waited for.
	granter *granter

	takes, looked int64 // calls admitted; as of the last look
	last          time.Time
	spent         Usage
	spends        bool // something was used
	heard         *Response
	timer         *time.Timer
}

// margin is what is left of a TTL for the way to the coordinator and back, and clocks that differ.
func margin(ttl time.Duration) time.Duration { return ttl / 10 }

// newLease makes a lease of what was granted for n calls, which was asked for at begun.
func (p *pool) newLease(a *Answer, n int64, each estimate, ttl time.Duration, begun time.Time) *lease {
	by := granterOf(a, time.Now())
	if by != nil {
		ttl = min(ttl, unconfirmedFor)
	}
	l := &lease{p: p, granter: by, id: a.ReservationID, provider: a.Provider, ttl: ttl, begun: begun, calls: n,
		left: each.times(n), until: begun.Add(ttl - margin(ttl)), free: a.ExpiresAt.IsZero(), last: begun}
	l.timer = time.AfterFunc(ttl/3, l.look)
	return l
}

// admits reports whether it has room for a call.
func (l *lease) admits(now time.Time, e estimate) bool {
	return l.open(now) && e.fits(l.left)
}

// open reports whether it admits calls.
func (l *lease) open(now time.Time) bool { return !l.closed && l.calls > 0 && now.Before(l.until) }

// take admits a call.
func (l *lease) take(now time.Time, e estimate) *Pass {
	l.calls--
	l.left.in, l.left.out = l.left.in-e.in, l.left.out-e.out
	l.running++
	l.takes++
	l.last = now
	return &Pass{from: l, takes: e, provider: l.provider}
}

func (l *lease) used(e estimate, u *Usage, heard *Response) {
	if u == nil {
		u = new(e.usage())
	}
	l.p.mu.Lock()
	defer l.p.unlock()
	l.spent.add(*u)
	l.spends = true
	// What it used less than expected is there for others; what it used more they lack.
	l.left.in, l.left.out = l.left.in+e.in-bounded(u.InputTokens), l.left.out+e.out-bounded(u.OutputTokens)
	l.p.learn(u)
	l.hear(heard)
	l.over()
}

func (l *lease) unused(e estimate, heard *Response) {
	l.p.mu.Lock()
	defer l.p.unlock()
	l.calls++
	l.left.in, l.left.out = l.left.in+e.in, l.left.out+e.out
	l.hear(heard)
	l.over()
}

// hear keeps what the provider has said, for the settlement. If it wants to be left alone no lease admits
// more: the next call asks the coordinator, which gets the report as soon as possible.
func (l *lease) hear(r *Response) {
	if r == nil || l.heard.throttled() && !r.throttled() {
		return
	}
	l.heard = r
	if r.throttled() {
		l.p.throttled = time.Now()
		for _, other := range slices.Clone(l.p.leases) {
			other.closed = true
			other.settle()
		}
		l.closed = true
	}
}

// over notes the end of a call.
func (l *lease) over() {
	l.running--
	l.settle()
}

// settle tells how the reservation has ended, if it admits no more and nothing runs.
func (l *lease) settle() {
	if l.ended || l.running > 0 || l.open(time.Now()) {
		return
	}
	l.ended, l.closed = true, true
	l.timer.Stop()
	l.p.drop(l)
	switch tell := l.p.c.teller; {
	case l.free:
	case l.spends:
		spent := l.spent
		l.p.afterwards(func() { tell.settle(l.id, l.granter, &spent, l.heard) })
	default:
		l.p.afterwards(func() { tell.release(l.id, l.granter, l.heard) })
	}
}

// look extends the reservation if it is needed, or lets it end.
func (l *lease) look() {
	c := l.p.c
	if !c.begin() {
		return // Close ends it
	}
	defer c.end()
	l.p.mu.Lock()
	now := time.Now()
	busy := l.takes > l.looked && l.open(now)
	switch {
	case l.ended || l.gone:
		l.p.unlock()
		return
	case l.running > 0 && now.Sub(l.last) > c.o.MaxCall:
		l.closed, l.gone = true, true // its end is not reported: it is left to expire
		l.p.drop(l)
		l.p.unlock()
		return
	case l.free || l.granter != nil || !busy && l.running == 0:
		// It is not in use, or cannot be extended: it ends in time.
		if !now.Before(l.until) {
			l.closed = true
			if l.settle(); !l.ended {
				l.timer.Reset(c.o.MaxCall) // of what runs the end may never be told
			}
		} else {
			l.timer.Reset(l.until.Sub(now))
		}
		l.p.unlock()
		return
	}
	l.looked = l.takes
	ttl := l.ttl
	if !l.open(now) { // what runs may run for long
		ttl, l.closed = max(ttl, c.o.TTL), true
	}
	l.p.unlock()
	l.extend(ttl)
}

// extend asks for the same for longer.
func (l *lease) extend(ttl time.Duration) {
	c, begun := l.p.c, time.Now()
	body, err := c.asker.extendBy(l.id, ttl)
	if err == nil {
		_, err = c.asker.ask(c.ctx, opExtend, body, 0)
	}
	l.p.mu.Lock()
	defer l.p.unlock()
	var none *Unavailable
	switch {
	case l.ended || c.ctx.Err() != nil:
	case err == nil:
		l.until = begun.Add(ttl - margin(ttl))
		l.timer.Reset(ttl / 3)
	case errors.Is(err, context.Canceled):
	case errors.As(err, &none): // what it admits until its time is over stays admitted
		l.looked = l.takes - 1
		l.timer.Reset(min(ttl/10, lostPause))
	default: // it has ended; what its calls have used is told all the same
		l.gone, l.closed = true, true
		l.settle()
	}
}
