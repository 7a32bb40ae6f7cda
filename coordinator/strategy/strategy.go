package strategy

import (
	"fmt"
	"slices"
	"strings"

	"taskbus/coordinator"
)

// Score is a formula of agents.yaml, compiled elsewhere: the score of one agent,
// larger is better. An error or NaN means that the agent has none.
type Score func(*coordinator.Case, *coordinator.AgentView, *coordinator.Standing) (float64, error)

// Options are what agents.yaml may say of a strategy. A kind uses those that
// concern it and refuses the others.
type Options struct {
	// Weights of the terms of `weighted`, by name; each at least 0.
	Weights map[string]float64
	// AffinityLabel names the label in which task and agent should agree;
	// SessionLabel the label of a task whose equals should go to the same agent.
	AffinityLabel, SessionLabel string
	// Exploration is the share of tasks for which success rates are drawn, 0 to 1;
	// negative means the default.
	Exploration float64
	// Formula is the compiled text of FormulaText.
	Formula     Score
	FormulaText string
}

// Defaults are the options of a strategy of which agents.yaml says nothing.
func Defaults() Options { return Options{Exploration: -1} }

// kind is one way to choose, before it is configured.
type kind struct {
	name string
	// make builds the strategy, or says what is wrong with the options.
	make func(Options) (coordinator.Strategy, error)
	// configured kinds do nothing without options: they are enabled only where
	// agents.yaml lists them.
	configured bool
}

// Default is used where no configuration names another.
const Default = CapabilityMatchName

// registry is every kind there is. Sorted by name.
var registry = []kind{
	{name: CapabilityMatchName, make: plain(capabilityMatch)},
	{name: LeastLoadedName, make: plain(leastLoaded)},
	{name: PriorityBasedName, make: plain(priorityBased)},
	{name: RoundRobinName, make: plain(roundRobin)},
}

// Names lists the known strategies, sorted.
func Names() []string {
	names := make([]string, len(registry))
	for i := range registry {
		names[i] = registry[i].name
	}
	return names
}

// Known tells whether there is a strategy of that name.
func Known(name string) bool { return find(name) != nil }

// Build makes the strategy of that name with these options. The error says what
// is wrong with them.
func Build(name string, o Options) (coordinator.Strategy, error) {
	k := find(name)
	if k == nil {
		return coordinator.Strategy{}, fmt.Errorf("no strategy is called %q; known are %s", name, strings.Join(Names(), ", "))
	}
	s, err := k.make(o)
	if err != nil {
		return coordinator.Strategy{}, fmt.Errorf("strategy %s: %w", name, err)
	}
	return s, nil
}

// All builds every strategy that needs no options, sorted by name.
func All() []coordinator.Strategy {
	var all []coordinator.Strategy
	for _, k := range registry {
		if k.configured {
			continue
		}
		if s, err := k.make(Defaults()); err == nil {
			all = append(all, s)
		}
	}
	return all
}

func find(name string) *kind {
	i, ok := slices.BinarySearchFunc(registry, name, func(k kind, name string) int { return strings.Compare(k.name, name) })
	if !ok {
		return nil
	}
	return &registry[i]
}

// plain is a strategy that has no options.
func plain(s coordinator.Strategy) func(Options) (coordinator.Strategy, error) {
	return func(Options) (coordinator.Strategy, error) { return s, nil }
}
