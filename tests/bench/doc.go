// Command bench answers "what does Taskbus cost, and how fast is it, beside the
// least that any Go program could do?". It runs two processes in turn against
// one private broker and prints what it measured, beside the targets:
//
//	relay    this program again, as a bare client of the library: it moves every
//	         message from one quorum queue to those of 100 agents, confirmed
//	taskbus  the real service binary doing the real work, with 1,000 agent
//	         statuses a second beside; and once more with its journal switched off
//
// Beside that it measures what agents that leave, a second coordinator and a long
// journal mean: how soon work goes on, and what it costs meanwhile.
//
// The broker, the two generators and the process under test share the machine,
// and others may use it too. Therefore the runs are interleaved, medians are
// taken, and what counts most is the CPU time of the process itself.
//
// # What it must never do
//
// It is no test: a missed target is printed and the exit code is 0. A task that
// was lost or arrived twice is a fault, whatever the speed: exit code 1. (Across the
// kill of a coordinator a task may arrive twice, and that is counted.) It
// deletes every queue of Taskbus before each run and therefore refuses a broker
// that has such queues and is not marked as its own. It never shows the URL.
package main
