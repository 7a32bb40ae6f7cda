// Package agent is the SDK for programs that do tasks.
//
// It gets work for a handler function, and reports what became of it to the fleet.
//
// An agent is a function and a [Config]:
//
//	err := agent.Run(ctx, agent.Config{
//		ID:    "gpu-1",
//		URL:   os.Getenv("RABBITMQ_URL"),
//		Slots: 4,
//	}, func(ctx context.Context, t *agent.Task) (agent.Result, error) {
//		...
//	})
//
// [Run] consumes the agent's queue, calls the function once for each task, up to
// Slots at a time, and returns when ctx has ended and the work is done.
//
// # What the handler says, and what becomes of the task
//
//	return                     outcome     the task
//	nil                        succeeded   has ended
//	an error                   failed      has ended
//	Reject("no such model")    rejected    goes to another agent
//	Retry(err)                 rejected    goes to another agent; a failure on this one
//	(a panic)                  rejected    the same
//	an error after its ctx     cancelled   has ended (ErrCancelled)
//	  has ended                failed      has ended (ErrDeadline)
//	                           rejected    goes to another agent (ErrStopping)
//
// An error whose methods panic counts as a panic: a nil pointer of a type of error,
// returned as an error, is not nil.
//
// [context.Cause] of the handler's ctx tells which of the three it was. A handler
// that does not return is not waited for: its result goes out half a second after
// the deadline, or five seconds after the withdrawal; its slot stays taken.
//
// # The life of a dispatch
//
//	delivered ─► waiting ─► running ─► ended ─► result confirmed ─► acknowledged
//	    │        (a hung      │                   │ session lost:      or rejected
//	    │        handler      │ session lost:     │ published again
//	    │        has its      │ it goes on        │ in the next one
//	    │        slot)
//	    ├─ open already: it is the same one again; nothing begins twice
//	    ├─ ended already: its result is published again, the message settled as before
//	    └─ its task runs or waits under another dispatch: it joins that run
//
// A message is acknowledged only after the broker has confirmed its result, so an
// agent that dies loses no task: the broker gives it to another. For the same
// reason a task may, across a fault, be begun twice ([Task].MaybeDuplicate): what a
// handler does should be harmless when it is done again.
//
// # Batches
//
// Where tasks of a type are batched, [RunBatches] has a [BatchHandler] called once for
// those that were given to the agent together. Each is a dispatch with a life of its
// own, as above; what they share is the call:
//
//	delivered ─► collected ─► running, each in its slot ─► ended, by Finish or by what
//	               │                                       the handler returns
//	               └─ begun without those that have not come within BatchWait
//
// # What comes again
//
// Within one process a dispatch is recognised by its id and runs once. The results of
// the last 10,000 that have ended, in 8 MiB at most, are remembered (a long error text
// by its first 512 bytes). A copy of one of them, delivered again by the broker or
// marked by a coordinator that does not know whether the first arrived, does not run:
// its result goes out again, for a coordinator that has not heard it, and the message
// is acknowledged, or rejected, as the first was. A dispatch under such an id that is
// neither is no copy: its producer has submitted the task again, and it runs.
//
// A task never runs beside itself. A second dispatch of one that runs, or waits for a
// slot, joins it: a coordinator has taken the first for lost while the agent was
// without a session. The handler is not called again, and its ctx stays what it is,
// deadline included; to withdraw either dispatch ends it. The verdict is given for the
// newest dispatch, and for every other whose message lies with this session: each its
// own result, each message settled after its own confirm. A message that has joined
// holds one of the Slots places of the consumer's prefetch but no slot: until it is
// settled the agent may be sent fewer tasks than it has slots free, never more. (A copy
// of a dispatch that is in hand is acknowledged at once, and holds none.) A heartbeat
// lists the task once. Where the handler still hangs although the task's
// result is out, a new dispatch of it is given back.
//
// # Bids and claims
//
// A task may be offered before it is given: [Config.Bidder] says whether the agent wants
// it ([DefaultBidder], or a function of your own). An agent that takes its work by itself
// has [Config.Pull]: it claims as many tasks as package balance says, one claim at a time.
// Either way the task comes as a dispatch, and what is said above holds for it.
//
// Every heartbeat tells how many tasks are in hand, and every 10 s, or as often as
// [Config.Pull] says, how many the agent does a second, once that is more than a guess.
//
// # Calls of LLM providers
//
// What a handler calls within a task is charged to the task by [Result].Usage. An agent that calls
// providers besides, or has no tasks at all, asks for quota itself: package agent/quota.
//
// # Sessions
//
// A broker that is away, or that no coordinator has prepared yet (there is no
// exchange "taskbus.agents"), is tried again for ever, after a pause with full jitter
// under a bound that doubles from 250 ms to 15 s. Work is never interrupted by a
// lost session. Two processes under one id take turns, never share: the second
// waits, and says so in its log, until the first has gone.
//
// # What it must never do
//
// It never assigns work or knows other agents, declares nothing of the broker but
// its own control queue (and its own queue, if asked to), publishes to nothing but
// the exchange "taskbus.agents" under keys that end in its id, and never logs a payload,
// what a handler's panic says (it may quote one), or the password of the broker's URL.
package agent
