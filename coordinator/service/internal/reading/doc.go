// Package reading answers: what do users see of tasks, agents and quotas?
//
// It asks the engine of a leader or a standby between two events, and the recent tasks, and answers in the types of
// package view: both show the same, because both show it out of the same state.
//
//	reader.go  how the engine is asked
//	tasks.go   recent tasks, why they were decided so, and how they would be now
//	fleet.go   agents and capabilities
//	quotas.go  what is used of quotas, and whether there is some left
//	depths.go  what the broker last said of Taskbus's own queues
//
// # What it must never do
//
// It changes nothing, never asks the broker, and keeps no loop from its work: what is large is read in turns.
package reading
