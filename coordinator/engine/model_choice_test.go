package engine_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine"
)

// refusal says why the agent may not have the task now, "" when it may.
func (m *model) refusal(now time.Time, a *modelAgent, t *coordinator.Task, tried []coordinator.AgentID) string {
	has := func(c string) bool { return slices.Contains(a.spec.Capabilities, c) }
	if !a.listed {
		return "not in the fleet"
	}
	for _, c := range slices.Concat(m.policy.Routes[t.Type].Required, t.Required) {
		if !has(c) {
			return "lacks " + c
		}
	}
	s := m.policy.Settings
	ever := criteria.Check(criteria.Needs{Task: t, Required: m.required(t), Barred: tried}, &a.spec)
	_, ordered := m.orders[a.spec.ID]
	switch {
	case slices.Contains(t.Excluded, a.spec.ID):
		return "excluded"
	case slices.Contains(tried, a.spec.ID):
		return "had it before"
	case ever != coordinator.Eligible:
		return ever.String()
	case a.state != coordinator.AgentOnline:
		return a.state.String()
	case a.noQueue:
		return "no queue"
	case ordered && m.orders[a.spec.ID] == coordinator.OrderDrain:
		return "draining"
	}
	// From here on: what does not keep it from going on with what it has.
	switch {
	case ordered:
		return "(cordoned)"
	case a.unattended:
		return "(unattended)"
	case now.Before(a.steadyAt):
		return "(unsteady)"
	case m.engine.IsKept(a.spec.ID): // there are tests for what is
		return keptForOne
	case m.engine.FleetAgent(a.spec.ID).Suspect(): // there are tests for when it is
		return "(suspect)"
	case a.outstanding() >= m.engine.FleetAgent(a.spec.ID).Room():
		return "(new, and full for now)"
	case a.report.Status == coordinator.StatusBusy && !s.BusyIsEligible:
		return "(busy)"
	case a.outstanding() >= a.most():
		return "(full)"
	case a.report.Available+min(a.credit(), a.report.Active)-a.uncovered() < 1:
		return "(no available capacity)"
	case a.reportedLoad() >= s.MaxLoad:
		return "(overloaded)"
	case now.Before(a.coolsAt):
		return "(queue full)"
	}
	return ""
}

// first reports whether waiting task a must go before b: of one priority the one that is due first (at
// its deadline, an hour after it was accepted at the latest), then the one that arrived first. Of two
// priorities the higher in a strict order; where they take turns by weight either may, and which of them
// does is TestPrioritiesInAnyBacklog's.
func (m *model) first(a, b *receipt) bool {
	if a.task.Priority != b.task.Priority {
		return m.policy.Settings.Priorities.Strict && a.task.Priority > b.task.Priority
	}
	due := func(r *receipt) time.Time {
		end := r.task.AcceptedAt.Add(time.Hour)
		if d := r.task.Deadline; !d.IsZero() && d.Before(end) {
			return d
		}
		return end
	}
	if x, y := due(a), due(b); !x.Equal(y) {
		return x.Before(y)
	}
	return a.handle < b.handle
}

// drawPriorities draws how they take turns.
func drawPriorities(t *rapid.T) (o coordinator.PriorityOrder) {
	if o.Strict = rapid.IntRange(0, 2).Draw(t, "strict at 0") == 0; !o.Strict && rapid.Bool().Draw(t, "own weights") {
		for l := range o.Weights {
			o.Weights[l] = rapid.Int64Range(1, 100).Draw(t, "weight")
		}
	}
	return o
}

// strategy is the name of the one that decides the task.
func (m *model) strategy(t *coordinator.Task) string {
	name := m.policy.Strategy
	if s := m.policy.Routes[t.Type].Strategy; s != "" {
		name = s
	}
	if t.Strategy != "" {
		name = t.Strategy
	}
	return name
}

// grows tells whether the agent was new until this tick, and gets its slots one by one: those that do
// so in the same tick do it one after the other.
func (m *model) grows(a *modelAgent) bool {
	since := m.engine.FleetAgent(a.spec.ID).Since()
	return !since.IsZero() && m.policy.Settings.SlowStart > 0 && m.before.Sub(since) <= m.policy.Settings.SlowStart
}

// knows tells whether the model has the strategy's rule.
func (m *model) knows(name string) bool { return slices.Index(strategies, name) < 4 }

// key is the order in which the task's strategy prefers agents, ties included,
// as COORDINATOR writes it.
func (m *model) key(t *coordinator.Task, a *modelAgent) []float64 {
	name, turn := m.strategy(t), float64(a.assignedAt)
	switch {
	case name == "round_robin":
		return []float64{turn}
	case name == "capability_match":
		return []float64{a.load(), -float64(len(a.spec.Capabilities)), turn}
	case name == "priority_based" && t.Priority >= coordinator.PriorityHigh:
		return []float64{float64(a.spec.Rank), a.load(), turn}
	}
	return []float64{a.load(), 0, turn}
}

// best is the agent the task should go to of those that are trusted, nil when none
// may have it.
func (m *model) best(now time.Time, t *coordinator.Task, tried []coordinator.AgentID,
	trusted func(coordinator.AgentID) bool) *modelAgent {
	preferred := m.policy.Routes[t.Type].Preferred
	if len(t.Preferred) > 0 {
		preferred = t.Preferred
	}
	// The smaller id decides where nothing else does: the order of the agents is no matter.
	pick := func(among func(coordinator.AgentID) bool) (best *modelAgent) {
		var key []float64
		for id, a := range m.agents {
			if !among(id) || !trusted(id) || m.refusal(now, a, t, tried) != "" {
				continue
			}
			k := m.key(t, a)
			if c := slices.Compare(k, key); best == nil || c < 0 || c == 0 && id < best.spec.ID {
				best, key = a, k
			}
		}
		return best
	}
	if len(preferred) > 0 {
		if a := pick(func(id coordinator.AgentID) bool { return slices.Contains(preferred, id) }); a != nil {
			return a
		}
	}
	return pick(func(coordinator.AgentID) bool { return true })
}

// sameBatch tells whether two dispatches of one moment may share a batch.
func (m *model) sameBatch(a, b *coordinator.Dispatch) bool {
	s, t, route := a.Task, b.Task, m.policy.Routes[a.Task.Type]
	required := func(t *coordinator.Task) []string { return coordinator.MergeSorted(route.Required, t.Required) }
	return route.Batch.MaxSize >= 2 && a.Agent == b.Agent && s.Type == t.Type && m.strategy(s) == m.strategy(t) &&
		slices.Equal(required(s), required(t)) && slices.Equal(s.Excluded, t.Excluded) &&
		slices.Equal(s.Preferred, t.Preferred)
}

// barred are the agents that the task may not go to because they had it.
func (m *model) barred(d *coordinator.Dispatch) []coordinator.AgentID {
	if t := m.engine.HeldTask(d.Handle); t != nil {
		return t.Barred()
	}
	return d.Tried
}

// dispatched judges a dispatch and counts it. resumed: it repeats the one that the
// agent has, or may have; back: it came back just now; follows: it went where another one of its batch went.
func (m *model) dispatched(now time.Time, d *coordinator.Dispatch, resumed, back, follows, probe bool) error {
	a := m.agents[d.Agent]
	slot := &modelSlot{id: d.DispatchID, task: d.Task.ID, message: d}
	former := a.slot(d.DispatchID)
	if former == nil {
		former = m.returned
	}
	switch {
	case !resumed:
	case former != nil && former.id == d.DispatchID: // it is the same message again
		slot.covered = former.covered
		a.drop(former)
	case back: // it came back, and is of a session before: its agent says that it runs it
		slot.covered = slices.Contains(a.report.ActiveTasks, d.Task.ID)
	}
	why := m.refusal(now, a, d.Task, m.barred(d))
	if !resumed && !m.mayTrust(d.Agent, d.Task, probe) {
		why = "ejected"
	}
	if resumed && why != "" && why[0] == '(' {
		why = ""
	}
	if why == keptForOne && (m.isolating || m.engine.IsIsolating()) { // for this very task, or it was decided before
		why = ""
	}
	if why != "" {
		return fmt.Errorf("%s went to %s, which may not have it: %s", d.Task.ID, d.Agent, why)
	}
	// Agents that cool down, become steady or are trusted again in the same tick do so one after the
	// other, and the work goes to the first: the better one may come too late.
	trusted := func(id coordinator.AgentID) bool { return id == d.Agent || !m.mayBeEjected(id, d.Task) }
	if best := m.best(now, d.Task, m.barred(d), trusted); m.knows(m.strategy(d.Task)) && m.policy.Quotas == nil &&
		!m.isolating && !m.engine.IsIsolating() && (best == nil || !m.grows(best)) && !resumed && !follows && best != a &&
		!m.suspected[best.spec.ID] && !best.coolsAt.After(m.before) && !best.steadyAt.After(m.before) {
		return fmt.Errorf("%s went to %s, the strategy's choice is %s", d.Task.ID, d.Agent, best.spec.ID)
	}
	m.sequence++
	a.assignedAt = m.sequence
	a.slots = append(a.slots, slot)
	return nil
}

// settled applies the outcome of a dispatch; over: it has ended already.
func (m *model) settled(now time.Time, d *coordinator.Dispatch, o coordinator.PublishOutcome, over bool) {
	a := m.agents[d.Agent]
	s := a.slot(d.DispatchID)
	switch {
	case over: // its outcome came before the broker's answer
	case o == coordinator.PublishUnroutable:
		a.noQueue = a.listed
	case o == coordinator.PublishRejected && a.listed:
		a.coolsAt = now.Add(engine.QueueCool)
	}
	switch {
	case s == nil || !s.settled.IsZero(): // it has ended already
	case s.message != d: // it came back, and another copy of it is on its way
	case o == coordinator.PublishConfirmed, o == coordinator.PublishUnknown, s.over:
		if s.settled = now; s.over && a.away() {
			a.drop(s)
		}
	default:
		a.drop(s)
	}
}
