package fleet

import (
	"maps"
	"slices"
	"time"

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
	waiting   map[coordinator.AgentID]coordinator.AgentReported
	refused   map[refusedStatus]struct{}
	Following bool // another coordinator leads, and lets agents join
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

// Announced hears of an agent that is not part of the fleet: it joins soon, or its report is refused.
func (f *Fleet[T, A]) Announced(ev *coordinator.AgentReported) []Change[A] {
	f.begin()
	r := &ev.Report
	switch _, again := f.waiting[r.Agent]; {
	case f.rules == nil:
		f.refuse(r.Agent, coordinator.StatusUnknownAgent)
	case r.Status == coordinator.StatusOffline:
		delete(f.waiting, r.Agent) // it goes before it has come
	default:
		_, ok := f.admits(r)
		if !ok || !again && len(f.joined)+len(f.waiting) >= f.rules.MaxAgents {
			f.refuse(r.Agent, coordinator.StatusNotAdmitted)
		} else {
			f.await(ev)
		}
	}
	return f.changes
}

// announcedAnew hears of an agent of the fleet. If it has joined, and says something else of itself than before, it
// joins anew, unless the rules do not admit that.
func (f *Fleet[T, A]) announcedAnew(m A, ev *coordinator.AgentReported) {
	is, r := &m.Core().Spec, &ev.Report
	if r.Capabilities == nil || r.Status == coordinator.StatusOffline || !f.HasJoined(is.ID) {
		return
	}
	switch spec, ok := f.admits(r); {
	case !ok:
		f.refuse(is.ID, coordinator.StatusNotAdmitted)
	case spec.Queue != is.Queue, spec.MaxConcurrent != is.MaxConcurrent,
		!slices.Equal(spec.Capabilities, is.Capabilities), !maps.Equal(spec.Labels, is.Labels):
		f.await(ev)
	}
}

// await lets an agent join soon.
func (f *Fleet[T, A]) await(reported *coordinator.AgentReported) {
	if f.Following {
		return // the leader lets agents join, and records it
	}
	ev := *reported
	ev.Report.Capabilities = slices.Clone(ev.Report.Capabilities)
	ev.Report.Labels = maps.Clone(ev.Report.Labels)
	f.waiting[ev.Report.Agent] = ev
	f.joins()
}

// joins has Join be called soon.
func (f *Fleet[T, A]) joins() { f.changes = append(f.changes, Change[A]{Kind: Joins}) }

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

// Join takes in the agents that wait for it, in the order of their ids, and returns their reports and a record of what
// has changed, for Joined.
func (f *Fleet[T, A]) Join() (came []coordinator.AgentReported, r *coordinator.Joined, changes []Change[A]) {
	f.begin()
	queues := make(map[string]bool)
	for _, id := range slices.Sorted(maps.Keys(f.waiting)) {
		ev := f.waiting[id]
		spec, ok := f.admits(&ev.Report)
		if !ok || queues[spec.Queue] {
			f.refuse(id, coordinator.StatusNotAdmitted)
			continue
		}
		queues[spec.Queue] = true
		f.joined[id], f.changed[id] = spec, struct{}{}
		came = append(came, ev)
	}
	clear(f.waiting)
	r = &coordinator.Joined{}
	for _, id := range slices.Sorted(maps.Keys(f.changed)) {
		_, before := f.recorded[id]
		switch spec, now := f.joined[id]; {
		case now:
			r.Agents = append(r.Agents, spec)
		case before:
			r.Left = append(r.Left, id)
		}
	}
	clear(f.changed)
	return came, r, f.changes
}

// Joined takes over which agents have joined, and which have left, under the policy. They are part of the fleet, or are
// not, when it has adopted Specs.
func (d *discovery) Joined(r *coordinator.Joined, p *coordinator.Policy) {
	for _, spec := range r.Agents {
		d.recorded[spec.ID] = spec
	}
	for _, id := range r.Left {
		delete(d.recorded, id)
	}
	d.joined = maps.Clone(d.recorded)
	d.SetRules(p)
}

// forgetDue drops an agent that had joined and has been gone for long, when the fleet adopts Specs.
func (f *Fleet[T, A]) forgetDue(now time.Time, m A) {
	a := m.Core()
	switch {
	case !a.Gone() || !f.HasJoined(a.Spec.ID):
	case a.Leased() > 0, a.TakenQueue != "", f.Following:
		f.set(m, Forget, now.Add(f.rules.ForgetAfter))
	default:
		delete(f.joined, a.Spec.ID)
		f.changed[a.Spec.ID] = struct{}{}
		f.joins()
	}
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

// refuse announces that a report changed nothing, marking the first of a kind.
func (f *Fleet[T, A]) refuse(id coordinator.AgentID, why coordinator.StatusRefusal) {
	sender := refusedStatus{id, why}
	_, before := f.refused[sender]
	// Agents of the fleet are few; the others are any sender's invention.
	_, listed := f.ByID[id]
	first := !before && (listed || len(f.refused) < MaxRefused)
	if first {
		f.refused[sender] = struct{}{}
	}
	f.emit(coordinator.StatusRefused{Agent: id, Refusal: why, First: first})
}

// RefusedSenders counts the refusals that are remembered.
func (d *discovery) RefusedSenders() int { return len(d.refused) }
