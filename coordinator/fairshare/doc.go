// Package fairshare answers: how much LLM quota may each tenant use now?
//
// It is the ledger of FAIR-SHARE: quota trees with rates, budgets and seats, borrowing and lending, and reservations.
// Packages below it answer the rest: billing what a call is charged, and where; estimates what it will take; fairqueue
// which tenant has its turn; rates what may pass; seats what may run at one time; health how a provider answers;
// calendar when periods begin.
//
// # Its parts
//
// The ledger: what may be used, and what is.
//
//	ledger.go       the quota trees, and what is used of them
//	install.go      other quotas while reservations are open; former.go: what is not listed any more;
//	                rest.go: when many may be installed as one
//	check.go        whether there is room for a charge; explain.go: why not, for people
//	reservation.go  what is set aside, extended, and how it ends; settle.go, ending.go
//	excess.go       reports of implausible usage; trust.go: how far an agent's own report is accepted
//	book.go         used and reserved, in the period that they belong to
//	budget.go       amounts for calendar periods; lending.go, supply.go, repay.go: of others, and back
//	borrower.go     which of several borrows first
//	hear.go         what a provider says of its limits
//	waiting.go      what waits, and what has been given back
//	alert.go        budgets that are nearly used up
//	state.go        all of it as records, and from records; before.go: the rows of budgets and rates
//	view.go         all of it for people; describe.go: refusals
//	charge.go       what a task is charged, within the limits
//
// How long it takes.
//
//	delay.go        how long quota keeps something waiting
//	clock.go        what a clock that was ahead has begun
//	amounts.go      sums that do not fit
//
// # Its rules
//
// A charge goes to a chain of nodes in the pool and one of the provider: everywhere or nowhere. Of several limits
// that refuse, the answer names the one that lasts longest.
//
// A budget lends min(bound, share · elapsed − used − reserved − lent − headroom). What was borrowed or overdrawn is
// repaid in the next period, within repay_percent.
//
// # What it must never do
//
// No I/O, no clock, no chance, no floating point in what is counted: amounts are
// integers, times are given. A refusal changes nothing. Nothing depends on the order of
// a map.
package fairshare
