package strategy

import (
	"fmt"

	"taskbus/coordinator"
)

// CapabilityMatchName is COORDINATOR's default strategy.
const CapabilityMatchName = "capability_match"

// The words of its option prefer.
const (
	PreferGeneralists = "generalists"
	PreferSpecialists = "specialists"
)

// newCapabilityMatch is COORDINATOR's, literally, unless specialists are preferred.
func newCapabilityMatch(o Options) (coordinator.Strategy, error) {
	if o.Specialists {
		return specialistsFirst, nil
	}
	return capabilityMatch, nil
}

// capabilityMatch is the least loaded of the capable, and among equals the one with most
// capabilities (key = load, −capabilities). The second term gives work to the generalist
// first; the other strategies do not use it for that reason.
var capabilityMatch = coordinator.Strategy{
	Name:  CapabilityMatchName,
	Terms: []string{"load", "-capabilities"},
	About: "the least loaded capable agent, among equals the one with most capabilities",
	Key: func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) coordinator.Key {
		return coordinator.Key{First: a.Load, Second: -float64(a.Capabilities)}
	},
}

// fewerFirst is what a capability weighs beside what its agents are in demand: it decides between
// agents of which that says nothing, as in a fleet that has had no work yet.
const fewerFirst = 1e-6

// specialistsFirst keeps for other work whatever other work needs: the agent goes first whose
// capabilities are least in demand, and among equals the least loaded. Load comes second: a
// specialist takes tasks into all of its slots before the first one goes to an agent that others
// may need. Demand is compared to three digits, for it differs in the fourth between agents that
// are needed alike.
var specialistsFirst = coordinator.Strategy{
	Name:       CapabilityMatchName,
	Parameters: fmt.Sprintf("%s=%s", OptionPrefer, PreferSpecialists),
	Terms:      []string{"flexibility", "capabilities", "load"},
	About:      "the capable agent that is needed least for other work, among equals the least loaded",
	Key: func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) coordinator.Key {
		return coordinator.Key{First: threeDigits(a.Flexibility) + fewerFirst*float64(a.Capabilities), Second: a.Load}
	},
	Explain: func(_ *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing, v *coordinator.TermValues) {
		v[0], v[1], v[2] = a.Flexibility, float64(a.Capabilities), a.Load
	},
}
