// Package strategy answers one question: which of the eligible agents is best
// for this task?
//
// Eligibility is decided before a strategy is asked and cannot be overruled by
// one. A strategy is a stateless function from a task, one agent's view and what
// is known of how it does with such tasks to a [coordinator.Key]; the engine takes
// the agent with the smallest key. Equal keys go to the agent that has waited
// longest for work, then to the smaller id, so that no strategy has a constant
// favourite and none depends on the order in which agents are listed.
//
// Strategies that score (load_balanced, reward_rate, weighted, expression) give minus
// the score and then the agent's flexibility: of those that score alike, the one that
// is needed least for other work goes first. What scores are made of has a name, see
// [Terms]; weights and formulas use the same names.
//
// market is another strategy under its own name, with word for the engine that agents
// may bid before it decides.
//
// To add a strategy: write one file with its function, add one line to the
// registry in strategy.go. docs/adding-a-strategy.md is an example.
//
// It must never read a clock, roll dice, keep state between calls, or do I/O. It
// does not know how formulas are written, they come in as functions.
package strategy
