// Package priorities answers one question: how long do priorities wait in an overload, by order of service?
//
// It has [fairqueue.Shares], by which production's priorities take turns, order tasks on a virtual clock,
// and beside it what else one could do. Every order gets the same tasks, and a task takes as long under
// each.
//
// # The world
//
// So many slots, each of which any task may have. Tasks come at random for a time, more than the slots
// can do, and none leaves before it has had a slot.
//
// # The orders
//
//	weighted  priorities take turns by weight (Taskbus); of one priority first come, first served
//	strict    the highest priority that waits (priority_order: strict)
//	ageing    when it came, less its priority times the ageing: waiting so long outweighs a step
//	fcfs      first come, first served
//
// # What is measured
//
//	wait   from a task's arrival to its start, by priority
//	share  which part of the starts was the priority's, while all that come come
//
// # What it must never do
//
// Read a clock, roll dice or start a goroutine: the same scenario gives the same bytes. Nor re-implement
// a decision: whose turn it is by weight is what coordinator/fairshare says.
package priorities
