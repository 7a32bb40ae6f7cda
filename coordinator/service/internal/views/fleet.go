package views

import (
	"cmp"
	"math"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// maxBottlenecks is how many agents are named as such; leastSlow how many seconds of
// work one must have before it to be called slow: an idle fleet has no bottleneck.
const (
	maxBottlenecks = 10
	leastSlow      = 1
)

// AgentStats sums a snapshot up. Only agents online count: what an agent has that is gone comes back by
// itself, and its capacity cannot be used.
func AgentStats(snap *coordinator.Snapshot, unread int) view.AgentStats {
	st := view.AgentStats{Agents: make([]view.AgentInfo, len(snap.Agents))}
	st.QueueDepth.Unread = unread
	for _, n := range snap.Pending {
		st.QueueDepth.Waiting += n
	}
	for i := range snap.Agents {
		a := &snap.Agents[i]
		st.Agents[i] = agentInfo(a)
		if a.State == coordinator.AgentOnline {
			st.ActiveAgentCount++
			st.TotalCapacity += st.Agents[i].Capacity
			st.QueueDepth.Agents += a.Capacity.Pending
		}
	}
	st.TotalCapacity = Finite(st.TotalCapacity)
	st.GlobalQueueDepth = st.QueueDepth.Agents + st.QueueDepth.Waiting + st.QueueDepth.Unread
	for i := range st.Agents {
		if snap.Agents[i].State == coordinator.AgentOnline {
			st.Agents[i].LoadFactor = share(float64(st.Agents[i].Pending), float64(st.GlobalQueueDepth))
			st.Agents[i].TargetLoadFactor = share(st.Agents[i].Capacity, st.TotalCapacity)
		}
	}
	st.Swarm = swarm(snap)
	return st
}

func agentInfo(a *coordinator.AgentSnapshot) view.AgentInfo {
	c := &a.Capacity
	health := "" // the health of an absent agent is not known
	if a.State == coordinator.AgentOnline {
		health = c.Health.String()
		if len(fails(a)) > 0 { // the less it does, the less it has before it
			health = view.FailingHealth
		}
	}
	return view.AgentInfo{
		ID: string(a.Spec.ID), Capacity: Finite(c.ItemsPerSecond), CapacityReported: c.Reported,
		CapacityMeasured: Finite(c.Measured), WarmUp: c.WarmUp,
		Pending: c.Pending, Health: health, DrainSeconds: c.Drain.Seconds(), LastReported: a.LastHeartbeat,
		Capabilities: a.Spec.Capabilities,
		State:        a.State.String(), Load: Finite(a.Load), InFlight: a.InFlight, Slots: a.Slots,
		SuccessRate: Finite(a.Success), Outcomes: Finite(a.Outcomes), DurationMS: Milliseconds(a.Duration),
		EjectedFrom: a.EjectedFrom,
	}
}

// swarm is ADR-018's summary.
func swarm(snap *coordinator.Snapshot) view.Swarm {
	w := view.Swarm{Total: len(snap.Agents)}
	var load, success, latency mean
	for i := range snap.Agents {
		a := &snap.Agents[i]
		switch {
		case a.State != coordinator.AgentOnline:
			w.Offline++
			continue
		case a.InFlight == 0:
			w.Idle++
		default:
			w.Busy++
		}
		w.InFlight += a.InFlight
		load.add(Finite(a.Load))
		success.add(Finite(a.Success))
		if a.Duration > 0 {
			latency.add(Milliseconds(a.Duration))
		}
	}
	w.AverageLoad, w.AverageSuccessRate, w.AverageLatencyMS = load.value(), success.value(), latency.value()
	w.Bottlenecks = bottlenecks(snap)
	return w
}

// leastOutcomes is how many outcomes of its own an agent must have before it is called failing: one
// that has just come is judged by what is known of others.
const leastOutcomes = 5

// fails reports whether an agent does not do what it is given: its tasks fail, or it gets no work for
// a capability because they did.
func fails(a *coordinator.AgentSnapshot) (why []string) {
	if len(a.EjectedFrom) > 0 {
		why = append(why, "ejected")
	}
	if a.Outcomes >= leastOutcomes && Finite(a.Success) < 0.5 {
		why = append(why, "failing")
	}
	return why
}

// bottlenecks returns the agents online that others wait for, the worst first: those that fail, then those
// that are behind. An agent is not behind because it has its hands full with what the failing ones
// leave undone, nor while nothing waits; and its drain time is compared with those of agents that work,
// as one that fails everything at once has none.
func bottlenecks(snap *coordinator.Snapshot) []view.Bottleneck {
	waiting, failing := 0, 0
	for _, n := range snap.Pending {
		waiting += n
	}
	var drain mean
	for i := range snap.Agents {
		switch a := &snap.Agents[i]; {
		case a.State != coordinator.AgentOnline:
		case len(fails(a)) > 0:
			failing++
		default:
			drain.add(a.Capacity.Drain.Seconds())
		}
	}
	var found []view.Bottleneck
	failed := make(map[string]bool)
	for i := range snap.Agents {
		a := &snap.Agents[i]
		if a.State != coordinator.AgentOnline {
			continue
		}
		b := view.Bottleneck{ID: string(a.Spec.ID), Why: fails(a), DrainSeconds: a.Capacity.Drain.Seconds(),
			Load: Finite(a.Load)}
		failed[b.ID] = len(b.Why) > 0
		if a.Free <= 0 && waiting > 0 && (failing == 0 || failed[b.ID]) {
			b.Why = append(b.Why, "full")
		}
		if a.Capacity.Health == coordinator.OverloadedHealth {
			b.Why = append(b.Why, "overloaded")
		}
		if b.DrainSeconds > 2*drain.value() && b.DrainSeconds >= leastSlow {
			b.Why = append(b.Why, "slow")
		}
		if len(b.Why) > 0 {
			found = append(found, b)
		}
	}
	slices.SortFunc(found, func(a, b view.Bottleneck) int {
		if failed[a.ID] != failed[b.ID] {
			if failed[a.ID] {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.DrainSeconds, a.DrainSeconds), cmp.Compare(b.Load, a.Load), cmp.Compare(a.ID, b.ID))
	})
	return found[:min(len(found), maxBottlenecks)]
}

// mean of numbers; 0 of none.
type mean struct {
	sum   float64
	count int
}

func (m *mean) add(v float64) { m.sum, m.count = m.sum+v, m.count+1 }

func (m *mean) value() float64 {
	if m.count == 0 {
		return 0
	}
	return Finite(m.sum / float64(m.count))
}

// share of a part in the whole, 0 to 1; 0 of nothing.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(1, max(0, part/whole))
}

// Finite is v, or 0 for what no JSON and no gauge should show.
func Finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// The tasks that concentration looks at.
const (
	ConcentrationTasks = 1000
	concentrationLeast = 50 // fewer say nothing
)

// Concentration returns the largest (s - w) / (1 - w) of any agent online, where s is its
// share of the tasks given to agents online, and w its share of their slots: how
// much of what could have gone to others the most favoured one got.
func Concentration(given map[coordinator.AgentID]int, agents []coordinator.AgentSnapshot) float64 {
	tasks, slots := 0, 0
	for i := range agents {
		if a := &agents[i]; a.State == coordinator.AgentOnline {
			tasks += given[a.Spec.ID]
			slots += a.Slots
		}
	}
	if tasks < concentrationLeast {
		return 0
	}
	largest := 0.0
	for i := range agents {
		a := &agents[i]
		if a.State != coordinator.AgentOnline || a.Slots >= slots {
			continue // it has all the slots there are: no other agent could get anything
		}
		s, w := float64(given[a.Spec.ID])/float64(tasks), float64(a.Slots)/float64(slots)
		largest = max(largest, (s-w)/(1-w))
	}
	return largest
}
