// Package replay answers: does the engine decide a recording again as it did, or what instead?
//
// A recording is a snapshot of the engine's state, everything that the engine was
// given from then on, and the records that it left meanwhile (see package journal).
// [Read] finds the recordings in an export of the journal. [Recording.Verify]
// gives an engine the same state and the same inputs and compares its records, byte
// by byte, with those of the journal.
//
// # What if
//
// Under another policy the world would not have answered as it did: other agents
// would have got the tasks. [Recording.Compare] plays the recording in a model of the
// world, under the recorded policy and under the other one, and measures both the
// same way; what truly happened is measured, too, so that everybody can see how far
// the model is to be trusted.
//
// What is kept as it was recorded: which tasks came when; when agents were there,
// with how many slots; orders, cancellations, reloads, lost sessions. What is
// modelled: how a dispatch ends, and when. On the agent that truly had the task it
// ends as it truly did. On another it ends like one of that agent's own tasks of the
// type, which a hash of task and agent draws from those that it ended: so it takes
// that agent's usual time, and fails at that agent's rate. An agent of which little
// is recorded borrows from all other agents' tasks of the type (and where none
// ended one, from all types), their times scaled by how fast it is with what it did.
//
// docs/replay.md says for people what follows from that.
//
// # What it must never do
//
// Read a clock, roll dice, or let anything depend on the order of a map: the same
// export gives the same bytes. Nor re-implement a decision: which agent gets a task is the
// engine's answer, always.
//
// # Its parts
//
//	recording.go  the recordings in an export
//	verify.go     the same again; difference.go: what is not the same;
//	              verification.go: as it is printed
//	player.go     an engine that is given a recording
//	facts.go      what truly happened; presence.go: when agents were there
//	habits.go     how tasks end on agents
//	world.go      the modelled world: what follows from effects; moments.go: what
//	              happens next; fleet.go: modelled agents; beats.go: their heartbeats;
//	              feed.go: what is kept of the recording
//	tally.go      what is counted; compare.go: of which runs; report.go, output.go
package replay
