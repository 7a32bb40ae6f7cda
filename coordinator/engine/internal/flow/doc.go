// Package flow answers "how much was dispatched lately?"
//
// It counts in windows of a minute, and answers of the present one and the one before.
//
//	flow.go  the cost of dispatches by group ([Flow])
//	pace.go  how many tasks of a class are dispatched while others of it wait ([Pace])
//
// # What it must never do
//
// It is for views: no decision depends on it. It reads no clock.
package flow
