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
//	engine.go    the front door: one method per event; install.go: another policy
//	session.go   what a session brings with it, and what its end leaves
//	task.go      the life of an open task: received, resumed, waiting; admit.go: whether, and for how
//	             long, it may wait or goes at once
//	end.go       how tasks that are held end; internal/ends keeps what must be announced again
//	settle.go    dispatches, and what the broker says of them
//	lease.go     dispatches that an agent has: deadlines, and their end
//	result.go    what agents tell of how tasks ended
//	reassign.go  dispatches that come back
//	cancel.go    tasks that are withdrawn
//	session.go   what a session brings and its end leaves; clocks that were ahead, and times in which no agent
//	             can be heard
//	install.go   another policy: all that wait are judged anew
//	wish.go      tasks that wait for preferred agents, or for agents that asked for time
//	batch.go     tasks that are decided together
//	unresolved.go  what a lost session, or a coordinator before this one, leaves open (internal/unresolved
//	             counts messages that may come again)
//	isolate.go   tasks that must have an agent to themselves (internal/isolation says which goes next)
//	record.go    what must survive; fold.go, foldagents.go: taking it over; image.go: all of it at once
//	needs.go     what a task asks of its agent: capabilities, preferences, strategy
//	fleet.go     who is there: agents, slots, and the bit sets the choice starts from; fleetadopt.go:
//	             another configuration
//	outcome.go   what the end of a dispatch counts for and against its agent (internal/ejection says
//	             which agents get no work); slowstart.go: the way back
//	capacity.go  how much agents get done
//	account.go   how an agent's slots are counted between two reports
//	report.go    what a heartbeat changes
//	presence.go  whether an agent is there for its work; operators' orders; presencelook.go: what is
//	             seen of its queue
//	auctions.go  tasks are offered, bids come in, winners get their tasks (internal/market decides)
//	claim.go     work that agents claim (internal/claims keeps what waits, and the plans)
//	discover.go  agents that join by themselves
//	learning.go  how well the agents do with one kind of task; internal/choice: the choice among them
//	unscored.go  a strategy that makes nothing of anybody
//	explain.go   why each agent may not have a task
//	pending.go   classes of tasks with equal requirements (internal/queue says which goes next)
//	line.go      who of all that wait goes next; place.go, placequota.go: at which place one is
//	quota.go     quota for a task is reserved, and that ends (internal/admission keeps it)
//	quotawait.go  which agents a task may go to with it; tasks that lack some; quotaserve.go: what is
//	             served when some is back
//	calls.go     leases of LLM calls (package llmcalls): recorded and told
//	controls.go  standing changes to quotas.yaml (package quotacontrol): made, recorded, told, ended
//	quotaview.go  quotas for people
//	lanes.go     tasks that are moved to queues of their own, and come back (internal/lanes says which)
//	demand.go    how much each capability is asked for
//	tasks.go     open tasks by number, and by the records of the dedupe window (internal/dedupe)
//	retry.go     tasks that came back: which agents may have them again, and when
//	timer.go     deadlines
//	snapshot.go  a copy of all this for readers
//	audit.go     whether the books balance; audittasks.go: those of the tasks; auditfleet.go: of the
//	             agents; auditquota.go
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
