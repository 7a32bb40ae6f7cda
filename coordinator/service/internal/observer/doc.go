// Package observer answers: what has happened at this coordinator?
//
// It writes down what happens: a log line, what /status and Prometheus count, the recent tasks. What it counts it shows
// in the types of package view, and every display reads it here.
//
//	observer.go  the observer, and which effects it writes down
//	tasks.go     tasks in, dispatches and failures out; results.go: how tasks end at agents
//	agents.go    agents; senders.go: senders that may not say what they say
//	unknown.go   fields that no schema has
//	queues.go    the queues of agents, and lanes
//	market.go    auctions, bids and claims
//	quotas.go    budgets, their changes, usage; unpriced.go: models without a price
//	sessions.go  sessions with the broker, the configuration, the journal
//	audit.go     books that do not balance
//	counters.go  what is counted since the start; lately.go: in the last minute; endings.go: of each agent
//	noise.go     the kinds of lines that may come in floods
//
// # What it must never do
//
// It decides nothing, publishes nothing, and never blocks for long: any goroutine may call it. It never logs a payload,
// a secret, or what an agent says of an error.
package observer
