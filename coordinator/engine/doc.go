// Package engine is the deterministic core: what must happen now?
//
//	Apply(now, event) → effects
//
// Everything Taskbus decides is decided here, by one goroutine, without locks:
// which agent gets a task, who waits, in which order, who is told what when
// nothing can be done. The same engine runs in production, in replay, in the
// simulator and in the property tests.
//
// # What it must never do
//
// No I/O, no goroutine, no clock, no dice, no logging. Time is the argument of
// Apply. Chance is a hash of ids with a configured seed. No result may depend
// on the order of a map: every comparison ends in an id or a sequence number.
//
// # Its parts
//
//	engine.go    the front door: one method per event
//	install.go   another policy: all that wait are judged anew
//	session.go   what a session brings and its end leaves; clocks that were ahead, and times in which no agent
//	             can be heard
//	task.go      the life of an open task: received, resumed, waiting
//	admit.go     whether, and for how long, a task may wait or goes at once; tasks to which a strategy gives no agent
//	needs.go     what a task asks of its agent: capabilities, preferences, strategy
//	settle.go    dispatches, and what the broker says of them
//	lease.go     dispatches that an agent has: deadlines, and their end
//	result.go    what agents say of how tasks ended
//	outcome.go   what the end of a dispatch counts for and against its agent (internal/ejection says
//	             which agents get no work)
//	reassign.go  dispatches that come back
//	retry.go     tasks that came back: which agents may have them again, and when
//	cancel.go    tasks that are withdrawn
//	end.go       how tasks that are held end; internal/ends keeps what must be announced again
//	patience.go  for how long a task may wait
//	wish.go      tasks that wait for preferred agents, or for agents that asked for time
//	pending.go   classes of tasks with equal requirements (internal/queue says which goes next)
//	batch.go     tasks that are decided together
//	isolate.go   tasks that must have an agent to themselves (internal/isolation says which goes next)
//	unresolved.go  what a lost session, or a coordinator before this one, leaves open (internal/unresolved
//	             counts messages that may come again)
//	tasks.go     open tasks by number, and by the records of the dedupe window (internal/dedupe)
//	agent.go     what the kernel keeps of an agent (internal/fleet has the rest): its dispatches, its way back to all
//	             slots, its serial
//	report.go    what a heartbeat changes
//	presence.go  whether an agent is there for its work; operators' orders; what is seen of its queue
//	discover.go  agents that join by themselves
//	demand.go    how much each capability is asked for
//	learning.go  how well the agents do with one kind of task (internal/choice chooses among them)
//	explain.go   why each agent may not have a task
//	place.go     at which place a task waits, and how long the turns and quota may keep it
//	auctions.go  tasks are offered, bids come in, winners get their tasks (internal/market decides)
//	claim.go     work that agents claim (internal/claims keeps what waits, and the plans)
//	quota.go     quota for a task is reserved, and that ends (internal/admission keeps it)
//	quotawait.go  tasks that lack quota, the agents for which there is some, and what is served when some is back
//	quotaview.go  quotas for views
//	calls.go     leases of LLM calls (package llmcalls): recorded and announced
//	controls.go  standing changes to quotas.yaml (package quotacontrol): made, recorded, announced, ended
//	lanes.go     tasks that are moved to queues of their own, and come back (internal/lanes says which)
//	record.go    what must survive; fold.go: taking it over; image.go: all of it at once
//	timer.go     deadlines
//	snapshot.go  a copy of all this for readers
//	audit.go     whether the books balance
//
// # Invariants
//
// A task has one live dispatch, unless the agent of an earlier one is presumed lost
// or nobody knows whether that one arrived. Never a dispatch to an agent that is
// not eligible at that moment. An agent's known outstanding work (reported
// active tasks plus dispatches not yet covered by a report) never grows beyond
// its maximum by a decision of ours. Every task received and not yet settled is
// in exactly one state. While a class of tasks waits, no agent that could take
// them is ready. A batch is of one kind of tasks and at one agent, and nobody is
// overtaken by it.
package engine
