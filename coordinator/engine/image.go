package engine

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
)

// Image is the engine's state at one moment as far as it must survive: a copy, which
// may be read by another goroutine while the engine goes on. Folded into a new engine
// it gives one that knows the same.
type Image struct {
	at      time.Time
	ids     recordBlocks // those of which there are records alone
	epoch   time.Time
	names   []coordinator.AgentID
	reasons map[coordinator.TaskKey]string
	others  []coordinator.Record // everything else: first, and small
	leases  []coordinator.Record // what agents have: last
}

// Image copies the state. The task ids, which are many, are copied as they change later.
func (e *Engine) Image(now time.Time) *Image {
	m := &Image{
		at: now, epoch: e.memory.epoch, names: slices.Clone(e.fleet.ids),
		ids: e.memory.image(), reasons: make(map[coordinator.TaskKey]string, len(e.memory.reasons.list)),
	}
	for _, r := range e.memory.reasons.list {
		m.reasons[r.key] = r.text
	}
	e.imageFleet(m)
	e.imageLearner(m)
	e.imageBreakers(m)
	for _, t := range e.tasks.all {
		if t == nil || t.state != stateLeased && t.state != stateDispatching {
			continue
		}
		m.leases = append(m.leases, t.assignment(t.decided))
		if t.state == stateLeased && !t.unanswered {
			m.leases = append(m.leases, &coordinator.Settled{Key: t.key, Attempt: t.attempt, At: t.settled})
		}
		if t.withdrawn || t.returning {
			m.leases = append(m.leases, t.leaseChange())
		}
	}
	for _, f := range e.owed.fails {
		m.leases = append(m.leases, &coordinator.Owed{Task: f.Task, Failure: f.Failure})
	}
	return m
}

func (e *Engine) imageFleet(m *Image) {
	if len(e.joining.joined) > 0 {
		m.others = append(m.others, e.joinedRecord())
	}
	for i, a := range e.fleet.agents {
		c := a.capacity.State(m.at)
		r := &coordinator.AgentBefore{
			Agent: a.spec.ID, Tracked: a.tracked, Assigned: a.assigned, LastAssigned: e.fleet.views[i].LastAssigned,
			Items: c.Items, BusySeconds: c.BusySeconds, Samples: c.Samples,
		}
		if *r != (coordinator.AgentBefore{Agent: a.spec.ID}) {
			m.others = append(m.others, r)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(e.orders)) {
		m.others = append(m.others, &coordinator.Ordered{Agent: id, Order: e.orders[id]})
	}
}

func (e *Engine) imageLearner(m *Image) {
	s := e.learner.Export(func(i int) coordinator.AgentID { return e.fleet.agents[i].spec.ID })
	add := func(r coordinator.LearntBefore) { m.others = append(m.others, &r) }
	if s.AsOf.IsZero() {
		return
	}
	add(coordinator.LearntBefore{First: true, AsOf: s.AsOf})
	add(coordinator.LearntBefore{Sums: [6]float64{s.Fleet.Successes, s.Fleet.Outcomes, s.Fleet.Seconds, s.Fleet.Timed}})
	for _, a := range s.Agents {
		add(coordinator.LearntBefore{Agent: a.Agent, Sums: [6]float64{a.Successes, a.Expected, a.Paces, a.Paced, a.Dollars, a.Costed}})
	}
	for _, t := range s.Types {
		add(coordinator.LearntBefore{Typed: true, Type: t.Type, Sums: [6]float64{t.Fleet.Successes, t.Fleet.Outcomes, t.Fleet.Seconds, t.Fleet.Timed}})
		for _, p := range t.Agents {
			add(coordinator.LearntBefore{
				Typed: true, Type: t.Type, Agent: p.Agent,
				Sums: [6]float64{p.Successes, p.Outcomes, p.Seconds, p.Timed},
			})
		}
	}
}

func (e *Engine) imageBreakers(m *Image) {
	if e.trust.breakers == nil {
		return
	}
	for _, p := range e.trust.breakers.Pairs() {
		if s, known := e.trust.breakers.Export(p); known {
			m.others = append(m.others, e.breakerChanged(p, s, true))
		}
	}
}

// At is when the image was taken.
func (m *Image) At() time.Time { return m.at }

// Records gives the records of which the image consists, in the order in which they
// are to be folded. The next call of the iteration may use a record again.
func (m *Image) Records(yield func(coordinator.Record) bool) {
	for _, r := range m.others {
		if !yield(r) {
			return
		}
	}
	var one coordinator.Remembered
	for r := range m.ids.latest() {
		if r.fate.IsOpen() && r.attempt == 0 {
			continue
		}
		one = coordinator.Remembered{
			Key: r.key, Content: r.content, Fate: r.fate, Seen: m.epoch.Add(r.seen),
			Attempt: int(r.attempt), Flags: uint8(r.flags),
		}
		switch {
		case r.fate.IsOpen(): // if an agent has it, its lease follows
			one.Fate = coordinator.FateForgotten
		case r.ref != 0:
			one.Agent = m.names[r.ref]
		}
		if r.isWithdrawn() {
			one.Reason = m.reasons[r.key]
		}
		if !yield(&one) {
			return
		}
	}
	for _, r := range m.leases {
		if !yield(r) {
			return
		}
	}
}
