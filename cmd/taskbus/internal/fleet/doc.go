// Package fleet answers: how are the coordinators and the agents?
//
// It is `taskbus status`, `health`, `capabilities` and `agents`, with the orders for one agent. It shows what a
// coordinator says, and must never judge by itself how an agent is.
package fleet
