// Package service is the shell around the engine: how do events get in and effects get out?
//
//	          ┌────────────── session (one broker session, a value) ─────────────┐
//	deliveries│ ingest: decode, hold ──► loop: engine.Apply ──► outbox: encode,  │
//	──────────┤                          (one goroutine)        publish          ├─► broker
//	          │        ▲                                            │            │
//	          └────────┴──────────── settle: confirm, log, count ◄──┘            │
//	                                                                             ┘
//
// Its rooms are packages below internal, which own their state and never call back: alerts (events about quotas),
// callgate (questions about LLM calls), dead (what lies in task.dead), intake (what deliveries say, which are held, what
// became of each), journaling (reading and writing the journal), metrics (what Prometheus sees), observer (what has
// happened, in the log and in counts), outbox (what is to be published, in which form, and what waits for an answer),
// reading (what users see of tasks, agents and quotas), telemetry (gates against floods of lines).
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
//	clock.go     the time that the engine is given
//	session.go   one broker session from opening to its end
//	follow.go    what it does before it leads, and how it takes over
//	fence.go     reading what stands in a stream already
//	journal.go   folding what the journal brings, and when snapshots and recordings are made of the state
//	ingest.go    tasks, returns and heartbeats in, events out
//	results.go   results in, task.completed out
//	requests.go  cancels, bids and claims by message in
//	cancel.go    cancels by HTTP in, and what their callers hear
//	withdraw.go  telling an agent to stop
//	offers.go    offering tasks to agents
//	bids.go      their bids and claims, and the answers to these
//	order.go     an operator's orders in
//	relay.go     what agents report over HTTP in, agent.status out
//	orders.go    what waits for the broker, one after the other
//	lanes.go     the queues of lanes; lanes_move.go: into them
//	takeback.go  consuming the queues of agents that are gone or drained
//	takeback_foreign.go  leaving alone what is not ours there
//	watch.go     looking at the queues of agents that have work
//	taking.go    consumers of tasks that come and go with the window
//	publish.go   effects in, publications out
//	ends.go      task.completed on its way
//	park.go      what cannot be handled, on its way to task.dead
//	internal/dead  looking into task.dead, sending again and dropping what is there; dead.go: in which session
//	settle.go    what the broker answered
//	survive.go   a fault of the program that one message brings out
//	overruns.go  budgets that will not last; internal/alerts: which, and in which words
//	internal/recent  recent tasks, for people, and their dispatches so far
//	reads.go     what is read of tasks, agents and quotas; internal/reading: how
//	internal/observer  what is logged and counted, for /status and Prometheus
//	calls.go     questions about LLM calls, and which coordinator answers them
//	scrape.go    what the metrics are given at each scrape
//	internal/metrics  Prometheus: what is counted, and what a scrape makes of values
//	queuenames.go  the agents' queues that metrics name
//	audit.go     looking whether the books balance
//	status.go    health, readiness, status for httpapi
//	internal/views  how a snapshot is shown, and how fleet and tasks are judged
//	lifecycle.go  the states of the process
//
// # What it must never do
//
// It decides nothing about tasks and agents. It never acknowledges a delivery
// before the outcome is confirmed by the broker, carries out nothing that the
// journal does not have (unless it is switched off), never logs a payload or a
// secret, and knows no AMQP: the bus it is given is the only way out.
package service
