package strategy

import "taskbus/coordinator"

// LoadBalancedName is the assignment of ADR-018.
const LoadBalancedName = "load_balanced"

// loadBalanced is ADR-018's score, success_rate / (1 + load): an agent that is full
// scores half of what it does when idle. A full one never gets that far, the
// engine asks only of agents with a free slot. ADR-018 leaves open which goes first
// of those that score alike: here the one least in demand for other work.
var loadBalanced = coordinator.Strategy{
	Name:    LoadBalancedName,
	About:   "the highest success_rate / (1 + load)",
	Terms:   []string{"success rate", "load", "flexibility"},
	Learned: true,
	Scored:  true,
	Key: func(_ *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing) coordinator.Key {
		return coordinator.Key{First: -assignmentScore(s.Success, a.Load), Second: a.Flexibility}
	},
	Explain: func(_ *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing, v *coordinator.TermValues) {
		v[0], v[1], v[2] = s.Success, a.Load, a.Flexibility
	},
}

// assignmentScore is ADR-018's formula; both arguments from 0 to 1.
func assignmentScore(successRate, load float64) float64 { return successRate / (1 + load) }
