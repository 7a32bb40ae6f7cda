package strategy

import (
	"slices"

	"taskbus/coordinator"
)

// Func makes a key of one eligible agent for one task; the smallest key wins.
// It is called once per eligible agent and decision, must not block or
// allocate, and must not return NaN.
type Func func(t *coordinator.Task, a *coordinator.AgentView) coordinator.Key

// Strategy is a named way to choose.
type Strategy struct {
	Name string
	// Terms name the elements of the key, in order, for explanations; "" for an
	// element that is not used.
	Terms [2]string
	// About is one sentence for people.
	About string
	Key   Func
}

// Default is used where no configuration names another.
const Default = CapabilityMatchName

// registry is every strategy there is. Sorted by name.
var registry = []Strategy{
	capabilityMatch,
	leastLoaded,
	priorityBased,
	roundRobin,
}

// Names lists the known strategies, sorted.
func Names() []string {
	names := make([]string, len(registry))
	for i, s := range registry {
		names[i] = s.Name
	}
	return names
}

// Lookup finds a strategy by name.
func Lookup(name string) (Strategy, bool) {
	i, ok := slices.BinarySearchFunc(registry, name, func(s Strategy, name string) int {
		switch {
		case s.Name < name:
			return -1
		case s.Name > name:
			return 1
		}
		return 0
	})
	if !ok {
		return Strategy{}, false
	}
	return registry[i], true
}
