package fleet

import (
	"maps"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/invariant"
)

// Check compares what is kept of the agent at a place of the fleet in several places. It changes nothing; nil: all is
// well.
func (f *Fleet[T, A]) Check(n int) invariant.Violations {
	m := f.Agents[n]
	a := m.Core()
	found, id := a.check(), string(a.Spec.ID)
	if a.Number != n || f.ByID[a.Spec.ID] != m || f.ByQueue[a.Spec.Queue] != m ||
		n > 0 && f.Agents[n-1].Core().Spec.ID >= a.Spec.ID {
		found.Note(invariant.FleetIndex, id, "it is number %d at place %d; found by its id %v, by its queue %v",
			a.Number, n, f.ByID[a.Spec.ID] == m, f.ByQueue[a.Spec.Queue] == m)
		return found // what follows would ask for another
	}
	v := &f.Views[n]
	again := *v
	a.view(&again)
	if v.ID != a.Spec.ID || v.Load != again.Load || v.InFlight != again.InFlight || v.Max != again.Max ||
		v.Free != again.Free || v.Capacity != again.Capacity || v.Pending != again.Pending ||
		v.ReportedLoad != again.ReportedLoad || v.Cost != again.Cost {
		found.Note(invariant.AgentSlots, id,
			"strategies see %d in flight, %d of %d slots free, load %.3f; it has %d, %d of %d, %.3f",
			v.InFlight, v.Free, v.Max, v.Load, again.InFlight, again.Free, again.Max, again.Load)
	}
	if again.InFlight < 0 || again.Free < 0 || again.InFlight+again.Free > max(again.Max, again.InFlight) {
		found.Note(invariant.AgentSlots, id, "%d of its %d slots are free with %d tasks in flight", again.Free,
			again.Max, again.InFlight)
	}
	if why := f.Eligibility(m); f.Ready.Has(n) != (why == coordinator.Eligible) {
		found.Note(invariant.AgentReady, id, "it is marked as ready %v, and is %s", f.Ready.Has(n), why)
	}
	return found
}

// CheckLeft checks the agents that have left, which are few.
func (f *Fleet[T, A]) CheckLeft() (found invariant.Violations) {
	for _, id := range slices.Sorted(maps.Keys(f.Left)) {
		a := f.Left[id].Core()
		found.Add(a.check())
		if a.Number >= 0 || a.Spec.ID != id || a.TakenQueue != "" {
			found.Note(invariant.FleetIndex, string(a.Spec.ID),
				"it has left as %s, and has number %d and %q taken back", id, a.Number, a.TakenQueue)
		}
	}
	return found
}

// CheckTakeBacks recounts the queues that are taken back, in a pass over the fleet.
func (f *Fleet[T, A]) CheckTakeBacks() (found invariant.Violations) {
	taken := 0
	for _, m := range f.Agents {
		if m.Core().TakenQueue != "" {
			taken++
		}
	}
	if taken != f.TakeBacks {
		found.Note(invariant.TakeBacks, "", "%d queues are taken back, counted are %d", taken, f.TakeBacks)
	}
	return found
}

// check recounts the dispatches on the account.
func (a *Account[T]) check() (found invariant.Violations) {
	uncovered := 0
	for i, t := range a.Open {
		d := t.Dispatched()
		if !d.Covered {
			uncovered++
		}
		if d.At() != i {
			id, _ := t.Try()
			found.Note(invariant.AgentAccount, string(id), "it is at %d of the account of %s, and says %d", i,
				a.Spec.ID, d.At())
		}
	}
	if uncovered != a.Uncovered || a.Credit < 0 || a.Credit > len(a.Recent) {
		found.Note(invariant.AgentAccount, string(a.Spec.ID),
			"%d of its %d dispatches are covered by no report, counted are %d; it has credit for %d of %d tasks",
			uncovered, len(a.Open), a.Uncovered, a.Credit, len(a.Recent))
	}
	return found
}
