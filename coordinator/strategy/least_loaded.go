package strategy

import "taskbus/coordinator"

// LeastLoadedName is COORDINATOR's least_loaded.
const LeastLoadedName = "least_loaded"

// leastLoaded looks at the load alone. The load counts the coordinator's own
// dispatches at once; on heartbeats alone all tasks would herd onto one agent
// until its next report.
var leastLoaded = Strategy{
	Name:  LeastLoadedName,
	Terms: [2]string{"load", ""},
	About: "the least loaded agent",
	Key: func(_ *coordinator.Task, a *coordinator.AgentView) coordinator.Key {
		return coordinator.Key{a.Load, 0}
	},
}
