package ejection

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/breaker"
)

// record returns the state of a breaker. Generations are counted over all sets of breakers that there have been.
func (t *Table) record(p breaker.Pair, s breaker.PairState, known bool) *coordinator.BreakerChanged {
	r := &coordinator.BreakerChanged{
		Agent: t.agents[p.Agent].ID, Capability: p.Capability, Gone: !known,
		Generation: t.begun + t.breakers.Generation(),
	}
	if !known {
		return r
	}
	r.State, r.Cause, r.Faults, r.Opened = uint8(s.State), uint8(s.Cause), s.Faults, s.Opened
	r.ClosedAt, r.Until, r.Since, r.Before = s.ClosedAt, s.Until, t.recorded(s.Since), t.recorded(s.Before)
	r.Probe, r.Probing = s.Probe, s.Probing
	return r
}

// anew returns the record of when the breakers at hand began: what was dispatched before does not count.
func (t *Table) anew() *coordinator.BreakerChanged {
	return &coordinator.BreakerChanged{Gone: true, Generation: t.begun}
}

// Records returns those of all breakers that have something to remember: Fold makes another table the same.
func (t *Table) Records() (all []*coordinator.BreakerChanged) {
	if t.begun > 0 {
		all = append(all, t.anew())
	}
	return append(all, t.states()...)
}

func (t *Table) states() (all []*coordinator.BreakerChanged) {
	if t.breakers == nil {
		return nil
	}
	for _, p := range t.breakers.Pairs() {
		if s, known := t.breakers.Export(p); known {
			all = append(all, t.record(p, s, true))
		}
	}
	return all
}

// Fold takes over a record that is of that time.
func (t *Table) Fold(at time.Time, r *coordinator.BreakerChanged) *Changes {
	t.begin(at)
	t.take(r)
	return &t.changes
}

func (t *Table) take(r *coordinator.BreakerChanged) {
	if r.Agent == "" {
		t.begun = r.Generation
	}
	if t.breakers == nil {
		return
	}
	if r.Agent == "" {
		t.follow(t.breakers.Clear(t.now))
	}
	t.breakers.SetGeneration(t.internal(r.Generation))
	n, known := t.number(r.Agent)
	if !known {
		return
	}
	var s breaker.PairState
	if !r.Gone {
		s = breaker.PairState{
			State: breaker.State(r.State), Cause: breaker.Cause(r.Cause), Faults: r.Faults, Opened: r.Opened,
			ClosedAt: r.ClosedAt, Until: r.Until, Since: t.internal(r.Since), Before: t.internal(r.Before),
			Probe: r.Probe, Probing: r.Probing,
		}
	}
	p := breaker.Pair{Agent: n, Capability: r.Capability}
	t.follow(t.breakers.Import(t.now, p, s))
	t.presence(p)
}

// recorded returns a generation of the breakers at hand as records count them: 0 stays that, it has not begun in any.
func (t *Table) recorded(generation uint64) uint64 {
	if generation == 0 {
		return 0
	}
	return t.begun + generation
}

// internal returns a generation as the breakers at hand count them.
func (t *Table) internal(generation uint64) uint64 {
	if generation < t.begun {
		return 0
	}
	return generation - t.begun
}

// NotAfter sets the time to now, whatever records have said: states that cannot be by then are corrected.
func (t *Table) NotAfter(now time.Time) *Changes {
	t.begin(now)
	if b := t.breakers; b != nil {
		for _, p := range b.Pairs() {
			if s, known := b.Export(p); known {
				t.change(p, func() []breaker.Pair { return b.Import(now, p, s) })
			}
		}
	}
	return &t.changes
}
