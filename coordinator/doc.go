// Package coordinator is the vocabulary of Taskbus: tasks, agents, decisions, refusals, events and effects.
//
// # What it answers
//
// "What are we talking about?" and nothing else. It holds data and the texts
// that render it; the deciding is done in coordinator/engine.
//
// # What it must never do
//
// No I/O, no clock, no chance, no logging: a time.Time is always an argument,
// and the import guard in tests/ keeps os, net, log, math/rand and context out.
//
// # The way of a task
//
//	task.assign ─► bus ─► messages.Decode ─► engine.Apply ─► bus publish ─► confirm ─► ack
//
// One direction. What an edge learns later (a confirm, a returned message, a
// timer) comes in again at the front, as an [Event].
//
// # The states of a task
//
//	            TaskReceived / TaskReturned
//	                       │
//	     ┌─────────────────┼───────────────────┐
//	     ▼                 ▼                   ▼
//	 duplicate          pending ◄────────┐   failing ──► failed (confirmed)
//	(acked, told)          │             │     ▲
//	                       ▼             │     │ out of time, retries, capability
//	                  dispatching ───────┴─────┘
//	                       │  unroutable, nacked: slot released, chosen again
//	                       ▼
//	                    leased (confirmed, source acknowledged)
//	                       │
//	     ┌─────────────────┼──────────────┬────────────────────┐
//	     ▼                 ▼              ▼                    ▼
//	 ResultReported   TaskReturned    deadline          a heartbeat speaks for it,
//	 completed:       attempt + 1     failed:           its agent says no more:
//	 succeeded,       (see above)     task_timeout      let go
//	 failed,
//	 cancelled
//
// A pending task may be moving: on its way into its lane, where it is the broker's again
// until TaskReceived (see engine/lanes.go).
//
// A task that the coordinator has received is in exactly one of these states.
// A CancelRequested ends a pending task, and has the agent told of a leased one.
// When the broker session ends, everything that waits is forgotten here and
// redelivered by the broker; a dispatching task is leased then, and a copy of it
// goes the same way, to the same agent under the same dispatch id.
package coordinator
