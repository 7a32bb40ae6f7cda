package engine_test

import (
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// ejection is an agent and a capability of which it is ejected.
type ejection struct {
	agent      coordinator.AgentID
	capability string
}

// ejections is which agents are ejected from what, as the engine says, which CheckIndexes
// compares with the breakers. When one is, is for the tests of package breaker to
// say; the model sees to it that no task goes to it.
type ejections map[ejection]bool

func allEjections(e *engine.Engine) ejections {
	all := make(ejections)
	for capability, agents := range e.Ejected() {
		for _, id := range agents {
			all[ejection{id, capability}] = true
		}
	}
	return all
}

// from reports whether the agent is ejected from anything that the task requires.
func (x ejections) from(id coordinator.AgentID, required []string) bool {
	if len(required) == 0 {
		return x[ejection{id, ""}]
	}
	return slices.ContainsFunc(required, func(c string) bool { return x[ejection{id, c}] })
}

// required is what the task needs, with its route.
func (m *model) required(t *coordinator.Task) []string {
	return coordinator.MergeSorted(m.policy.Routes[t.Type].Required, t.Required)
}

// mayBeEjected reports whether the agent may be ejected at some time of the event that is
// being applied: before it, or after. What happens in between is not seen.
func (m *model) mayBeEjected(id coordinator.AgentID, t *coordinator.Task) bool {
	return m.ejectedBefore.from(id, m.required(t)) || m.ejected.from(id, m.required(t))
}

// mayTrust reports whether the agent may have been given the task: it was not ejected
// all the time, or it is tried with it.
func (m *model) mayTrust(id coordinator.AgentID, t *coordinator.Task, probe bool) bool {
	return probe || !m.ejectedBefore.from(id, m.required(t)) || !m.ejected.from(id, m.required(t))
}

// isProbe reports whether a half-open breaker tries its agent with this dispatch.
func (h *history) isProbe(d *coordinator.Dispatch) bool {
	a := h.e.KnownAgent(d.Agent)
	if a == nil {
		return false
	}
	t := a.Find(d.Task.ID, d.Attempt)
	return t != nil && t.Probe()
}
