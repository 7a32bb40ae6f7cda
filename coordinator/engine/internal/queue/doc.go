// Package queue answers "which task goes next, in one order for all?"
//
//	queue.go    classes of waiting tasks that the same agents could take
//	line.go     what one agent, or any that is ready, could serve, in the order in which it is to go
//	batches.go  tasks of one kind that arrive together: which wait for others, which share a batch id
//	retries.go  tasks that came back: the budget for them
//	delays.go   how long each of these waits, and which agents may not have it meanwhile
//
// # What it must never do
//
// It answers with values; of the kernel it calls what only compares two tasks, and what keeps a task's place. It
// dispatches, fails, records and schedules nothing, reads no clock, and knows of agents no more than numbers and ids,
// and of quota no more than that a class or a part of it is parked.
//
// # Handles
//
// T stands for the kernel's task, C for its record of a class, which embeds a Class: both are handed back, and
// never looked into. The state of a class that only the kernel reads (what is offered, parked or was served) is in
// the record. It is for one goroutine.
package queue
