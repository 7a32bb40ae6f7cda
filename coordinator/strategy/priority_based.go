package strategy

import "taskbus/coordinator"

// PriorityBasedName is COORDINATOR's priority_based.
const PriorityBasedName = "priority_based"

// priorityBased keeps the best-ranked agents for urgent work: a task of priority
// high or critical goes to the lowest rank (then the lowest load), any other to
// the lowest load.
var priorityBased = coordinator.Strategy{
	Name:  PriorityBasedName,
	Terms: []string{"rank (high and critical tasks), else load", "load (high and critical tasks)"},
	About: "high and critical tasks to the best-ranked agent, all others to the least loaded",
	Key: func(c *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) coordinator.Key {
		if c.Task.Priority >= coordinator.PriorityHigh {
			return coordinator.Key{First: float64(a.Rank), Second: a.Load}
		}
		return coordinator.Key{First: a.Load, Second: 0}
	},
}
