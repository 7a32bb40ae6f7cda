// Package integration holds the black-box tests: the real program, `taskbus
// serve`, against a real RabbitMQ.
//
// # What it answers
//
// "Does the promise hold when everything is real?" Producers, agents, operators
// and faults act on the broker and on the process from outside, as they would in
// production; the tests look only at what they could see there: messages, HTTP
// answers, log lines, exit codes.
//
//	rig_test.go        one virtual host, its coordinators, their logs
//	process_test.go    one coordinator process: signals, HTTP, metrics
//	client_test.go     producers and agents
//	team_test.go       agents with the SDK in the test's own process, and what all are told
//	ledger_test.go     offered, acknowledged, lost, duplicated, unexpected
//
// The tests begin in the order of their files' names. Those that take longest, in
// which a whole broker stops and starts, or the coordinator waits for its retry budget,
// stand in files that come early.
//
// # What it must never do
//
// It never reaches into the coordinator's memory, never waits for a fixed time
// where it can wait for what must happen, and never takes a fault for granted:
// every test of a fault first shows that the fault was there.
package integration
