package engine

import (
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
)

// joining is the agents that agents.yaml does not list and that have announced
// themselves: those that are part of the fleet, and those that are about to be.
type joining struct {
	rules  *coordinator.Discovery // nil: nobody may join
	joined map[coordinator.AgentID]coordinator.AgentSpec
	// recorded is what the journal says of joined, and changed what it does not say yet.
	recorded map[coordinator.AgentID]coordinator.AgentSpec
	changed  map[coordinator.AgentID]struct{}
	// waiting holds the latest report of each agent that joins, or has announced
	// itself anew, at the next turn.
	waiting map[coordinator.AgentID]coordinator.AgentReported
	turn    timer
}

// joinDelay gathers agents that come together: each change of the fleet costs a
// pass over it.
const joinDelay = 100 * time.Millisecond

func newJoining() joining {
	return joining{
		joined:   make(map[coordinator.AgentID]coordinator.AgentSpec),
		recorded: make(map[coordinator.AgentID]coordinator.AgentSpec),
		changed:  make(map[coordinator.AgentID]struct{}),
		waiting:  make(map[coordinator.AgentID]coordinator.AgentReported),
		turn:     newTimer(dutyJoin, nil, nil),
	}
}

func (j *joining) has(id coordinator.AgentID) bool { _, ok := j.joined[id]; return ok }

// under takes over the rules of a policy. An agent that they do not admit, or that is
// listed now, does not belong to those that have joined; the others have what the rules
// say of all that join.
func (j *joining) under(p *coordinator.Policy) {
	j.rules = p.Discovery
	maps.DeleteFunc(j.joined, func(id coordinator.AgentID, s coordinator.AgentSpec) bool {
		out := j.rules == nil || !j.rules.AdmitsAgent(s.ID) || !j.rules.AdmitsCapabilities(s.Capabilities) ||
			!j.rules.AdmitsQueue(s.ID, s.Queue) ||
			slices.ContainsFunc(p.Agents, func(a coordinator.AgentSpec) bool { return a.ID == s.ID || a.Queue == s.Queue })
		if out {
			j.changed[id] = struct{}{}
		}
		return out
	})
	for id, s := range j.joined {
		j.joined[id] = j.rules.Place(s)
	}
	maps.DeleteFunc(j.waiting, func(id coordinator.AgentID, _ coordinator.AgentReported) bool {
		return j.rules == nil || slices.ContainsFunc(p.Agents, func(a coordinator.AgentSpec) bool { return a.ID == id })
	})
}

// fleet is who belongs to the fleet under the policy.
func (j *joining) fleet(p *coordinator.Policy) []coordinator.AgentSpec {
	if len(j.joined) == 0 {
		return p.Agents
	}
	return slices.AppendSeq(slices.Clip(p.Agents), maps.Values(j.joined)) // adopt sorts them
}

// HasAgent tells whether the agent is part of the fleet, listed or joined.
func (e *Engine) HasAgent(id coordinator.AgentID) bool { return e.fleet.ByID[id] != nil }

// mayBring reports whether an agent that could have a task which asks that may join. Whether
// there is one nobody knows.
func (j *joining) mayBring(n criteria.Needs) bool {
	return j.rules != nil && criteria.MayJoin(n, j.rules)
}

// announced hears an agent that nobody knows.
func (e *Engine) announced(now time.Time, ev coordinator.AgentReported) {
	r := &ev.Report
	j := &e.joining
	switch _, again := j.waiting[r.Agent]; {
	case j.rules == nil:
		e.refuseStatus(r.Agent, coordinator.StatusUnknownAgent)
		return
	case r.Status == coordinator.StatusOffline:
		delete(j.waiting, r.Agent) // it goes before it has come
		return
	case !again && len(j.joined)+len(j.waiting) >= j.rules.MaxAgents:
		e.refuseStatus(r.Agent, coordinator.StatusNotAdmitted)
		return
	}
	if _, ok := e.admits(r); !ok {
		e.refuseStatus(r.Agent, coordinator.StatusNotAdmitted)
		return
	}
	e.letJoin(now, ev)
}

// announcedAnew hears an agent that has joined and says something else of itself
// than before.
func (e *Engine) announcedAnew(now time.Time, a *agent, ev coordinator.AgentReported) {
	if !e.joining.has(a.Spec.ID) || ev.Report.Status == coordinator.StatusOffline || ev.Report.Capabilities == nil {
		return
	}
	spec, ok := e.admits(&ev.Report)
	switch {
	case !ok:
		e.refuseStatus(a.Spec.ID, coordinator.StatusNotAdmitted)
	case spec.Queue != a.Spec.Queue || spec.MaxConcurrent != a.Spec.MaxConcurrent ||
		!slices.Equal(spec.Capabilities, a.Spec.Capabilities),
		!maps.Equal(spec.Labels, a.Spec.Labels):
		e.letJoin(now, ev)
	}
}

func (e *Engine) letJoin(now time.Time, ev coordinator.AgentReported) {
	if e.following {
		return // whoever leads lets agents join, and records it
	}
	j := &e.joining
	ev.Report.Capabilities = slices.Clone(ev.Report.Capabilities)
	ev.Report.Labels = maps.Clone(ev.Report.Labels)
	j.waiting[ev.Report.Agent] = ev
	if j.turn.index < 0 {
		e.timers.schedule(&j.turn, now.Add(joinDelay))
	}
}

// admits makes a place in the fleet of an announcement; false when the rules do
// not admit it or its queue is somebody else's.
func (e *Engine) admits(r *coordinator.AgentReport) (coordinator.AgentSpec, bool) {
	spec, ok := e.joining.rules.Admit(r)
	if !ok {
		return spec, false
	}
	owner := e.fleet.ByQueue[spec.Queue]
	return spec, owner == nil || owner.Spec.ID == spec.ID
}

// join lets everybody in who waits for it, and hears their reports.
func (e *Engine) join(now time.Time) {
	j := &e.joining
	var came []coordinator.AgentReported
	queues := make(map[string]bool)
	for _, id := range slices.Sorted(maps.Keys(j.waiting)) {
		ev := j.waiting[id]
		spec, ok := e.admits(&ev.Report)
		if !ok || queues[spec.Queue] {
			e.refuseStatus(id, coordinator.StatusNotAdmitted)
			continue
		}
		queues[spec.Queue] = true
		j.joined[id], j.changed[id] = spec, struct{}{}
		came = append(came, ev)
	}
	clear(j.waiting)
	e.recordJoined()
	e.install(now, e.policy)
	for _, ev := range came {
		a := e.fleet.ByID[ev.Report.Agent]
		if a.Heard.IsZero() { // its queue may not exist yet
			a.QueueMissing = true
			e.askForQueue(now, a)
			e.reported(now, ev)
		}
	}
}

// scheduleForget lets an agent that had joined leave the fleet in its time.
func (e *Engine) scheduleForget(now time.Time, a *agent) {
	if e.joining.has(a.Spec.ID) && a.forget.index < 0 {
		e.timers.schedule(&a.forget, now.Add(e.joining.rules.ForgetAfter))
	}
}

// forgetJoined drops an agent that has been gone for long.
func (e *Engine) forgetJoined(now time.Time, a *agent) {
	if !a.Gone() || !e.joining.has(a.Spec.ID) {
		return
	}
	if a.Leased() > 0 || a.TakenQueue != "" || e.following {
		e.timers.schedule(&a.forget, now.Add(e.joining.rules.ForgetAfter))
		return
	}
	delete(e.joining.joined, a.Spec.ID)
	e.joining.changed[a.Spec.ID] = struct{}{}
	if e.joining.turn.index < 0 {
		e.timers.schedule(&e.joining.turn, now.Add(joinDelay))
	}
}
