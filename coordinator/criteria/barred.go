package criteria

import (
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// barred: an agent is not among those that the task excludes, nor among those that had it and may not have it again.
// Both are one criterion: which of the two keeps an agent from a task makes no difference for the class.
type barred struct{}

func (barred) Causes() []coordinator.Ineligibility {
	return []coordinator.Ineligibility{coordinator.ExcludedByTask, coordinator.AlreadyTried}
}

func (barred) Own(n Needs) bool { return len(n.Barred) > 0 }

func (barred) Key(k *Key, n Needs) {
	for _, id := range n.Barred {
		k.Add(string(id))
	}
}

func (barred) Filter(f *Fleet, n Needs, set agentset.Set) {
	for _, id := range n.Barred {
		if i, listed := f.Number(id); listed {
			set.Remove(i)
		}
	}
}

func (barred) Check(n Needs, a *coordinator.AgentSpec) coordinator.Ineligibility {
	switch {
	case slices.Contains(n.Task.Excluded, a.ID):
		return coordinator.ExcludedByTask
	case slices.Contains(n.Barred, a.ID):
		return coordinator.AlreadyTried
	}
	return coordinator.Eligible
}

func (barred) MayJoin(Needs, *coordinator.Discovery) bool { return true }

func (barred) DrawAgent(func(int) int, *coordinator.AgentSpec) {}

func (barred) DrawTask(draw func(int) int, n *Needs, agents []coordinator.AgentID) {
	n.Task.Excluded = nil
	if i := draw(2 * len(agents)); i < len(agents) {
		n.Task.Excluded = agents[i : i+1]
	}
	n.Barred = coordinator.MergeSorted(n.Barred, n.Task.Excluded)
}
