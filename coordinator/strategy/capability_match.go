package strategy

import "taskbus/coordinator"

// CapabilityMatchName is COORDINATOR's default strategy.
const CapabilityMatchName = "capability_match"

// capabilityMatch is COORDINATOR's, literally: the least loaded of the capable,
// and among equals the one with most capabilities (key = load, −capabilities).
// The second term gives work to the generalist first; the other strategies do
// not use it for that reason.
var capabilityMatch = coordinator.Strategy{
	Name:  CapabilityMatchName,
	Terms: []string{"load", "-capabilities"},
	About: "the least loaded capable agent, among equals the one with most capabilities",
	Key: func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) coordinator.Key {
		return coordinator.Key{First: a.Load, Second: -float64(a.Capabilities)}
	},
}
