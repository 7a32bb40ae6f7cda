// Package simulator answers one question: what would this strategy do to this
// fleet under this load?
//
// It drives the engine that runs in production, [engine.Engine.Apply], with a
// virtual clock and a heap of moments, in place of a broker, agents and producers.
// Every dispatch is confirmed and reaches its agent at once; the agent works for as
// long as a draw says, succeeds or fails as another draw says, sends heartbeats and
// results, and may crash. Several strategies are played side by side on the same
// arrivals and the same draws, and measured by what truly happened, not by what
// the coordinator believes.
//
// # What it must never do
//
// Read a clock, roll dice, start a goroutine, or let anything depend on the order of
// a map: the same scenario and seed give the same bytes. Nor re-implement a decision:
// which agent gets a task is the engine's answer, always.
//
// # Common random numbers
//
// Chance is a hash of the seed and of what is drawn, never a generator with a
// state. How long task 17 takes on a kind of agent, whether it succeeds on one
// agent, and when it arrives is therefore the same under every strategy, and a
// difference between two strategies is theirs, not luck's.
//
// # What is measured
//
//	tasks/s      tasks that agents finished, well or not, between warm-up and end
//	success      tasks that succeeded, of those that ended
//	wait         from a task's arrival to the first start of work on it
//	utilisation  slot-seconds at work, of the slot-seconds of agents that were up
//	fairness     Jain's index (Σx)²/(n·Σx²) over the agents that were up and might
//	             succeed with some of the work; x is the share of its slot-seconds
//	             that an agent worked
//	idle         work conservation violated: seconds in which a task waited (in the
//	             coordinator, or behind others in an agent's own queue) while an agent
//	             that might succeed with it had a free slot, by the truth: one that
//	             the coordinator takes for lost, or has ejected, counts
//	regret       per decision: the success probability given away against the best agent
//	             with a free slot at that moment; and the share of the best reward rate
//	             (success probability ÷ mean seconds) given away. Both by the truth. An
//	             agent without a free slot counts with the wait that is to be expected.
//
// Times and rates are those of the tasks that arrived after the warm-up. Arrivals
// stop at the scenario's duration; the simulation goes on until every task has
// ended, at most for drain_seconds.
//
// # Its parts
//
//	scenario.go  what is simulated; read*.go, yaml*.go: its file; limits.go: how large it may be
//	pulling.go   what package pulling plays in place of a fleet that is pushed to;
//	             read_pulling.go: its section of the file
//	sharing.go   what package sharing plays: tenants of an LLM provider; read_sharing.go
//	shipped.go   the scenarios that come with the program
//	chance.go    draws and distributions
//	trace.go     recorded arrivals
//	play.go      all strategies and seeds of a scenario
//	policy.go    the policy that the engine gets; reference.go: strategies to compare with
//	world.go     the virtual clock, and what the shell would do with effects; ledger.go: its tasks
//	agents.go    simulated agents and their work; presence.go: their heartbeats and
//	             crashes; arrivals.go: simulated producers
//	timeline.go  what happens next, of every world
//	tally.go     what is counted; regret.go: what was given away; outcome.go: of one run
//	report.go    results over several seeds, by statistics.go; output.go: as table, CSV, JSON
package simulator
