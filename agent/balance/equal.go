package balance

import (
	"math"
	"time"

	"taskbus/coordinator/hash"
)

// Equal aims at equal drain times: all agents finish what they hold at the same moment.
// It controls how many items it asks for; the interval follows whether there were any.
//
//   - With a picture of the fleet, which every answer brings, it asks for ⌈g·(w − q)⌉: what
//     it lacks of its fair part w. g is 1, and 0.5 from the first claim without an answer
//     on, as the picture is then older than an interval.
//   - Without one, or with one that is older than its time to live, it is blind: it asks
//     for what a window lacks, which begins at 1, grows by 1 each time all of it has been
//     done, and is halved when what it holds takes more than 30 s. Additive increase and
//     multiplicative decrease are what makes agents that see nothing of each other
//     converge to equal parts (Chiu and Jain, 1989).
//   - While its capacity is a guess (warm-up), it asks for no more than either.
//
// It asks for at least one item where it has a slot, as only an answer brings items, and
// the leader's own picture.
//
// A claim that got something halves the interval, one that got nothing doubles it, and
// so, while blind, does one without an answer. An agent with work asks again before it
// has done it all. ±10 % of jitter keep agents apart.
//
// Not for concurrent use.
type Equal struct {
	limits
	seed     uint64
	count    uint64 // of intervals given, for the jitter
	interval time.Duration

	view   View
	at     time.Time // of view; zero: there has been none
	missed bool      // the latest claim has had no answer

	window, taken int // taken since the window was changed or drained
}

// surplus is by which part of its fair part an agent may be above it before it gives
// items back: below that, moving them costs more than waiting for them.
const surplus = 0.2

// NewEqual makes the controller of one agent. id and seed make the jitter: the same give
// the same. It fails as Check does.
func NewEqual(c Config, id string, seed uint64) (*Equal, error) {
	l, err := c.limits()
	if err != nil {
		return nil, err
	}
	return &Equal{limits: l, seed: hash.Of(id, hash.Mix(seed)), interval: l.base, window: 1}, nil
}

// Claim is how many items to ask for now: 0, then nothing is to be asked, to the
// smaller of the free slots and max-claim-items.
func (e *Equal) Claim(now time.Time, l Local) int {
	room := e.room(l.Free)
	if !e.enabled || room == 0 {
		return room
	}
	e.adapt(l)
	want := e.window - l.Pending
	if !e.Blind(now) {
		lack := e.lack(l)
		if l.WarmUp {
			lack = min(lack, want)
		}
		want = lack
	}
	return min(max(want, 1), room)
}

// lack is ⌈g·(w − q)⌉.
func (e *Equal) lack(l Local) int {
	missing := float64(e.view.FairShare - l.Pending)
	if e.missed {
		missing *= 0.5
	}
	return int(math.Ceil(missing))
}

// adapt moves the window of the blind.
func (e *Equal) adapt(l Local) {
	switch {
	case l.drain() > busyDrain:
		e.window, e.taken = max(1, e.window/2), 0
	case l.Pending <= 0:
		// Only a window that was full when it began has shown that it was too small.
		if e.taken >= e.window {
			e.window = min(e.window+1, e.maxItems)
		}
		e.taken = 0
	}
}

// Granted tells the answer to the latest claim: how many items were granted, and the
// fleet as it is with them.
func (e *Equal) Granted(now time.Time, items int, v View) {
	e.view, e.at, e.missed = v, now, false
	e.taken += max(items, 0)
	if items > 0 {
		e.interval = e.bound(e.interval / 2)
	} else {
		e.interval = e.bound(e.interval * 2)
	}
}

// Unanswered tells that the latest claim has had no answer in time.
func (e *Equal) Unanswered(now time.Time) {
	e.missed = true
	if e.Blind(now) {
		e.interval = e.bound(e.interval * 2)
	}
}

// Blind tells that there is no picture of the fleet young enough to go by.
func (e *Equal) Blind(now time.Time) bool { return e.at.IsZero() || now.Sub(e.at) >= e.ttl }

// Interval is how long to wait for the next claim: 200 ms to 10 s.
func (e *Equal) Interval(now time.Time, l Local) time.Duration {
	if !e.enabled {
		return e.base
	}
	d := e.interval
	if l.Pending > 0 && !e.Blind(now) {
		d = min(d, l.drain())
	}
	e.count++
	return e.bound(time.Duration(float64(d) * (0.9 + 0.2*hash.Unit(hash.Mix(e.seed+e.count)))))
}

// Surplus is how many items that have not been begun the agent should give back: what is
// above its fair part, when that is more than 20 % of it. 0 without a picture of the
// fleet in answer to the latest claim, and in warm-up.
func (e *Equal) Surplus(now time.Time, l Local) int {
	if !e.enabled || e.missed || l.WarmUp || e.Blind(now) {
		return 0
	}
	if float64(l.Pending) <= (1+surplus)*float64(e.view.FairShare) {
		return 0
	}
	return l.Pending - max(e.view.FairShare, 0)
}
