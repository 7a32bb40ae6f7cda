// Package service is the shell around the engine: how do events get in and effects get out?
//
//	          ┌────────────── session (one broker session, a value) ─────────────┐
//	deliveries│ ingest: decode, hold ──► loop: engine.Apply ──► outbox: encode,  │
//	──────────┤                          (one goroutine)        publish          ├─► broker
//	          │        ▲                                            │            │
//	          └────────┴──────────── settle: confirm, log, count ◄──┘            │
//	                                                                             ┘
//
// Its rooms are packages below internal, which own their state and know no session (rooms.go gives them what they
// need):
//
//	agentqueues  agents' queues: which there are, and what is in them
//	alerts       events about quotas, for people, and which budgets will not last
//	background   what a goroutine of a session does next
//	callers      requests that wait for what comes of a cancel or an order
//	callgate     questions about LLM calls
//	clock        the time that the engine is given, and the broker's
//	controls     the standing changes to quotas.yaml, and what the quotas are with them
//	dead         what lies in task.dead: looked into, sent again, dropped
//	intake       what deliveries say, which are held, what became of each
//	journaling   reading and writing the journal, and what follows from its loss
//	lanes        the queues of lanes
//	metrics      what Prometheus sees
//	observer     what has happened, in the log and in counts
//	outbox       what is to be published, in which form, and what waits for an answer
//	reading      what users see of tasks, agents and quotas
//	recent       recent tasks, for people, and their dispatches so far
//	relay        what agents report over HTTP
//	stalls       whether work waits and nothing comes of it
//	takeback     consuming the queues of agents that are gone or drained
//	taking       consumers of tasks that come and go with the window
//	telemetry    gates against floods of lines
//	vetting      what a message says, and whether its sender may say it
//	views        how a snapshot is shown, and how fleet and tasks are judged
//
// One direction: what is learnt later enters the loop again as an event. Between
// the loop and the outbox stand the commits: no effect is carried out before the
// journal has the records that it follows from.
//
// The goroutine of the loop outlives sessions, its engine does not: every session
// begins with a new one, which folds the journal until the session leads. All else
// of a session dies with it, and the broker delivers again what was not
// acknowledged.
//
// # Its parts
//
//	service.go   construction, Run: open a session, run it, back off, again
//	loop.go      the goroutine that owns the engine
//	clock.go     not leading with a wrong clock
//	session.go   one broker session from opening to its end; rooms.go: what its rooms are given
//	follow.go    what it does before it leads, and how it takes over
//	fence.go     reading what stands in a stream already
//	journal.go   folding what the journal brings, and when snapshots and recordings are made of the state
//	ingest.go    tasks, returns and heartbeats in, events out
//	results.go   results in
//	requests.go  cancels, bids and claims by message in, and the answers to these
//	cancel.go    cancels by HTTP in, and what their callers hear
//	order.go     an operator's orders in
//	relay.go     what agents report over HTTP in, agent.status out
//	publish.go   effects in, publications out; effects.go: those for agents beside dispatches, and into lanes
//	ends.go      task.completed on its way
//	control.go   changes of quotas in; controls.go: what the engine goes by then
//	dead.go      in which session task.dead is looked into
//	settle.go    what the broker answered
//	survive.go   a fault of the program that one message brings out
//	overruns.go  budgets that will not last
//	reads.go     what is read of tasks, agents and quotas
//	calls.go     questions about LLM calls, and which coordinator answers them
//	scrape.go    what the metrics are given at each scrape
//	audit.go     looking whether the books balance
//	status.go    health, readiness, status for httpapi
//	lifecycle.go  the states of the process
//
// # What it must never do
//
// It decides nothing about tasks and agents. It never acknowledges a delivery
// before the outcome is confirmed by the broker, carries out nothing that the
// journal does not have (unless it is switched off), never logs a payload or a
// secret, and knows no AMQP: the bus it is given is the only way out.
package service
