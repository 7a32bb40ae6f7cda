// Package strategy answers one question: which of the eligible agents is best
// for this task?
//
// Eligibility is decided before a strategy is asked and cannot be overruled by
// one. A strategy is a stateless function from a task and one agent's view to a
// [coordinator.Key]; the engine takes the agent with the smallest key. Equal
// keys go to the agent that has waited longest for work, then to the smaller
// id, so that no strategy has a constant favourite and none depends on the
// order in which agents are listed.
//
// To add a strategy: write one file with its function, add one line to the
// registry in strategy.go.
//
// It must never read a clock, roll dice, keep state between calls, or do I/O.
package strategy
