// Package callers answers "which requests wait for what comes of a cancel or an order, and what do they hear?"
//
//	callers.go  the requests that wait, by token
//	cancel.go   what the caller of a cancel is answered
//
// # What it must never do
//
// It asks the engine for nothing: a caller waits here for what the session hears. No caller waits without bound, and
// handing it its answer never blocks.
package callers
