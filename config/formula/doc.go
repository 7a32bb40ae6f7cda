// Package formula answers one question: what score does a formula of agents.yaml
// give an agent?
//
// Formulas are written in CEL, the Common Expression Language: `success_rate /
// (1 + load)`, `priority >= 2 ? free_slots : -agent_cost`, `labels.zone ==
// task_labels.zone ? 1 : 0`. They speak of the terms of package strategy, all
// of them numbers, and of a few texts (see [Names]). [Compile] checks names and types
// once; what it returns only computes.
//
// # Numbers
//
// CEL distinguishes 1 and 1.0 and adds neither to the other. People who write formulas do
// not, so whole numbers count as 1.0 wherever that makes sense of the formula.
// Where it does not (an index, a remainder) they stay as written.
//
// # What it must never do
//
// A formula cannot loop, call out, or keep anything; it is bounded in length when it
// is compiled, and in cost by that. One that fails for an agent (a division of whole
// numbers by zero, a label that is not there) gives an error for that agent, never a
// panic. This is the only package that sees cel-go.
package formula
