package service

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/httpapi"
)

// maxBottlenecks is how many agents are named as such; leastSlow how many seconds of
// work one must have before it to be called slow: an idle fleet has no bottleneck.
const (
	maxBottlenecks = 10
	leastSlow      = 1
)

// AgentStats returns the fleet in figures (see httpapi.Source).
func (s *Service) AgentStats(ctx context.Context) (httpapi.AgentStats, error) {
	if err := s.knowsFleet(); err != nil {
		return httpapi.AgentStats{}, err
	}
	snap, err := s.snapshot(ctx)
	if err != nil {
		return httpapi.AgentStats{}, err
	}
	return fleetStats(&snap, s.unread(&snap)), nil
}

// unread returns how many tasks lie in task.assign, task.assign.high and lanes, as the broker
// said last.
func (s *Service) unread(snap *coordinator.Snapshot) int {
	n := 0
	for _, l := range snap.Lanes {
		n += l.Ready
	}
	for _, queue := range []string{bus.QueueAssign, bus.QueueAssignHigh} {
		if d, ok := s.depths.get(queue); ok && d.err == nil {
			n += d.Ready
		}
	}
	return n
}

// Capabilities is demand and supply of every capability (see httpapi.Source).
func (s *Service) Capabilities(ctx context.Context) ([]httpapi.Capability, error) {
	if err := s.knowsFleet(); err != nil {
		return nil, err
	}
	var all []coordinator.CapabilitySnapshot
	err := s.loop.query(ctx, func(now time.Time, e *engine.Engine) { all = e.Capabilities(now) })
	if err != nil {
		return nil, fmt.Errorf("ask the engine for the capabilities: %w", err)
	}
	list := make([]httpapi.Capability, len(all))
	for i, c := range all {
		list[i] = httpapi.Capability{
			Name: c.Name, Agents: c.Agents, Online: c.Online, BusFactor: c.Usable,
			Slots: c.Slots, FreeSlots: c.Free, Waiting: c.Waiting, DemandPerMinute: 60 * finite(c.Demand),
		}
	}
	return list, nil
}

// fleetStats sums a snapshot up. Only agents online count: what an agent has that is gone comes back by
// itself, and its capacity cannot be used.
func fleetStats(snap *coordinator.Snapshot, unread int) httpapi.AgentStats {
	st := httpapi.AgentStats{Agents: make([]httpapi.AgentInfo, len(snap.Agents))}
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
	st.TotalCapacity = finite(st.TotalCapacity)
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

func agentInfo(a *coordinator.AgentSnapshot) httpapi.AgentInfo {
	c := &a.Capacity
	health := "" // the health of an absent agent is not known
	if a.State == coordinator.AgentOnline {
		health = c.Health.String()
		if len(fails(a)) > 0 { // the less it does, the less it has before it
			health = httpapi.FailingHealth
		}
	}
	return httpapi.AgentInfo{
		ID: string(a.Spec.ID), Capacity: finite(c.ItemsPerSecond), CapacityReported: c.Reported,
		CapacityMeasured: finite(c.Measured), WarmUp: c.WarmUp,
		Pending: c.Pending, Health: health, DrainSeconds: c.Drain.Seconds(), LastReported: a.LastHeartbeat,
		Capabilities: a.Spec.Capabilities,
		State:        a.State.String(), Load: finite(a.Load), InFlight: a.InFlight, Slots: a.Slots,
		SuccessRate: finite(a.Success), Outcomes: finite(a.Outcomes), DurationMS: milliseconds(a.Duration),
		EjectedFrom: a.EjectedFrom,
	}
}

// swarm is ADR-018's summary.
func swarm(snap *coordinator.Snapshot) httpapi.Swarm {
	w := httpapi.Swarm{Total: len(snap.Agents)}
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
		load.add(finite(a.Load))
		success.add(finite(a.Success))
		if a.Duration > 0 {
			latency.add(milliseconds(a.Duration))
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
	if a.Outcomes >= leastOutcomes && finite(a.Success) < 0.5 {
		why = append(why, "failing")
	}
	return why
}

// bottlenecks returns the agents online that others wait for, the worst first: those that fail, then those
// that are behind. An agent is not behind because it has its hands full with what the failing ones
// leave undone, nor while nothing waits; and its drain time is compared with those of agents that work,
// as one that fails everything at once has none.
func bottlenecks(snap *coordinator.Snapshot) []httpapi.Bottleneck {
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
	var found []httpapi.Bottleneck
	failed := make(map[string]bool)
	for i := range snap.Agents {
		a := &snap.Agents[i]
		if a.State != coordinator.AgentOnline {
			continue
		}
		b := httpapi.Bottleneck{ID: string(a.Spec.ID), Why: fails(a), DrainSeconds: a.Capacity.Drain.Seconds(),
			Load: finite(a.Load)}
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
	slices.SortFunc(found, func(a, b httpapi.Bottleneck) int {
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
	return finite(m.sum / float64(m.count))
}

// share of a part in the whole, 0 to 1; 0 of nothing.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(1, max(0, part/whole))
}

// finite is v, or 0 for what no JSON and no gauge should show.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
