// Package onloss answers "which LLM calls may be admitted while no leader can be asked, and which are still to be
// reported?"
//
// quotas.yaml says for each pool whether every coordinator may do so by itself (on_loss). What is admitted is charged
// by the next leader that can be asked, whatever the limits.
//
//	onloss.go  which calls are admitted, and what is kept of them
//	ends.go    how they end, and which are to be reported
//	words.go   what an agent's own report counts for
//
// # What it must never do
//
// No I/O, no clock, no locks: its caller asks the leader first, reports what is Due, and guards it.
package onloss
