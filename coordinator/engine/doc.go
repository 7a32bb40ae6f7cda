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
//	engine.go    the entry points: one method per event
//	install.go   another policy: all waiting tasks are decided again
//	session.go   begin and end of a session; clocks that were ahead, and times in which no agent can be heard
//	task.go      the life of an open task: received, resumed, waiting
//	admit.go     whether a task waits, for how long, or goes at once; tasks to which a strategy gives no agent
//	needs.go     what a task requires of its agent: capabilities, preferences, strategy
//	settle.go    dispatches, and what the broker reports of them
//	lease.go     dispatches that an agent has: deadlines, and their end
//	result.go    what agents report of how tasks ended
//	outcome.go   record success or failure of a dispatch for its agent (internal/ejection decides
//	             which agents get no work)
//	reassign.go  dispatches that come back
//	retry.go     tasks that came back: which agents may have them again, and when
//	cancel.go    tasks that are withdrawn
//	end.go       how tasks that are held end; internal/ends stores pending failures and what else must be sent again
//	patience.go  for how long a task may wait
//	wish.go      tasks that wait for preferred agents, or for agents that asked for time
//	pending.go   classes of tasks with equal requirements (internal/queue decides which goes next)
//	batch.go     tasks that are decided together
//	isolate.go   tasks that must have an agent to themselves (internal/isolation decides which goes next)
//	unresolved.go  unresolved dispatches of a lost session or a coordinator before this one
//	             (internal/unresolved counts messages that may come again)
//	tasks.go     open tasks by number, and by the records of the dedupe window (internal/dedupe)
//	agent.go     what the engine stores about an agent (internal/fleet has the rest): its dispatches, its return to
//	             all slots, its serial
//	report.go    what a heartbeat changes
//	presence.go  whether an agent is available; operators' orders; what is seen of its queue
//	discover.go  discovery: agents that join by themselves
//	demand.go    how much each capability is asked for
//	learning.go  track record: how well the agents do with one kind of task (internal/choice chooses among them)
//	explain.go   why each agent may not have a task
//	place.go     queue position of a task, and how long fair sharing and quota may delay it
//	auctions.go  tasks are offered, bids come in, winners get their tasks (internal/market decides)
//	claim.go     work that agents claim (internal/claims stores waiting claims, and the plans)
//	quota.go     reservations of quota for tasks, and their end (internal/admission stores them)
//	quotawait.go  tasks that lack quota, the agents that have some, and which are served when some is free again
//	quotaview.go  quotas for views
//	calls.go     leases of LLM calls (package llmcalls): recorded and announced
//	controls.go  standing changes to quotas.yaml (package quotacontrol): made, recorded, announced, ended
//	lanes.go     tasks that are moved to queues of their own, and come back (internal/lanes decides which)
//	record.go    what must survive; fold.go: the replayed state; image.go: all of it at once
//	timer.go     deadlines
//	snapshot.go  a copy of the state for readers
//	audit.go     checks that the stored state is consistent
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
