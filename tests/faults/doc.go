// Package faults proves that the promises hold when everything goes wrong: the matrix
// of faults, each cell of it a real `taskbus serve` against a real RabbitMQ with a
// producer, agents, and one fault.
//
// # What it answers
//
// "What is lost, doubled or stuck when this happens in the middle of the work?" Every
// cell has the same shape: work goes on, the fault strikes and is proven to have
// struck, it is taken back, everything drains, and then the books are compared: every
// task that the broker had confirmed has ended, once but for marked copies, unchanged,
// with no agent overloaded and no secret shown. What is looked at are
// messages, HTTP answers, log lines, exit codes, and the frames on the wire.
//
//	go test ./tests/faults                      the short form, part of make test
//	go test ./tests/faults -faults.all          the whole matrix: make faults
//	go test ./tests/faults -run Soak -faults.soak=2h -faults.seed=7
//	                                            random faults: make soak
//
//	proxy/              the network, and what happens on the wire
//	rig_test.go         one virtual host and what runs in it
//	process_test.go     one coordinator: start, signals, HTTP, log
//	fleet_test.go       agents; teller_test.go: how they tell results; producer_test.go: producers
//	book_test.go        what was offered and what came of it
//	invariants_test.go  the promises, by name; checker_test.go: that they can be found broken
//	scenes_test.go      what most cells are made of
//	matrix_test.go      running cells
//	cells_*_test.go     the cells, by what is struck
//	soak_test.go        the random walk through faults
//	sessions_test.go    sessions without end leave nothing behind
//
// # What it must never do
//
// It never takes a fault for granted: a cell whose fault has not fired fails. It never
// reaches into the coordinator's memory. A cell has a virtual host or a node of its own
// and depends on no other.
package faults
