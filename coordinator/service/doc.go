// Package service is the shell around the engine: it answers "how do events get
// in and effects get out?"
//
//	          ┌────────────── session (one broker session, a value) ─────────────┐
//	deliveries│ ingest: decode, hold ──► loop: engine.Apply ──► outbox: encode,  │
//	──────────┤                          (one goroutine)        publish          ├─► broker
//	          │        ▲                                            │            │
//	          └────────┴──────────── settle: confirm, log, count ◄──┘            │
//	                                                                             ┘
//
// One direction: what is learnt later enters the loop again as an event. The
// loop outlives sessions; everything else of a session dies with it, and the
// broker delivers again what was not acknowledged.
//
// # Its parts
//
//	service.go   construction, Run: open a session, run it, back off, again
//	loop.go      the goroutine that owns the engine
//	session.go   one broker session from opening to its end
//	fence.go     where the past of a stream ends
//	ingest.go    tasks, returns and heartbeats in, events out
//	results.go   results in, task.completed out
//	requests.go  cancels by message in
//	cancel.go    cancels by HTTP in, and what their callers hear
//	withdraw.go  telling an agent to stop
//	order.go     an operator's orders in
//	relay.go     what agents report over HTTP in, agent.status out
//	takeback.go  consuming the queues of agents that are gone or drained
//	takeback_foreign.go  leaving alone what is not ours there
//	watch.go     looking at the queues of agents that have work
//	window.go    how many tasks are held
//	held.go      the deliveries held unacknowledged
//	owed.go      failures that no delivery stands behind
//	outbox.go    effects in, publications out
//	settle.go    what the broker answered
//	history.go   recent tasks, for people
//	attempts.go  their dispatches so far
//	explain.go   why they were decided so, and how they would be now
//	stats.go     the fleet in figures
//	observe.go   logs and counters
//	noise.go     keeping floods out of the log
//	metrics.go   Prometheus: what is counted; metrics_results.go: how tasks end
//	metrics_fleet.go  what is read off a snapshot
//	books.go     every delivery, and what became of it
//	audit.go     looking whether the books balance
//	status.go    health, readiness, status for httpapi
//
// # What it must never do
//
// It decides nothing about tasks and agents. It never acknowledges a delivery
// before the outcome is confirmed by the broker, never logs a payload or a
// secret, and knows no AMQP: the bus it is given is the only way out.
package service
