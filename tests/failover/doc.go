// Package failover holds the tests of taking over: several `taskbus serve` processes
// on real brokers, of which the one that leads is killed, stopped, or cut off with
// its node, while tasks come in.
//
// # What it answers
//
// "Does the fleet notice when the coordinator dies?" Every task that the broker has
// accepted comes out; no task gets a second dispatch while its agent lives; what the
// old leader knew (leases, success rates, ids, orders) the new one knows; and an old
// leader that comes back does nothing.
//
//	rig_test.go      the broker as all see it, the end of a test
//	process_test.go  one coordinator: signals, HTTP, metrics
//	fleet_test.go    agents, plain ones and such with the SDK
//	load_test.go     the producer
//	book_test.go     what was offered, what became of it
//	ledger_test.go   what the journal says: epochs, decisions
//	cluster_test.go  three nodes
//
// The rest are the tests: kill, stop, series, nodes.
//
// # What it must never do
//
// It never reaches into a coordinator's memory, never judges by what the program says
// of itself alone where the broker or an agent can be asked, and never takes a fault
// for granted. The program is built as it is shipped, without the race detector, and the
// tests run without it in make test: the times it takes are part of the promise.
package failover
