package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// unconfirmedFor is for how long a coordinator waits for the end of a call that it has admitted
// without a leader; then it charges what was asked for (docs/reference/calls.md, "Without a leader").
const unconfirmedFor = 2 * time.Minute

// confirming is what it takes it besides to tell a leader that it can reach.
const confirming = 10 * time.Second

// maxGranted bounds the unconfirmed reservations that are remembered to be settled by their ids.
const maxGranted = 1 << 16

// granter is the coordinator that has granted a reservation without a leader, and alone knows it
// until a leader is told.
type granter struct {
	url string
	// until when it alone is told: if it lives, and can reach a leader, the leader knows the
	// reservation then, under the same id.
	until time.Time
}

// granterOf is the coordinator that must get the end of what was granted at about now; nil: any may.
func granterOf(a *Answer, now time.Time) *granter {
	if !a.Unconfirmed || a.from == "" {
		return nil
	}
	return &granter{url: a.from, until: now.Add(unconfirmedFor + confirming)}
}

// insistAt sends one report to the coordinator that has granted the call. "Unknown" from that coordinator is not
// final before it has to report to the leader: one address may stand for several coordinators, and one that has
// the report, with its answer lost, has yet to pass it on. If it cannot be reached until then, the others get
// the report.
func (t *teller) insistAt(ctx context.Context, n notice) error {
	doubt := false
	for pause := firstPause; ; pause = min(2*pause, tellPause) {
		_, err := t.asker.attempt(ctx, n.granter.url, n.op, n.body)
		now := time.Now()
		over := !now.Before(n.granter.until)
		var none *Unavailable
		unknown, silent := errors.Is(err, ErrUnknown), errors.As(err, &none)
		switch {
		case err == nil || errors.Is(err, ErrEnded):
			return nil
		case unknown && n.op == opRelease && (doubt || over):
			return nil // it was received, or its grantor has forgotten it
		case silent && over && ctx.Err() == nil:
			return t.insist(ctx, n)
		case !silent && !unknown || over || ctx.Err() != nil || now.Add(pause).After(n.until):
			return err
		}
		doubt = doubt || silent
		if err := sleep(ctx, jitter(pause)); err != nil {
			return err
		}
	}
}

// deliverApart sends a report of something unconfirmed without delaying those for other coordinators,
// unless too many wait already.
func (t *teller) deliverApart(n notice) {
	select {
	case t.apart <- struct{}{}:
		t.done.Go(func() {
			defer func() { <-t.apart }()
			t.deliver(t.ctx, n)
		})
	default:
		t.deliver(t.ctx, n)
	}
}

// granters are the coordinators that have granted the unconfirmed reservations that are settled by their
// ids.
type granters struct {
	mu sync.Mutex
	by map[string]*granter
}

// note remembers which coordinator has granted a reservation, if it is unconfirmed.
func (gs *granters) note(id string, a *Answer, now time.Time) {
	g := granterOf(a, now)
	if g == nil {
		return
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.by == nil {
		gs.by = make(map[string]*granter)
	}
	if len(gs.by) >= maxGranted {
		for other, old := range gs.by {
			if !now.Before(old.until) {
				delete(gs.by, other)
			}
		}
	}
	if len(gs.by) < maxGranted {
		gs.by[id] = g
	}
}

// of is the coordinator that must get the end of a reservation; nil: any may.
func (gs *granters) of(id string, now time.Time) *granter {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.by[id]
	if g != nil && !now.Before(g.until) {
		delete(gs.by, id)
		return nil
	}
	return g
}

func (gs *granters) forget(id string) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	delete(gs.by, id)
}

// tellOf reports, by its id, how a reservation has ended: to its grantor, if that is unconfirmed.
func (c *Client) tellOf(ctx context.Context, op, id string, body []byte) (*Answer, error) {
	g := c.granters.of(id, time.Now())
	if g == nil {
		return c.asker.ask(ctx, op, body, c.o.Patience)
	}
	until := time.Now().Add(c.o.Patience)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		answer, err := c.asker.attempt(ctx, g.url, op, body)
		if cause := ctx.Err(); cause != nil && answer == nil {
			return nil, fmt.Errorf("quota %s: %w", op, cause)
		}
		if err == nil || errors.Is(err, ErrEnded) {
			c.granters.forget(id)
			return answer, err
		}
		var none *Unavailable
		wait := jitter(pause)
		if !errors.As(err, &none) && !errors.Is(err, ErrUnknown) || !time.Now().Add(wait).Before(until) {
			return nil, err
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("quota %s: %w", op, err)
		}
	}
}
