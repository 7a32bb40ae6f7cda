// Package takeback answers "which queues of agents that are gone or drained are consumed for others, and by which
// consumer?"
//
//	takeback.go  consumers that begin and end, and which of a queue's consumers are ours
//	foreign.go   leaving alone what is not ours there
//
// # What it must never do
//
// It decides for no agent that its work is taken back, and settles no dispatch: the engine and the session do. It must
// never take, for good, what is no dispatch out of a queue that agents.yaml does not list.
package takeback
