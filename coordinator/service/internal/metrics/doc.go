// Package metrics answers "what does Prometheus see of a coordinator?"
//
// What happens is counted as it happens ([Metrics]). What stands somewhere already is given at each scrape as values,
// which a function or method turns into samples. Names, labels and help: docs/reference/metrics.md.
//
//	metrics.go  what is counted: assignments, publications, messages, sessions, the journal
//	results.go  how tasks end
//	market.go   auctions and claims
//	agents.go   results of the agents that fail most
//	totals.go   what the coordinator counts for /status as well
//	fleet.go    a snapshot of the engine
//	quotas.go   the quotas; pools.go: the state of providers
//	history.go  how far the history of usage is
//	collect.go  how metrics are made
//
// # What it must never do
//
// It asks for nothing and knows neither the service nor its session: both count here, and give the values
// of a scrape. Labels are of closed sets, or bounded.
package metrics
