// Package llmcalls answers "may this LLM call be made now, with which model, and what does it cost?"
//
// Calls that no task stands for ask for quota: they reserve, extend, consume, charge, release and
// settle it. They are charged to the same quotas as tasks. They have no turn, for they wait for no
// agent; but where tasks wait for a rate they stand back behind these.
//
//	calls.go   what is asked for, and the leases that it becomes
//	ends.go    how leases end: usage, doubts, what providers say
//	routes.go  which of several models a call, or a task, goes to
//	names.go   models that quotas.yaml does not name, in the history
//
// # What it must never do
//
// No clock, no chance. It knows neither tasks nor agents' slots: which task goes before a call it asks
// Waits. It emits and records nothing: its caller does, with the Outcome.
package llmcalls
