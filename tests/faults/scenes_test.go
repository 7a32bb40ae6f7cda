package faults

import (
	"fmt"
	"time"
)

// What most cells are made of.

// dispatches is how the routing keys of dispatches begin here: to the queues of agents
// a1, a2, …, and not to the stream agent.status.
const dispatches = "agent.a"

// usual is the manner of agents in most cells.
var usual = agentOptions{work: 20 * time.Millisecond}

// slow agents still have what a coordinator gave them when the next one has started.
var slow = agentOptions{work: 900 * time.Millisecond}

// underLoad lets a coordinator, four agents and a producer work, lets the fault strike
// in mid-stream, and goes on until what is offered afterwards is done, too (L1).
func (r *rig) underLoad(strike func(c *process)) *process {
	r.t.Helper()
	c := r.serve()
	r.work(4, 5, usual)
	p := r.produce("t", "build", 120, 1_000_000)
	r.inFullSwing(30)
	strike(c)
	r.resumes()
	p.finish()
	return c
}

// inFullSwing waits until so many more tasks have been run.
func (r *rig) inFullSwing(more int) {
	r.t.Helper()
	before := r.book.executed()
	r.eventually(patience+backoffCap, "work is in full swing", func() (bool, string) {
		n := r.book.executed() - before
		return n >= more, fmt.Sprintf("%d more tasks were run", n)
	})
}

// resumes waits until work goes on now that the fault is taken back: L1, 5 s and the
// longest pause between two tries. What is offered now must be run, too, in its turn.
func (r *rig) resumes() time.Duration {
	r.t.Helper()
	const limit = 5*time.Second + backoffCap
	id := fmt.Sprint("probe-", r.probes)
	r.probes++
	begun, before := time.Now(), r.book.executed()
	r.submit(task(id, "build"))
	// The machine may be busy: what takes too long is said, and what does not go on at
	// all ends the cell.
	r.eventually(3*limit, "L1: work goes on after the fault", func() (bool, string) {
		return r.book.executed() > before, fmt.Sprint("no more than ", before, " tasks are run")
	})
	took := time.Since(begun)
	if took > limit {
		r.t.Errorf("L1: work went on %v after the fault was taken back, want at most %v", took, limit)
	}
	r.eventually(2*time.Minute, "what is offered after the fault is run", func() (bool, string) {
		e := r.book.entry(id)
		return len(e.executions()) > 0, e.String()
	})
	r.say("work went on after %v", took.Round(10*time.Millisecond))
	return took
}
