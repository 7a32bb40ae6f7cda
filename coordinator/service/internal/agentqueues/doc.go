// Package agentqueues answers "which queues of agents are there, and how much is in them?"
//
//	queues.go   what one session has to do with them
//	declare.go  queues that are missing, or new in agents.yaml
//	watch.go    looking at the queues of agents that have work
//	names.go    which queues are agents', whether agents.yaml lists them or not
//
// # What it must never do
//
// It consumes nothing and deletes nothing, and decides of no agent that it is gone: the engine does, with what was
// seen.
package agentqueues
