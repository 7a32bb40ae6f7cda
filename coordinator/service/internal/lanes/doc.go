// Package lanes answers "which queues of lanes are there, and which are read?"
//
//	queues.go  queues that are made, read and deleted when the engine says so
//	watch.go   looking how much is in them
//
// # What it must never do
//
// It decides of no task that it is moved, and of no lane that it is read: the engine does. It publishes and
// acknowledges nothing.
package lanes
