package strategy

import "taskbus/coordinator"

// RoundRobinName is COORDINATOR's round_robin.
const RoundRobinName = "round_robin"

// roundRobin takes the eligible agent that was given work least recently. On a
// constant fleet that is COORDINATOR's index walking over the list; unlike an
// index it skips none and repeats none when agents come and go.
var roundRobin = coordinator.Strategy{
	Name:  RoundRobinName,
	Terms: []string{"last assigned"},
	About: "the agent that was given work least recently",
	Key: func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) coordinator.Key {
		return coordinator.Key{First: float64(a.LastAssigned), Second: 0}
	},
}
