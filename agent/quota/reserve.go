package quota

import (
	"context"
	"errors"
	"time"
)

// reserve reserves for n calls, and admits the first of them.
func (p *pool) reserve(ctx context.Context, c *Call, n int64, e expected) (*Pass, error) {
	ttl := p.c.o.TTL
	each := e
	if n > 1 {
		p.mu.Lock()
		each.estimate, ttl = e.atLeast(p.size), p.c.o.Lease.TTL
		p.unlock()
	}
	asked := p.sort.call(n, each)
	asked.Alternatives = c.Alternatives
	l, err := p.grant(ctx, asked, n, each.estimate, ttl)
	var pass *Pass
	if l != nil {
		p.mu.Lock()
		takes := e.estimate
		if !e.known() { // by the coordinator's word, which also goes for those that follow
			takes = l.left
			if !p.knows {
				p.usual, p.knows = takes, true
			}
		}
		pass = l.take(time.Now(), takes)
		l.closed = n == 1
		p.unlock()
	}
	if n > 1 {
		p.arrived(l, n, err)
	}
	return pass, err
}

// grant asks for a lease of n calls.
func (p *pool) grant(ctx context.Context, asked *Call, n int64, each estimate, ttl time.Duration) (*lease, error) {
	c, patience := p.c, p.c.o.Patience
	if silent, wait := c.asker.silent(); wait > 0 {
		return nil, &Unavailable{Op: opReserve, RetryAfter: wait, Err: errSilent}
	} else if silent {
		patience = 0
	}
	asked.ID, asked.TTL = c.newID(), ttl
	body, err := c.asker.askingOf(opReserve, asked)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	answer, err := c.asker.ask(ctx, opReserve, body, patience)
	if err != nil {
		if mayBeDone(err) {
			c.teller.disown(asked.ID, ttl) // it will not be used
		}
		return nil, err
	}
	if r := answer.Reserved; r != nil && (asked.InputTokens == nil || asked.OutputTokens == nil) {
		each = estimate{r.InputTokens / n, r.OutputTokens / n}
	}
	answer.ReservationID = asked.ID
	c.pools.leases.Add(1)
	return p.newLease(answer, n, each, ttl, begun), nil
}

var errSilent = errors.New("none has a moment ago")

// verdict is what becomes of a call, by what was heard of a reservation for it.
func (p *pool) verdict(e estimate, pass *Pass, err error) (*Pass, error) {
	ps := p.c.pools
	var refused *Refused
	var none *Unavailable
	switch {
	case err == nil:
		ps.admitted.Add(1)
	case errors.As(err, &refused):
		ps.refused.Add(1)
	case errors.As(err, &none):
		if wait, ok := p.atLoss(); !ok {
			ps.denied.Add(1)
			return nil, &Unavailable{Op: none.Op, RetryAfter: max(none.RetryAfter, wait), Err: none.Err}
		}
		ps.owed.Add(1)
		return &Pass{from: debt{p.c.teller, p.sort}, takes: e}, nil
	}
	return pass, err
}

// atLoss reports whether a call passes although no coordinator can be asked; if not, after which wait it
// might.
func (p *pool) atLoss() (wait time.Duration, ok bool) {
	switch loss := p.c.o.lossOf(p.sort.provider, p.sort.model); loss.mode {
	case lossAllow:
		return 0, true
	case lossSafe:
		return p.safely(time.Now(), loss.perMinute)
	default:
		return 0, false
	}
}

// safely lets perMinute calls pass in a minute, one after the other, and those of a second at once:
// GCRA with a burst of that many.
func (p *pool) safely(now time.Time, perMinute int64) (wait time.Duration, ok bool) {
	if perMinute == 0 {
		return time.Minute, false
	}
	p.mu.Lock()
	defer p.unlock()
	each := time.Minute / time.Duration(perMinute)
	next := p.safe
	if next.Before(now) {
		next = now
	}
	if wait = next.Sub(now) - time.Second + each; wait > 0 && next.After(now) {
		return wait, false
	}
	p.safe = next.Add(each)
	return 0, true
}
