package engine

import (
	"time"

	"taskbus/coordinator"
)

// silentInstances is how many of its heartbeats a process may miss beside another before it is taken to
// have ended.
const silentInstances = 3

// instanceSilence is how long one of several processes may be silent.
func (e *Engine) instanceSilence(a *agent) time.Duration {
	return min(silentInstances*a.Spec.HealthCheckInterval, e.staleAfter(a))
}

// hearInstance notes which process a report is of. It reports whether the report is
// the goodbye of one of several, and says nothing of the agent.
func (e *Engine) hearInstance(now time.Time, a *agent, ev *coordinator.AgentReported) (oneOfSeveral bool) {
	r := &ev.Report
	if r.Instance == "" || !ev.Live || r.Relayed {
		return false
	}
	silent := e.instanceSilence(a)
	if r.Status == coordinator.StatusOffline {
		return a.Instances.Leaves(now, r.Instance, silent)
	}
	if a.Instances.Note(now, r.Instance, silent) {
		e.emit(coordinator.AgentShared{Agent: a.Spec.ID, Instances: a.Instances.Among(now, silent)})
	}
	return false
}
