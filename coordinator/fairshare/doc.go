// Package fairshare answers: who may use how much of an LLM provider's limits now, and
// who goes first?
//
// It implements the scheduling half of FAIR-SHARE: quota trees with rates, budgets and
// seats, borrowing and lending, reservations, estimates of what is not known yet, and
// hierarchical fair queueing by what work has cost.
//
// # Its parts
//
//	ledger.go     the quota trees and what is used of them: check, reserve, settle
//	gcra.go       rates
//	apportion.go  a whole divided by weights, to the unit
//	period.go     when budgets begin anew
//	lending.go    what may be borrowed, of whom, and how it is repaid
//	reservation.go reservations and their end
//	estimate.go   what a call will probably take
//	price.go      what it costs
//	shares.go     whose turn it is: virtual time of groups
//	backlog.go    what waits, in that order
//
// # What it must never do
//
// No I/O, no clock, no chance, no floating point in what is counted: amounts are
// integers, times are given. A refusal changes nothing. Nothing depends on the order of
// a map.
package fairshare
