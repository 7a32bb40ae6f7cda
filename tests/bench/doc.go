// Command bench judges what benchmarks measured: it reads their output (the text format of go test -bench), holds
// the medians against targets, and prints a table. scripts/bench.sh runs the benchmarks:
//
//	BenchmarkBroker  of this package: the program bin/taskbus on a private broker, under one load driver. Each
//	                 scenario (scenarios_test.go) is a fleet, a load and where the tasks must arrive. Beside it runs the
//	                 relay, a bare client of the library that moves every message from one quorum queue to those of
//	                 100 agents, confirmed: the least that any Go program could do
//	others           beside their packages: the engine, auctions, claims, the ledger of quotas, calls over HTTP, the
//	                 simulator
//
// The broker, the load and the process under test share the machine, and others may use it too. Therefore the
// scenarios of a part take turns, medians are taken, and what counts most is the CPU time of the process itself.
//
// # What it must never do
//
// A missed target is no failure: it is printed, and the exit code is 0. A task that was lost or arrived twice fails
// the benchmark, whatever the speed: exit code 1. Every run deletes the queues of Taskbus: only the broker that
// TASKBUS_BENCH_BROKER names is used, never that of RABBITMQ_URL. The broker's URL is never shown.
package main
