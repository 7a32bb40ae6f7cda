package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/dedupe"
	"taskbus/coordinator/engine/internal/unresolved"
)

// Image is the engine's state at one moment as far as it must survive: a copy, which
// may be read by another goroutine while the engine goes on. Folded into a new engine
// it gives one that knows the same.
type Image struct {
	at     time.Time
	ids    dedupe.Image
	names  []coordinator.AgentID
	last   map[coordinator.TaskKey]cameBackAs       // of tasks that wait to be given away again
	held   map[coordinator.TaskKey]coordinator.Fate // of tasks that are, as a standby should know them
	others []coordinator.Record                     // everything else: first, and small
	leases []coordinator.Record                     // what agents have: last
}

// cameBackAs is the latest dispatch of a task that has come back, and the agent that had it.
type cameBackAs struct {
	ref     uint32
	attempt uint16
}

// flags are what forget would note of it: it is of the agents that were tried.
func (c cameBackAs) flags() dedupe.Flags {
	if c.ref == 0 {
		return 0
	}
	return dedupe.WasTried
}

// Image copies the state. The task ids, which are many, are copied as they change later.
func (e *Engine) Image(now time.Time) *Image {
	m := &Image{
		at: now, ids: e.dedupe.Image(),
		last: make(map[coordinator.TaskKey]cameBackAs), held: make(map[coordinator.TaskKey]coordinator.Fate),
	}
	e.imageOrders(m)
	e.imageLearner(m)
	for _, r := range e.ejections.Records() {
		m.others = append(m.others, r)
	}
	if !e.controls.Empty() {
		m.others = append(m.others, e.controls.Records()...)
	}
	m.others = append(m.others, e.quotas.Export(m.at)...) // counted by the quotas as they are with the controls
	for _, r := range e.lanes.Records() {
		m.others = append(m.others, r)
	}
	e.imageLeases(m)
	for _, f := range e.ends.Failures() {
		m.leases = append(m.leases, &coordinator.Owed{Task: f.Task, Failure: f.Failure})
	}
	e.imageAgents(m)
	e.imageEnds(m)
	m.names = append(m.names, e.fleet.Names()...)
	if len(m.names) == 0 {
		m.names = make([]coordinator.AgentID, 1) // 0 is no agent
	}
	return m
}

// imageLeases is what agents have, and of which tasks the broker may deliver the message
// again: whoever folds a lease counts its message until it is settled.
func (e *Engine) imageLeases(m *Image) {
	doubts := e.messages.Counts()
	for _, t := range e.tasks.all {
		if t != nil && t.state < stateDispatching && t.attempt > 1 {
			m.last[t.key] = cameBackAs{e.lastAgent(t), dedupe.CapAttempt(t.attempt - 1)}
			m.others = append(m.others, &coordinator.EndedBefore{Task: t.task}) // that agent may report its end yet
		}
		switch {
		case t == nil || t.state >= stateDispatching || t.attempt > 1:
		case t.withdrawn: // and being moved
			m.held[t.key] = coordinator.FateWithdrawn
			m.ids.Reasons[t.key] = t.cancelReason
		case t.from != "": // its lane has it
			m.held[t.key] = coordinator.FateLaned
		}
	}
	e.imageOver(m)
	acked := make(map[unresolved.Ack]bool) // by their leases
	for _, t := range e.tasks.all {
		if t == nil || t.state < stateDispatching {
			continue
		}
		m.leases = append(m.leases, t.assignment(nil))
		inDoubt := doubts[t.key] > 0
		if inDoubt && t.state == stateLeased {
			doubts[t.key]--
		}
		if t.state == stateLeased && !t.unanswered {
			m.leases = append(m.leases, &coordinator.Settled{Key: t.key, Attempt: t.attempt, At: t.Settled, Heard: inDoubt})
			acked[unresolved.Ack{Key: t.key, At: t.Settled}] = !inDoubt
		}
		if t.withdrawn || t.returning {
			m.leases = append(m.leases, t.leaseChange())
		}
	}
	for ack := range e.messages.Acks(m.at) {
		if !acked[ack] {
			m.others = append(m.others, &coordinator.Settled{Key: ack.Key, At: ack.At, Nowhere: true})
		}
	}
	keys := slices.SortedFunc(maps.Keys(doubts), func(a, b coordinator.TaskKey) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for _, key := range keys {
		if n := doubts[key]; n > 0 {
			m.leases = append(m.leases, &coordinator.Doubted{Key: key, Messages: n})
		}
	}
}

// imageOver is of the dispatches that are on their way yet, although their tasks have
// ended or came back: their messages are not acknowledged.
func (e *Engine) imageOver(m *Image) {
	var over []*openTask
	for _, t := range e.held {
		if t.Over && t.state == stateDispatching {
			over = append(over, t)
		}
	}
	slices.SortFunc(over, func(a, b *openTask) int { return cmp.Compare(a.arrival, b.arrival) })
	for _, t := range over {
		m.leases = append(m.leases, t.assignment(nil), e.imageEnd(m, t))
	}
}

// imageEnd is what ends such a dispatch: what is known of its id.
func (e *Engine) imageEnd(m *Image, t *openTask) *coordinator.Remembered {
	if r := e.dedupe.Peek(t.key); r != nil && !r.Fate.IsOpen() {
		return e.remembered(r)
	}
	last, waits := m.last[t.key]
	flags := last.flags()
	if !waits {
		last = cameBackAs{t.agent.Serial, dedupe.CapAttempt(t.attempt)}
	}
	return &coordinator.Remembered{
		Key: t.key, ID: t.task.ID, Content: t.task.ContentHash, Fate: coordinator.FateForgotten,
		Seen: m.at, Agent: e.fleet.Named(last.ref), Attempt: int(last.attempt), Flags: uint8(flags),
	}
}

// imageAgents comes last: what leases change of agents is in it already.
func (e *Engine) imageAgents(m *Image) {
	for i, a := range e.fleet.Agents {
		if a.bidding.Calibration.Outcomes() > 0 {
			m.leases = append(m.leases, a.bidding.Record())
		}
		c := a.Capacity.State(m.at)
		r := &coordinator.AgentBefore{
			Agent: a.Spec.ID, Assigned: a.Assigned, LastAssigned: e.fleet.Views[i].LastAssigned,
			Items: c.Items, BusySeconds: c.BusySeconds, Samples: c.Samples,
		}
		if *r != (coordinator.AgentBefore{Agent: a.Spec.ID}) {
			m.leases = append(m.leases, r)
		}
	}
}

// imageOrders is what must be known of agents before the tasks that they have.
func (e *Engine) imageOrders(m *Image) {
	if r := e.fleet.JoinedRecord(); r != nil {
		m.others = append(m.others, r)
	}
	for _, a := range e.fleet.Agents {
		if a.Tracked {
			m.others = append(m.others, &coordinator.Tracked{Agent: a.Spec.ID})
		}
		if a.HadConsumer {
			m.others = append(m.others, &coordinator.Consumed{Agent: a.Spec.ID, Ever: true, Told: a.ConsumedTold})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(e.fleet.Left)) { // agents that still have tasks
		if e.fleet.Left[id].Tracked {
			m.others = append(m.others, &coordinator.Tracked{Agent: id})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(e.fleet.Orders())) {
		m.others = append(m.others, &coordinator.Ordered{Agent: id, Order: e.fleet.Orders()[id]})
	}
}

func (e *Engine) imageLearner(m *Image) {
	s := e.learner.Export(func(i int) coordinator.AgentID { return e.fleet.Agents[i].Spec.ID })
	add := func(r coordinator.LearntBefore) { m.others = append(m.others, &r) }
	if s.AsOf.IsZero() {
		return
	}
	add(coordinator.LearntBefore{First: true, AsOf: s.AsOf})
	add(coordinator.LearntBefore{Sums: [6]float64{s.Fleet.Successes, s.Fleet.Outcomes, s.Fleet.Seconds, s.Fleet.Timed}})
	for _, a := range s.Agents {
		add(coordinator.LearntBefore{Agent: a.Agent, Sums: [6]float64{a.Successes, a.Expected, a.Paces, a.Paced, a.Dollars,
			a.Costed}})
	}
	for _, t := range s.Types {
		add(coordinator.LearntBefore{Typed: true, Type: t.Type, Sums: [6]float64{t.Fleet.Successes, t.Fleet.Outcomes,
			t.Fleet.Seconds, t.Fleet.Timed}})
		for _, p := range t.Agents {
			add(coordinator.LearntBefore{
				Typed: true, Type: t.Type, Agent: p.Agent,
				Sums: [6]float64{p.Successes, p.Outcomes, p.Seconds, p.Timed},
			})
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
	for r := range m.ids.Latest() {
		last, waits := m.last[r.Key]
		fate, held := m.held[r.Key]
		if r.Fate.IsOpen() && r.Attempt == 0 && !waits && !held {
			continue
		}
		one = coordinator.Remembered{
			Key: r.Key, Content: r.Content, Fate: r.Fate, Seen: m.ids.Seen(r),
			Attempt: int(r.Attempt), Flags: uint8(r.Flags),
		}
		switch {
		case r.Fate.IsOpen(): // if an agent has it, its lease follows
			one.Fate, one.Agent = coordinator.FateForgotten, m.names[last.ref]
			if waits {
				one.Attempt = int(last.attempt)
				one.Flags |= uint8(last.flags())
			}
			if held {
				one.Fate = fate
			}
		case r.Ref != 0:
			one.Agent = m.names[r.Ref]
		}
		if r.IsWithdrawn() || one.Fate == coordinator.FateWithdrawn {
			one.Reason = m.ids.Reasons[r.Key]
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

// imageEnds is what whoever reads the latest results again is to know of their tasks.
func (e *Engine) imageEnds(m *Image) {
	for key, end := range e.ends.Recent() {
		if _, waits := m.last[key]; waits {
			continue // it is there, see imageLeases
		}
		if end.IsYoung(m.at) || e.isForgotten(key) {
			m.others = append(m.others, &coordinator.EndedBefore{Task: end.Task})
		}
	}
}
