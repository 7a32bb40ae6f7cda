// Package chart answers one question: what does a simulation's report look like?
//
// It draws side by side how long tasks waited, what the decisions gave away as time
// went on, and which agents did the work, one colour for each strategy; and of agents that pull,
// how long what each holds will take it, one colour for each agent.
//
// It must never compute a result: what it draws stands in the report. The same
// report gives the same bytes.
package chart
