package criteria

import (
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// capabilities: an agent has every capability that the task and its type require.
type capabilities struct{}

func (capabilities) Causes() []coordinator.Ineligibility {
	return []coordinator.Ineligibility{coordinator.LacksCapability}
}

func (capabilities) Own(n Needs) bool { return len(n.Task.Required) > 0 }

func (capabilities) Key(k *Key, n Needs) {
	for _, c := range n.Required {
		k.Add(c)
	}
}

func (capabilities) Filter(f *Fleet, n Needs, set agentset.Set) {
	for _, c := range n.Required {
		set.Keep(f.Offering[c])
	}
}

func (capabilities) Check(n Needs, a *coordinator.AgentSpec) coordinator.Ineligibility {
	for _, c := range n.Required {
		if !Offers(a, c) {
			return coordinator.LacksCapability
		}
	}
	return coordinator.Eligible
}

func (capabilities) MayJoin(n Needs, d *coordinator.Discovery) bool {
	return len(n.Required) == 0 || d.AdmitsCapabilities(n.Required)
}

// Offers reports whether the agent has the capability.
func Offers(a *coordinator.AgentSpec, capability string) bool {
	_, has := slices.BinarySearch(a.Capabilities, capability)
	return has
}

// Lacking lists the capabilities of required that the agent does not have.
func Lacking(a *coordinator.AgentSpec, required []string) []string {
	var lacking []string
	for _, c := range required {
		if !Offers(a, c) {
			lacking = append(lacking, c)
		}
	}
	return lacking
}

var drawnCapabilities = []string{"c1", "c2", "c3", "c4"}

func (capabilities) DrawAgent(draw func(int) int, a *coordinator.AgentSpec) {
	a.Capabilities = nil
	for _, c := range drawnCapabilities {
		if draw(2) == 0 {
			a.Capabilities = append(a.Capabilities, c)
		}
	}
}

func (capabilities) DrawTask(draw func(int) int, n *Needs, _ []coordinator.AgentID) {
	n.Task.Required = nil
	for _, c := range drawnCapabilities {
		if draw(6) == 0 {
			n.Task.Required = append(n.Task.Required, c)
		}
	}
	n.Required = coordinator.MergeSorted(n.Required, n.Task.Required)
}
