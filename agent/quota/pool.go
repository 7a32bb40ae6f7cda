package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxPools bounds the sorts of calls that have leases. Others have a reservation for each call.
const maxPools = 1024

// pools are the leases of a client, by sorts of calls.
type pools struct {
	c  *Client
	mu sync.Mutex
	by map[sort]*pool

	admitted, refused, denied, owed, leases atomic.Uint64
}

func newPools(c *Client) *pools { return &pools{c: c, by: make(map[sort]*pool)} }

// of is the pool of a call. A call that names alternatives, or is of too many sorts, has one for itself.
func (ps *pools) of(c *Call) *pool {
	s := sortOf(c)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.by[s]
	switch {
	case len(c.Alternatives) > 0 || p == nil && len(ps.by) >= maxPools:
		return &pool{c: ps.c, sort: s, changed: make(chan struct{}), alone: true}
	case p == nil:
		p = &pool{c: ps.c, sort: s, changed: make(chan struct{}), alone: ps.c.o.Lease.Calls == 1}
		ps.by[s] = p
	}
	return p
}

// close has all leases admit nothing more.
func (ps *pools) close() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.by {
		p.mu.Lock()
		for _, l := range slices.Clone(p.leases) {
			l.closed = true
			l.settle()
		}
		p.unlock()
	}
}

// pool is the leases of one sort of calls.
type pool struct {
	c     *Client
	sort  sort
	alone bool // every call has a reservation of its own

	mu      sync.Mutex
	leases  []*lease
	changed chan struct{} // closed, and replaced, when waiting may be over
	coming  int64         // calls for which leases are being asked for
	waiting int64         // calls that wait for these
	// singly: until then calls have reservations of their own, for there was no room for a lease.
	singly time.Time
	// usual is the mean of what calls have used of late, if it is known, and size of what was
	// expected of them.
	usual, size   estimate
	knows, knowsS bool
	throttled     time.Time // when the provider has last refused a call
	safe          time.Time // when the next call may pass if all keep their pace (see safely)
	later         []func()  // what is to be done when mu is free
}

func (p *pool) afterwards(f func()) { p.later = append(p.later, f) }

// unlock unlocks mu and does what is to be done then.
func (p *pool) unlock() {
	later := p.later
	p.later = nil
	p.mu.Unlock()
	for _, f := range later {
		f()
	}
}

func (p *pool) drop(l *lease) {
	p.leases = slices.DeleteFunc(p.leases, func(o *lease) bool { return o == l })
}

// learn notes what a call has used.
func (p *pool) learn(u *Usage) {
	p.usual = p.usual.meanWith(estimate{bounded(u.InputTokens), bounded(u.OutputTokens)}, p.knows)
	p.knows = true
}

// expected is what a call takes, as far as it is known.
type expected struct {
	estimate
	inKnown, outKnown bool
}

func (e expected) known() bool { return e.inKnown && e.outKnown }

func (p *pool) expect(c *Call) expected {
	e := expected{p.usual, p.knows, p.knows}
	if c.InputTokens != nil {
		e.in, e.inKnown = bounded(*c.InputTokens), true
	}
	if c.OutputTokens != nil {
		e.out, e.outKnown = bounded(*c.OutputTokens), true
	}
	return e
}

// A call that needs several times as much as usual has a reservation of its own: a lease of that
// size would keep much from others. Below small tokens it does not matter.
const (
	several = 4
	small   = 256
)

// byItself reports whether a call is to have a reservation of its own.
func (p *pool) byItself(now time.Time, e expected) bool {
	large := p.knowsS && e.in+e.out > max(several*(p.size.in+p.size.out), small)
	return p.alone || !e.known() || large || now.Before(p.singly)
}

// admit admits a call, by what is left of a lease if it can.
func (p *pool) admit(ctx context.Context, c *Call) (*Pass, error) {
	for first := true; ; first = false {
		p.mu.Lock()
		now := time.Now()
		e := p.expect(c)
		own := p.byItself(now, e)
		if first && e.known() {
			p.size, p.knowsS = p.size.meanWith(e.estimate, p.knowsS), true
		}
		n := int64(1)
		if !own {
			if pass := p.fromLease(now, e.estimate); pass != nil {
				p.unlock()
				return p.verdict(e.estimate, pass, nil)
			}
			if p.waiting < p.coming {
				if err := p.wait(ctx); err != nil {
					return nil, fmt.Errorf("quota reserve: %w", err)
				}
				continue
			}
			n = int64(p.c.o.Lease.Calls)
			p.coming += n
		}
		p.unlock()
		pass, err := p.reserve(ctx, c, n, e)
		var refused *Refused
		if n > 1 && errors.As(err, &refused) {
			continue // for one alone there may be room
		}
		return p.verdict(e.estimate, pass, err)
	}
}

// fromLease admits a call by a lease that stands, and has the next one reserved before it is used up.
func (p *pool) fromLease(now time.Time, e estimate) *Pass {
	at := slices.IndexFunc(p.leases, func(l *lease) bool { return l.admits(now, e) })
	if at < 0 {
		for _, l := range slices.Clone(p.leases) { // what is too little for the next one is given back
			l.closed = true
			l.settle()
		}
		return nil
	}
	pass := p.leases[at].take(now, e)
	left := p.coming
	for _, l := range p.leases {
		if l.open(now) {
			left += l.calls
		}
	}
	if n := int64(p.c.o.Lease.Calls); 2*left < n && p.c.begin() {
		if silent, wait := p.c.asker.silent(); silent && wait > 0 {
			p.c.end()
			return pass
		}
		p.coming += n
		p.afterwards(func() {
			go func() {
				defer p.c.end()
				p.refill(n, e)
			}()
		})
	}
	return pass
}

// refill reserves the next lease in the background.
func (p *pool) refill(n int64, e estimate) {
	p.mu.Lock()
	each := e.atLeast(p.size)
	p.unlock()
	l, err := p.grant(p.c.ctx, p.sort.call(n, expected{each, true, true}), n, each, p.c.o.Lease.TTL)
	p.arrived(l, n, err)
}

// wait waits for the leases that are being asked for. mu is held, and is not any more.
func (p *pool) wait(ctx context.Context) error {
	p.waiting++
	changed := p.changed
	p.unlock()
	var err error
	select {
	case <-changed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	p.waiting--
	p.unlock()
	return err
}

// arrived notes what came of asking for a lease of n calls.
func (p *pool) arrived(l *lease, n int64, err error) {
	var refused *Refused
	p.mu.Lock()
	p.coming -= n
	if l != nil {
		p.leases = append(p.leases, l)
		if p.c.isClosed() || !l.begun.After(p.throttled) {
			l.closed = true
			l.settle()
		}
	} else if errors.As(err, &refused) {
		p.singly = time.Now().Add(p.c.o.Lease.TTL)
	}
	close(p.changed)
	p.changed = make(chan struct{})
	p.unlock()
}
