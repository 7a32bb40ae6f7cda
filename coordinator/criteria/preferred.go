package criteria

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// preferred: while a task waits for its preferred agents alone (widen_after_seconds), an agent is one of them.
type preferred struct{}

func (preferred) Causes() []coordinator.Ineligibility {
	return []coordinator.Ineligibility{coordinator.NotPreferred}
}

func (preferred) Own(n Needs) bool { return len(n.Only) > 0 }

func (preferred) Key(k *Key, n Needs) {
	for _, id := range n.Only {
		k.Add(string(id))
	}
}

func (preferred) Filter(f *Fleet, n Needs, set agentset.Set) {
	if len(n.Only) == 0 {
		return
	}
	only := f.None()
	for _, id := range n.Only {
		if i, listed := f.Number(id); listed {
			only.Add(i)
		}
	}
	set.Keep(only)
}

func (preferred) Check(n Needs, a *coordinator.AgentSpec) coordinator.Ineligibility {
	if len(n.Only) > 0 && !slices.Contains(n.Only, a.ID) {
		return coordinator.NotPreferred
	}
	return coordinator.Eligible
}

// MayJoin: a task whose preferred agents cannot have it goes to any (see the engine).
func (preferred) MayJoin(Needs, *coordinator.Discovery) bool { return true }

func (preferred) DrawAgent(func(int) int, *coordinator.AgentSpec) {}

func (preferred) DrawTask(draw func(int) int, n *Needs, agents []coordinator.AgentID) {
	n.Task.Preferred, n.Task.WidenAfter, n.Only = nil, 0, nil
	if i := draw(2 * len(agents)); i < len(agents) {
		n.Task.Preferred = agents[i:min(i+1+draw(2), len(agents))]
	}
	wait := [...]time.Duration{0, 0, time.Second, 20 * time.Second, 7 * 24 * time.Hour}
	if n.Task.WidenAfter = wait[draw(len(wait))]; n.Task.WidenAfter > 0 {
		n.Only = n.Task.Preferred
	}
}
