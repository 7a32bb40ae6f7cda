package strategy

import "taskbus/coordinator"

// LeastLoadedName is COORDINATOR's least_loaded.
const LeastLoadedName = "least_loaded"

// leastLoaded looks at the load alone. The load counts the coordinator's own
// dispatches at once; on heartbeats alone all tasks would herd onto one agent
// until its next report.
var leastLoaded = coordinator.Strategy{
	Name:  LeastLoadedName,
	Terms: []string{"load"},
	About: "the least loaded agent",
	Key: func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) coordinator.Key {
		return coordinator.Key{First: a.Load, Second: 0}
	},
}
