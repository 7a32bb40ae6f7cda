package state

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
	at      time.Time
	since   time.Time // ids that were seen last by then are forgotten
	ids     dedupe.Image
	names   []coordinator.AgentID
	waiting map[coordinator.TaskKey]coordinator.Remembered // of tasks that are pending, what a standby should know
	others  []coordinator.Record                           // everything else: first, and small
	leases  []coordinator.Record                           // what agents have: last
}

// Image copies the state. The task ids, which are many, are copied as they change later.
func (s *State) Image(now time.Time) *Image {
	m := &Image{
		at: now, ids: s.Dedupe.Image(), waiting: make(map[coordinator.TaskKey]coordinator.Remembered),
	}
	if s.Policy != nil {
		m.since = now.Add(-s.Policy.Settings.DedupeWindow)
	}
	s.imageOrders(m)
	for _, r := range s.Learner.Export(func(i int) coordinator.AgentID { return s.Fleet.Agents[i].Spec.ID }) {
		m.others = append(m.others, r)
	}
	for _, r := range s.Ejections.Records() {
		m.others = append(m.others, r)
	}
	if !s.Controls.Empty() {
		m.others = append(m.others, s.Controls.Records()...)
	}
	m.others = append(m.others, s.Quotas.Export(m.at)...) // counted by the quotas as they are with the controls
	for _, r := range s.Lanes.Records() {
		m.others = append(m.others, r)
	}
	s.imageLeases(m)
	for _, f := range s.Ends.Failures() {
		m.leases = append(m.leases, &coordinator.Owed{Task: f.Task, Failure: f.Failure})
	}
	s.imageAgents(m)
	s.imageEnds(m)
	m.names = append(m.names, s.Fleet.Names()...)
	if len(m.names) == 0 {
		m.names = make([]coordinator.AgentID, 1) // 0 is no agent
	}
	return m
}

// imageLeases is what agents have, and of which tasks the broker may deliver the message
// again: a standby that folds a lease counts its message until it is settled.
func (s *State) imageLeases(m *Image) {
	doubts := s.Messages.Counts()
	for _, t := range s.Tasks.All {
		switch {
		case t == nil || t.Stage >= Dispatching:
		case t.Attempt > 1:
			m.waiting[t.Key] = s.cameBack(t)
			m.others = append(m.others, &coordinator.EndedBefore{Task: t.Task}) // that agent may report its end yet
		case t.Withdrawn: // and being moved
			m.waiting[t.Key] = coordinator.Remembered{Fate: coordinator.FateWithdrawn, Reason: t.CancelReason}
		case t.From != "": // its lane has it
			m.waiting[t.Key] = coordinator.Remembered{Fate: coordinator.FateLaned}
		}
	}
	s.imageOver(m)
	acked := make(map[unresolved.Ack]bool) // by their leases
	for _, t := range s.Tasks.All {
		if t == nil || t.Stage < Dispatching {
			continue
		}
		m.leases = append(m.leases, t.Assignment(nil))
		inDoubt := doubts[t.Key] > 0
		if inDoubt && t.Stage == Leased {
			doubts[t.Key]--
		}
		if t.Stage == Leased && !t.Unanswered {
			m.leases = append(m.leases, &coordinator.Settled{Key: t.Key, Attempt: t.Attempt, At: t.Settled, Heard: inDoubt})
			acked[unresolved.Ack{Key: t.Key, At: t.Settled}] = !inDoubt
		}
		if !t.Renewed.IsZero() {
			m.leases = append(m.leases, t.renewal())
		}
		if t.Withdrawn || t.Returning {
			m.leases = append(m.leases, t.LeaseChange())
		}
	}
	for ack := range s.Messages.Acks(m.at) {
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

// cameBack is the latest dispatch of a task that waits to be given away again. The agent that had it, if it is known,
// is one of those that were tried.
func (s *State) cameBack(t *Task) (r coordinator.Remembered) {
	r.Attempt = int(dedupe.CapAttempt(t.Attempt - 1))
	if ref := s.lastAgent(t); ref != 0 {
		r.Agent, r.Flags = s.Fleet.Named(ref), uint8(dedupe.WasTried)
	}
	return r
}

// imageOver is of the dispatches that are on their way yet, although their tasks have
// ended or came back: their messages are not acknowledged.
func (s *State) imageOver(m *Image) {
	var over []*Task
	for _, t := range s.Held {
		if t.Over && t.Stage == Dispatching {
			over = append(over, t)
		}
	}
	slices.SortFunc(over, func(a, b *Task) int { return cmp.Compare(a.Arrival, b.Arrival) })
	for _, t := range over {
		m.leases = append(m.leases, t.Assignment(nil), s.imageEnd(m, t))
	}
}

// imageEnd is what ends such a dispatch: what is known of its id.
func (s *State) imageEnd(m *Image, t *Task) *coordinator.Remembered {
	if r := s.Dedupe.Peek(t.Key); r != nil && !r.Fate.IsOpen() {
		return s.Remembered(r, coordinator.Remembered{})
	}
	end := m.waiting[t.Key]
	if end.Attempt == 0 {
		end = coordinator.Remembered{Agent: t.Agent.Spec.ID, Attempt: int(dedupe.CapAttempt(t.Attempt))}
	}
	end.Key, end.ID, end.Content, end.Seen = t.Key, t.Task.ID, t.Task.ContentHash, m.at
	return &end
}

// imageAgents comes last: what leases change of agents is in it already.
func (s *State) imageAgents(m *Image) {
	for i, a := range s.Fleet.Agents {
		if a.Bidding.Calibration.Outcomes() > 0 {
			m.leases = append(m.leases, a.Bidding.Record())
		}
		c := a.Capacity.State(m.at)
		r := &coordinator.AgentBefore{
			Agent: a.Spec.ID, Assigned: a.Assigned, LastAssigned: s.Fleet.Views[i].LastAssigned,
			Items: c.Items, BusySeconds: c.BusySeconds, Samples: c.Samples,
		}
		// One that has left and come again may have tasks of before, and nothing else.
		if len(a.Open) > 0 || *r != (coordinator.AgentBefore{Agent: a.Spec.ID}) {
			m.leases = append(m.leases, r)
		}
	}
}

// imageOrders is what must be known of agents before the tasks that they have.
func (s *State) imageOrders(m *Image) {
	if r := s.Fleet.JoinedRecord(); r != nil {
		m.others = append(m.others, r)
	}
	for _, a := range s.Fleet.Agents {
		if a.Tracked {
			m.others = append(m.others, &coordinator.Tracked{Agent: a.Spec.ID})
		}
		if a.HadConsumer {
			m.others = append(m.others, &coordinator.Consumed{Agent: a.Spec.ID, Ever: true, Told: a.ConsumedTold})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.Fleet.Left)) { // agents that still have tasks
		if s.Fleet.Left[id].Tracked {
			m.others = append(m.others, &coordinator.Tracked{Agent: id})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.Fleet.Orders())) {
		m.others = append(m.others, &coordinator.Ordered{Agent: id, Order: s.Fleet.Orders()[id]})
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
		waiting, waits := m.waiting[r.Key]
		if r.Fate.IsOpen() && r.Attempt == 0 && !waits {
			continue
		}
		if !r.Fate.IsOpen() && !m.ids.Seen(r).After(m.since) {
			continue // how soon the window drops it depends on what is looked up
		}
		one = coordinator.Remembered{
			Key: r.Key, Content: r.Content, Fate: r.Fate, Seen: m.ids.Seen(r),
			Attempt: int(r.Attempt), Flags: uint8(r.Flags),
		}
		if r.IsWithdrawn() {
			one.Reason = m.ids.Reasons[r.Key]
		}
		switch {
		case r.Fate.IsOpen(): // if an agent has it, its lease follows
			one.Fate, one.Agent, one.Reason = waiting.Fate, waiting.Agent, cmp.Or(waiting.Reason, one.Reason)
			one.Attempt, one.Flags = cmp.Or(waiting.Attempt, one.Attempt), one.Flags|waiting.Flags
		case r.Ref != 0:
			one.Agent = m.names[r.Ref]
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

// imageEnds is what a leader that reads the latest results again must know of their tasks.
func (s *State) imageEnds(m *Image) {
	for key, end := range s.Ends.Recent() {
		if m.waiting[key].Attempt > 0 {
			continue // it is there, see imageLeases
		}
		if end.IsYoung(m.at) || s.isForgotten(key) {
			m.others = append(m.others, &coordinator.EndedBefore{Task: end.Task})
		}
	}
}
