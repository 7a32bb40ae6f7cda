// Package criteria answers "which agents could ever have this task?", from what the task asks and what agents.yaml says
// of the agents. What follows from the state of an agent (absent, full, ejected) is the engine's. It stands beside the
// engine because `taskbus check` asks the same of routes.
//
// A criterion is one file and one row of All. From the row follow which agents are feasible for a task, why the others
// are not, which tasks are of one class, whether an agent that may join could have a task, what `taskbus check` says of
// routes, and what the random histories of the tests draw. The words of a cause, and the reason that a task fails with,
// are in its row in package coordinator (ineligibility.go). CONTRIBUTING.md has the order of the files.
package criteria

import (
	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// All are the criteria in the order in which they are tested: the first that an agent does not meet is why it may not
// have the task.
var All = [...]Criterion{capabilities{}, barred{}, preferred{}}

// Needs is what a task asks of its agent at a moment: what its message says, with what its type adds and what became of
// it so far.
type Needs struct {
	Task *coordinator.Task
	// Required are its capabilities and those that its type requires; sorted.
	Required []string
	// Barred agents may not have it: the task excludes them, or they had it; sorted.
	Barred []coordinator.AgentID
	// Only these may have it as yet; sorted. None: any may.
	Only []coordinator.AgentID
}

// OfRoute is what the tasks of a type ask that ask for nothing beside what it asks.
func OfRoute(r *coordinator.Route) Needs { return Needs{Task: &plain, Required: r.Required} }

var plain coordinator.Task // asks for nothing

// A Criterion decides by what is the same for all tasks of a class and does not change while agents.yaml and the task
// stay as they are.
type Criterion interface {
	// Causes are why an agent does not meet it: at least one, no other criterion's.
	Causes() []coordinator.Ineligibility
	// Own reports whether the task asks more by it than its type does; Required is not known yet. If no criterion
	// does, the task is of its type's class, and Filter is not asked for it.
	Own(n Needs) bool
	// Key adds what the task asks by it: of two tasks that add the same, the same agents meet it.
	Key(k *Key, n Needs)
	// Filter takes the agents that do not meet it out of the set.
	Filter(f *Fleet, n Needs, set agentset.Set)
	// Check is why one agent does not meet it, or coordinator.Eligible.
	Check(n Needs, a *coordinator.AgentSpec) coordinator.Ineligibility
	// MayJoin reports whether the rules admit an agent that meets it.
	MayJoin(n Needs, d *coordinator.Discovery) bool
	// DrawAgent and DrawTask draw what agents.yaml says of an agent and what a task asks, out of so few values that
	// some agents meet it and others do not; draw returns one of 0 to n-1. For tests.
	DrawAgent(draw func(n int) int, a *coordinator.AgentSpec)
	DrawTask(draw func(n int) int, n *Needs, agents []coordinator.AgentID)
}

// Check is the first reason for which the agent may not have the task, or coordinator.Eligible.
func Check(n Needs, a *coordinator.AgentSpec) coordinator.Ineligibility {
	for _, c := range All {
		if why := c.Check(n, a); why != coordinator.Eligible {
			return why
		}
	}
	return coordinator.Eligible
}

// Own reports whether the task asks something that its type does not ask.
func Own(n Needs) bool {
	for _, c := range All {
		if c.Own(n) {
			return true
		}
	}
	return false
}

// MayJoin reports whether an agent that meets all criteria may join. Whether there is one is not known.
func MayJoin(n Needs, d *coordinator.Discovery) bool {
	for _, c := range All {
		if !c.MayJoin(n, d) {
			return false
		}
	}
	return true
}

// DrawAgent draws what agents.yaml says of an agent by all criteria, for tests.
func DrawAgent(draw func(n int) int, a *coordinator.AgentSpec) {
	for _, c := range All {
		c.DrawAgent(draw, a)
	}
}

// DrawTask draws what a task asks by all criteria, for tests.
func DrawTask(draw func(n int) int, n *Needs, agents []coordinator.AgentID) {
	for _, c := range All {
		c.DrawTask(draw, n, agents)
	}
}
