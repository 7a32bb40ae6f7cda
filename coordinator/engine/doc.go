// Package engine is the deterministic core: it answers "what must happen now?"
//
//	Apply(now, event) → effects
//
// It makes every decision of Taskbus, in one goroutine, without locks: which
// agent gets a task, which tasks wait, in which order, and what is announced when
// a task cannot be served. The same engine runs in production, in replay, in the
// simulator and in the property tests.
//
// # What it must never do
//
// No I/O, no goroutine, no clock, no random numbers, no logging. Time is the
// argument of Apply. Random choices are a hash of ids with a configured seed. No
// result may depend on the order of a map: every comparison ends in an id or a
// sequence number.
//
// # Its parts
//
// Three packages divide the work. internal/state is what is known, and every change that is complete by itself.
// internal/questions is what users ask of it. Here is the kernel, which alone decides what is done and in which order.
// The parts below internal/state (fleet, queue, admission, …) know neither, nor each other.
//
//	engine.go    the entry points
//	kernel.go    the order in which things are done: one method per event
//	install.go   another policy: all waiting tasks are decided again
//	session.go   begin and end of a session; clocks that were ahead, and times in which no agent can be heard
//	task.go      the life of an open task: received, resumed, waiting
//	admit.go     whether a task waits, for how long, or goes at once; tasks to which a strategy gives no agent
//	settle.go    dispatches, and what the broker reports of them
//	lease.go     overdue leases
//	result.go    what agents report of how tasks ended
//	outcome.go   which results and returns count for an agent, and which against it
//	reassign.go  dispatches that come back
//	retry.go     tasks that came back wait, and are tried again
//	cancel.go    tasks that are withdrawn
//	end.go       tasks that fail because they have waited too long, or that their lane has
//	patience.go  tasks that have waited for long enough, or for their preferred agents alone
//	batch.go     tasks that are decided together
//	isolate.go   tasks that must have an agent to themselves
//	unresolved.go  unresolved dispatches of a lost session or a coordinator before this one
//	agent.go     what follows when the fleet changes; heartbeats; agents that join by themselves
//	demand.go    how much each capability is asked for
//	auctions.go  tasks are offered, bids come in, winners get their tasks
//	claim.go     work that agents claim
//	quota.go     tasks that lack quota, and which are served when some is free again
//	calls.go     what is asked about LLM calls
//	controls.go  standing changes to quotas.yaml: made, recorded, announced, ended
//	lanes.go     tasks that are moved to queues of their own, and come back
//	fold.go      begin and end of following another engine
//
// # Invariants
//
//   - A task has one live dispatch, unless the agent of an earlier one is presumed lost
//     or it is not known whether the earlier one arrived.
//   - No dispatch is made to an agent that is not eligible at that moment.
//   - No decision of the engine makes an agent's known outstanding work (reported active
//     tasks plus dispatches not yet covered by a report) grow beyond its maximum.
//   - Every task received and not yet settled is in exactly one state.
//   - While a class of tasks waits, no agent that could take them is ready.
//   - A batch contains tasks of one kind and goes to one agent, and no other task is
//     overtaken by it.
package engine
