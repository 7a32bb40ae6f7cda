package fleet

import (
	"maps"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
)

// discovery is the agents that agents.yaml does not list and that have announced themselves: those that are part of the
// fleet, and those that are about to be.
type discovery struct {
	rules  *coordinator.Discovery // nil: none may join
	joined map[coordinator.AgentID]coordinator.AgentSpec
	// recorded is what the journal says of joined, and changed what it does not say yet.
	recorded map[coordinator.AgentID]coordinator.AgentSpec
	changed  map[coordinator.AgentID]struct{}
	// waiting holds the latest report of each agent that joins, or has announced itself anew, at the next turn.
	waiting map[coordinator.AgentID]coordinator.AgentReported
	refused map[refusedStatus]struct{}
}

// MaxRefused bounds the memory of refused senders; beyond it the first refusal of another sender is not remembered, so
// that a flood of invented ids costs neither memory nor log lines.
const MaxRefused = 1000

// refusedStatus is a sender and what was refused of it.
type refusedStatus struct {
	agent   coordinator.AgentID
	refusal coordinator.StatusRefusal
}

func newDiscovery() discovery {
	return discovery{
		joined:   make(map[coordinator.AgentID]coordinator.AgentSpec),
		recorded: make(map[coordinator.AgentID]coordinator.AgentSpec),
		changed:  make(map[coordinator.AgentID]struct{}),
		waiting:  make(map[coordinator.AgentID]coordinator.AgentReported),
		refused:  make(map[refusedStatus]struct{}),
	}
}

// HasJoined reports whether the agent is part of the fleet because it has announced itself.
func (d *discovery) HasJoined(id coordinator.AgentID) bool { _, ok := d.joined[id]; return ok }

// Rules returns which agents may join; nil: none.
func (d *discovery) Rules() *coordinator.Discovery { return d.rules }

// SetRules takes over the rules of a policy. An agent that they do not admit, or that is listed now, does not belong to
// those that have joined; the others have what the rules say of all that join.
func (d *discovery) SetRules(p *coordinator.Policy) {
	d.rules = p.Discovery
	maps.DeleteFunc(d.joined, func(id coordinator.AgentID, s coordinator.AgentSpec) bool {
		out := d.rules == nil || !d.rules.AdmitsAgent(s.ID) || !d.rules.AdmitsCapabilities(s.Capabilities) ||
			!d.rules.AdmitsQueue(s.ID, s.Queue) ||
			slices.ContainsFunc(p.Agents, func(a coordinator.AgentSpec) bool { return a.ID == s.ID || a.Queue == s.Queue })
		if out {
			d.changed[id] = struct{}{}
		}
		return out
	})
	for id, s := range d.joined {
		d.joined[id] = d.rules.Place(s)
	}
	maps.DeleteFunc(d.waiting, func(id coordinator.AgentID, _ coordinator.AgentReported) bool {
		return d.rules == nil || slices.ContainsFunc(p.Agents, func(a coordinator.AgentSpec) bool { return a.ID == id })
	})
}

// Specs returns the agents that belong to the fleet under the policy, for Adopt.
func (d *discovery) Specs(p *coordinator.Policy) []coordinator.AgentSpec {
	if len(d.joined) == 0 {
		return p.Agents
	}
	return slices.AppendSeq(slices.Clip(p.Agents), maps.Values(d.joined)) // Adopt sorts them
}

// MayBring reports whether an agent that could have a task which asks that may join. Whether there is one is not known.
func (d *discovery) MayBring(n criteria.Needs) bool {
	return d.rules != nil && criteria.MayJoin(n, d.rules)
}

// Announced hears of an agent that is not part of the fleet. It returns whether it joins at the next turn (see Await),
// or else whether its report is refused, and why.
func (f *Fleet[T, A]) Announced(r *coordinator.AgentReport) (joins, refused bool, why coordinator.StatusRefusal) {
	switch _, again := f.waiting[r.Agent]; {
	case f.rules == nil:
		return false, true, coordinator.StatusUnknownAgent
	case r.Status == coordinator.StatusOffline:
		delete(f.waiting, r.Agent) // it goes before it has come
		return false, false, why
	case !again && len(f.joined)+len(f.waiting) >= f.rules.MaxAgents:
		return false, true, coordinator.StatusNotAdmitted
	}
	_, ok := f.admits(r)
	return ok, !ok, coordinator.StatusNotAdmitted
}

// AnnouncedAnew hears of an agent of the fleet. It returns whether it has joined and says something else of itself than
// before, with which it joins anew, or else whether the rules do not admit that.
func (f *Fleet[T, A]) AnnouncedAnew(m A, r *coordinator.AgentReport) (joins, refused bool) {
	is := &m.Core().Spec
	if !f.HasJoined(is.ID) || r.Status == coordinator.StatusOffline || r.Capabilities == nil {
		return false, false
	}
	spec, ok := f.admits(r)
	return ok && (spec.Queue != is.Queue || spec.MaxConcurrent != is.MaxConcurrent ||
		!slices.Equal(spec.Capabilities, is.Capabilities) || !maps.Equal(spec.Labels, is.Labels)), !ok
}

// Await lets an agent join at the next turn.
func (d *discovery) Await(ev coordinator.AgentReported) {
	ev.Report.Capabilities = slices.Clone(ev.Report.Capabilities)
	ev.Report.Labels = maps.Clone(ev.Report.Labels)
	d.waiting[ev.Report.Agent] = ev
}

// admits makes a place in the fleet of an announcement; false when the rules do not admit it or its queue is that of
// another agent.
func (f *Fleet[T, A]) admits(r *coordinator.AgentReport) (coordinator.AgentSpec, bool) {
	spec, ok := f.rules.Admit(r)
	if !ok {
		return spec, false
	}
	owner, owned := f.ByQueue[spec.Queue]
	return spec, !owned || owner.Core().Spec.ID == spec.ID
}

// Join takes in the agents that wait for it, in the order of their ids. It returns their reports, and the agents that
// are not admitted any more. They are part of the fleet when it has adopted Specs.
func (f *Fleet[T, A]) Join() (came []coordinator.AgentReported, refused []coordinator.AgentID) {
	queues := make(map[string]bool)
	for _, id := range slices.Sorted(maps.Keys(f.waiting)) {
		ev := f.waiting[id]
		spec, ok := f.admits(&ev.Report)
		if !ok || queues[spec.Queue] {
			refused = append(refused, id)
			continue
		}
		queues[spec.Queue] = true
		f.joined[id], f.changed[id] = spec, struct{}{}
		came = append(came, ev)
	}
	clear(f.waiting)
	return came, refused
}

// Forget lets an agent that had joined leave the fleet, when that has adopted Specs.
func (d *discovery) Forget(id coordinator.AgentID) {
	delete(d.joined, id)
	d.changed[id] = struct{}{}
}

// JoinChanges returns which agents have joined, or have left, since it was called last; nil: none.
func (d *discovery) JoinChanges() *coordinator.Joined {
	r := &coordinator.Joined{}
	for _, id := range slices.Sorted(maps.Keys(d.changed)) {
		_, before := d.recorded[id]
		switch spec, now := d.joined[id]; {
		case now:
			r.Agents = append(r.Agents, spec)
			d.recorded[id] = spec
		case before:
			r.Left = append(r.Left, id)
			delete(d.recorded, id)
		}
	}
	clear(d.changed)
	if len(r.Agents)+len(r.Left) == 0 {
		return nil
	}
	return r
}

// JoinedRecord returns all that the journal says of joined agents; nil: nothing.
func (d *discovery) JoinedRecord() *coordinator.Joined {
	if len(d.recorded) == 0 {
		return nil
	}
	r := &coordinator.Joined{}
	for _, id := range slices.Sorted(maps.Keys(d.recorded)) {
		r.Agents = append(r.Agents, d.recorded[id])
	}
	return r
}

// FoldJoined takes over which agents have joined, and which have left, under the policy.
func (d *discovery) FoldJoined(r *coordinator.Joined, p *coordinator.Policy) {
	for _, spec := range r.Agents {
		d.recorded[spec.ID] = spec
	}
	for _, id := range r.Left {
		delete(d.recorded, id)
	}
	d.joined = maps.Clone(d.recorded)
	d.SetRules(p)
}

// FirstRefusal notes that a report was refused, and reports whether that is the first of its kind.
func (f *Fleet[T, A]) FirstRefusal(id coordinator.AgentID, why coordinator.StatusRefusal) bool {
	s := refusedStatus{id, why}
	if _, before := f.refused[s]; before {
		return false
	}
	// Agents of the fleet are few; the others are any sender's invention.
	if _, listed := f.ByID[id]; !listed && len(f.refused) >= MaxRefused {
		return false
	}
	f.refused[s] = struct{}{}
	return true
}

// RefusedSenders counts the refusals that are remembered.
func (d *discovery) RefusedSenders() int { return len(d.refused) }
