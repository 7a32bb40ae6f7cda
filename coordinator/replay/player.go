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
}

// play makes an engine as a leader does at the beginning of its term: it is given first,
// the policy, and the records of the snapshot, which seen is shown; then it leads.
func (r *Recording) play(first *journal.Input, policies Policies, seen func(coordinator.Record)) (*player, error) {
	p := &player{engine: engine.New(), policies: policies}
	p.engine.Follow()
	if err := p.apply(first); err != nil {
		return nil, err
	}
	for _, body := range r.begins.parts {
		m, err := journal.Decode(body)
		if err != nil {
			return nil, err
		}
		for _, record := range m.Records {
			p.engine.Fold(m.At, record)
			seen(record)
		}
	}
	p.engine.Lead(first.At)
	p.engine.Record(true)
	return p, nil
}

// apply gives the engine one input. What comes of it is in effects and records until
// the next.
func (p *player) apply(in *journal.Input) error {
	ev := in.Event
	if changed, ok := ev.(coordinator.PolicyChanged); ok {
		policy, err := p.policies(changed.Policy)
		if err != nil {
			return fmt.Errorf("take over the configuration %s of %s: %w", changed.Policy.Version, in.At.Format(time.RFC3339),
				err)
		}
		ev = coordinator.PolicyChanged{Policy: policy}
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
