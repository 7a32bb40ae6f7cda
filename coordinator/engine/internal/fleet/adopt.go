package fleet

import (
	"cmp"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/hash"
)

// How a fleet takes over another configuration.

// Adopt replaces the fleet by these agents. What is known of an agent that stays is kept, whatever the order in which
// they are listed. join makes one that comes out of what was known of it, if it was in the fleet before (see Rejoin);
// else out of nil. It returns those that leave, in no order, of which nothing is due any more. The kernel handles what
// follows for those that stay (see Adopted), and the dispatches of those that have left (see Leaves).
func (f *Fleet[T, A]) Adopt(
	specs []coordinator.AgentSpec, settings coordinator.Settings, join func(before A) A,
) (gone []A, changes []Change[A]) {
	f.begin()
	var none A
	old, left := f.ByID, f.Left
	lastAssigned := make(map[coordinator.AgentID]uint64, len(f.Views))
	for _, v := range f.Views {
		lastAssigned[v.ID] = v.LastAssigned
	}
	n := len(specs)
	f.settings, f.MaxCost, f.Stated = settings, 0, nil
	f.Agents, f.Was = make([]A, n), make([]int, n)
	f.Views = make([]coordinator.AgentView, n)
	f.ByID = make(map[coordinator.AgentID]A, n)
	f.ByQueue = make(map[string]A, n)
	if f.kept != none {
		f.kept.Core().kept = false
	}
	f.Vacant, f.Present, f.kept = agentset.New(n), agentset.New(n), none
	f.Causes, f.Tally = make([]coordinator.Ineligibility, n), [coordinator.NumIneligibilities]int{}
	for why := range f.ByCause {
		f.ByCause[why] = agentset.New(n)
	}
	f.Ready = f.ByCause[coordinator.Eligible]
	f.Left = make(map[coordinator.AgentID]A)
	specs = slices.SortedFunc(slices.Values(specs),
		func(a, b coordinator.AgentSpec) int { return cmp.Compare(a.ID, b.ID) })
	f.Index = criteria.NewFleet(specs)
	for i, spec := range specs {
		m := old[spec.ID]
		f.Was[i] = -1
		if m != none {
			f.Was[i] = m.Core().Number
		} else {
			m = join(left[spec.ID])
		}
		a := m.Core()
		if f.Was[i] >= 0 && a.Spec.Queue != spec.Queue {
			a.QueueMissing, a.QueueFull, a.askedAt = false, false, time.Time{} // said of another queue
			a.HadConsumer, a.seenConsumer, a.Unattended = false, false, false
			a.missedAt, a.ConsumedTold = time.Time{}, time.Time{}
			f.unset(m, Recheck)
			f.unset(m, Cool)
		}
		a.Spec, a.Number, a.Serial = spec, i, f.SerialOf(spec.ID)
		f.Agents[i], f.ByID[spec.ID], f.ByQueue[spec.Queue] = m, m, m
		f.Views[i] = coordinator.AgentView{ID: spec.ID, Rank: spec.Rank, Capabilities: len(spec.Capabilities),
			Labels: spec.Labels, LastAssigned: lastAssigned[spec.ID], Hash: hash.Of(string(spec.ID), 0)}
		if spec.SuccessStated {
			if f.Stated == nil {
				f.Stated = slices.Repeat([]float64{-1}, n)
			}
			f.Stated[i] = spec.SuccessRate
		}
		f.Ready.Add(i) // Causes has it there, until Refresh
		f.Tally[coordinator.Eligible]++
		f.Refresh(m)
	}
	for id, m := range left { // order does not matter: it is a copy
		if f.ByID[id] == none {
			f.Left[id] = m
		}
	}
	for id, m := range old { // order does not matter to the kernel
		if f.ByID[id] == none {
			m.Core().Number, m.Core().due = -1, [NumTimers]time.Time{}
			gone = append(gone, m)
			f.Left[id] = m
		}
	}
	return gone, f.changes
}

// Adopted returns what follows for an agent of the fleet after that has taken over a configuration.
func (f *Fleet[T, A]) Adopted(now time.Time, m A) []Change[A] {
	f.begin()
	if a := m.Core(); a.TakenQueue != a.Spec.Queue {
		f.leaveQueue(m) // it has another now
	}
	f.obey(m)
	f.watch(now, m) // the threshold may be another
	f.ramp(now, m)
	return f.changes
}

// Leaves returns what follows for an agent that has left the fleet: another may use its queue by now.
func (f *Fleet[T, A]) Leaves(m A) []Change[A] {
	f.begin()
	f.leaveQueue(m)
	return f.changes
}

// Rejoin forgets of an agent that comes, or comes again, everything but the dispatches that it has or may have.
func (a *Account[T]) Rejoin() {
	a.Agent = Agent{slots: slots{Uncovered: a.Uncovered, Alone: a.Alone}, Tracked: a.Tracked}
}
