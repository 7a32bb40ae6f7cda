package replay

import (
	"fmt"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
)

// Policies makes the policy under which the engine is to decide of the one that was
// recorded, of which Version and Source alone are known. It is called for the first
// policy of a recording, and again for every reload.
type Policies func(recorded *coordinator.Policy) (*coordinator.Policy, error)

// player is an engine that is given a recording.
type player struct {
	engine   *engine.Engine
	policies Policies
	effects  []coordinator.Effect
	records  []coordinator.Record
	folded   time.Time // when the latest of what was folded was written
	leads    bool
}

// play makes an engine as a leader does at the beginning of its term: it is given first,
// the policy, and then the records of the snapshot, which seen is shown.
func (r *Recording) play(first *journal.Input, policies Policies, seen func(coordinator.Record)) (*player, error) {
	p := &player{engine: engine.New(), policies: policies, folded: first.At}
	p.engine.Follow()
	if err := p.apply(first); err != nil {
		return nil, err
	}
	for _, body := range r.state {
		m, err := journal.Decode(body)
		if err != nil {
			return nil, err
		}
		p.folded = m.At
		for _, record := range m.Records {
			p.engine.Fold(m.At, record)
			seen(record)
		}
	}
	return p, nil
}

// apply gives the engine one input. What comes of it is in effects and records until
// the next. The first session is the one in which it leads.
func (p *player) apply(in *journal.Input) error {
	ev := in.Event
	switch e := ev.(type) {
	case coordinator.PolicyChanged:
		policy, err := p.policies(e.Policy)
		if err != nil {
			return fmt.Errorf("take over the configuration %s of %s: %w", e.Policy.Version, in.At.Format(time.RFC3339), err)
		}
		ev = coordinator.PolicyChanged{Policy: policy}
	case coordinator.SessionOpened:
		if !p.leads {
			p.leads = true
			p.engine.Record(true)
			p.engine.Lead(p.folded)
		}
	}
	p.effects = p.engine.Apply(in.At, ev, p.effects[:0])
	p.records = p.engine.Records(p.records[:0])
	return nil
}

// eventName is what people call an event.
func eventName(ev coordinator.Event) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", ev), "coordinator.")
}

// recordName is what people call a record.
func recordName(r coordinator.Record) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", r), "*coordinator.")
}
