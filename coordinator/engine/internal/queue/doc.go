// Package queue answers "which task goes next, in one order for all?"
//
//	batches.go  tasks of one kind that arrive together: which wait for others, which share a batch id
//	retries.go  tasks that came back: how long each waits, and the budget for them
//
// # What it must never do
//
// It answers with values and calls nothing of the kernel. It dispatches, fails, records and schedules nothing,
// reads no clock, and knows neither agents nor quota. T stands for the kernel's task: it is stored, compared and
// handed back, and never looked into. It is for one goroutine.
package queue
