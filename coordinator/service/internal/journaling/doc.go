// Package journaling answers "what does the journal say, and is what we did in it?"
//
// A Ledger is a session's hand on the journal. First it reads, and gives every message to a sink that folds it; then
// it claims an epoch; then it writes. Between the loop and the outbox stand the Commits: no effect is carried out
// before the journal has the records that it follows from.
//
//	ledger.go     the claim, and what reading and writing share
//	read.go       reading: where it begins, what a message brings, how far it is
//	write.go      writing: commits, inputs, news of files and losses
//	snapshots.go  a copy of the state in the journal, now and then
//	commits.go    effects that wait for their records
//	cursor.go     how far results have been handled
//	lost.go       whether an earlier journal is lost
//	restore.go    what was used of budgets, out of the history of usage
//	recording.go  every input of the engine, for replay
//
// # What it must never do
//
// It folds nothing and decides nothing: the loop does, with what the sink is given. It carries out nothing that the
// journal does not have. It knows no session: it is given bus, clock and the ways out.
package journaling
