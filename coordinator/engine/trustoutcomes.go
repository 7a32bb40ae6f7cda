package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/breaker"
)

// How outcomes count for and against agents.

// entrust notes that the agent has been given a task: it may be the one by which a
// half-open breaker tries it.
func (e *Engine) entrust(a *agent, t *openTask) {
	b := e.trust.breakers
	if b == nil {
		return
	}
	if !b.Quiet() && a.number >= 0 {
		for _, c := range needed(t.needs.required) {
			p := breaker.Pair{Agent: a.number, Capability: c}
			e.changing(p, func() []breaker.Pair {
				taken, changed := b.Probe(p, t.task.ID)
				t.probe = t.probe || taken
				return changed
			})
		}
	}
	t.generation = e.trust.begun + b.Generation()
}

// countsFor lists the capabilities with which its agent is trusted more or less for how the
// dispatch ends: what its task requires, and those for which it is the probe. They differ when it
// was made by a leader whose policy had another route for tasks of its type; a probe that nobody
// ended would keep the agent ejected for ever. There must be breakers; probe: it was one until now.
func (e *Engine) countsFor(t *openTask, probe bool) []string {
	required := e.capabilitiesOf(t)
	if !probe || t.agent.number < 0 {
		return required
	}
	return coordinator.MergeSorted(required, e.trust.breakers.Probed(t.agent.number, t.task.ID))
}

// stamp is the generation of a dispatch, as the breakers at hand know it; one that is
// older than they are says nothing to them.
func (tr *trust) stamp(t *openTask) (generation uint64, known bool) {
	if t.generation < tr.begun {
		return 0, false
	}
	return t.generation - tr.begun, true
}

// praise notes that a dispatch has succeeded.
func (e *Engine) praise(now time.Time, a *agent, t *openTask) {
	probe := t.probe
	t.probe = false
	b := e.trust.breakers
	generation, known := e.trust.stamp(t)
	if b == nil || b.Quiet() || a.number < 0 || !known {
		return
	}
	for _, c := range e.countsFor(t, probe) {
		p := breaker.Pair{Agent: a.number, Capability: c}
		e.changing(p, func() []breaker.Pair { return b.Success(now, p, generation, t.task.ID) })
	}
}

// blame puts a fault down to the agent.
func (e *Engine) blame(now time.Time, a *agent, t *openTask) {
	probe := t.probe
	t.probe = false
	b := e.trust.breakers
	generation, known := e.trust.stamp(t)
	if b == nil || a.number < 0 || !known {
		return
	}
	t.blamed = with(t.blamed, a.spec.ID)
	failing := e.learner.Failing(a.number, e.kind(t.task.Type))
	for _, c := range e.countsFor(t, probe) {
		p := breaker.Pair{Agent: a.number, Capability: c}
		e.changing(p, func() []breaker.Pair { return b.Fault(now, p, generation, t.faultKey()) })
		e.heed(b.Away(p, a.state != coordinator.AgentOnline)) // a breaker that is new knows nothing of that
		if failing {
			e.changing(p, func() []breaker.Pair { return b.Trip(now, p) })
		}
	}
}

// faultKey is what a fault is counted for: all tasks of a batch, which one handler has
// in hand together, are one.
func (t *openTask) faultKey() coordinator.TaskID {
	if t.batch != "" {
		return coordinator.TaskID(t.batch)
	}
	return t.task.ID
}

// excuse ends a dispatch that says nothing of its agent.
func (e *Engine) excuse(t *openTask) {
	if !t.probe || e.trust.breakers == nil {
		return
	}
	t.probe = false
	if t.agent.number < 0 {
		return
	}
	for _, c := range e.countsFor(t, true) {
		p := breaker.Pair{Agent: t.agent.number, Capability: c}
		e.changing(p, func() []breaker.Pair { return e.trust.breakers.Release(p, t.task.ID) })
	}
}

// forgive takes back what was put down to agents of which each has failed with the
// same task: it is the task that fails.
func (e *Engine) forgive(now time.Time, t *openTask) {
	for _, id := range t.taught {
		if a := e.fleet.byID[id]; a != nil {
			kind := e.kind(t.task.Type)
			e.learner.Forgive(a.number, kind, now)
			e.record(&coordinator.Forgiven{Agent: id, Type: kind.Name(), At: now})
		}
	}
	for _, id := range t.blamed {
		e.forgiveFault(now, t, id)
	}
	t.taught = nil
}

// forgiveFault takes back the fault that the task was for one agent's breakers.
func (e *Engine) forgiveFault(now time.Time, t *openTask, id coordinator.AgentID) {
	if !contains(t.blamed, id) {
		return
	}
	t.blamed = without(t.blamed, id)
	a := e.fleet.byID[id]
	if a == nil || e.trust.breakers == nil {
		return
	}
	for _, c := range e.capabilitiesOf(t) {
		p := breaker.Pair{Agent: a.number, Capability: c}
		e.changing(p, func() []breaker.Pair { return e.trust.breakers.Forgive(now, p, t.faultKey()) })
	}
}
