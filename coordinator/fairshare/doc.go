// Package fairshare answers: how much LLM quota may each tenant use now, and which waiting tenant goes first?
//
// It implements the scheduling half of FAIR-SHARE: quota trees with rates, budgets and
// seats, borrowing and lending, reservations, estimates of what is not known yet, and
// hierarchical fair queueing by what work has cost.
//
// # Its parts
//
// The ledger: what may be used, and what is.
//
//	directory.go    which nodes something is charged to, by names; directorycharge.go: what it takes
//	ledger.go       the quota trees, and what is used of them
//	install.go      other quotas while reservations are open; former.go: what is not listed any more;
//	                rest.go: when many may be installed as one
//	check.go        whether there is room for a charge; explain.go: why not, for people
//	reservation.go  what is set aside, extended, and how it ends; settle.go, ending.go
//	excess.go       reports of implausible usage; trust.go: how far an agent's own report is accepted
//	book.go         used and reserved, in the period that they belong to
//	budget.go       amounts for calendar periods; lending.go, supply.go, repay.go: of others, and back
//	borrower.go     which of several borrows first
//	rates.go        rates with what is assured to each node
//	health.go       what a provider says of its limits; answers.go: how it answers
//	seats.go        how much runs at one time
//	waiting.go      what waits, and what has been given back
//	alert.go        budgets that are nearly used up
//	state.go        all of it as records, and from records; before.go: the rows of budgets and rates
//	view.go         all of it for people; describe.go: refusals
//	charge.go       what a task is charged, within the limits
//
// What calls take and cost.
//
//	estimate.go     by those that have ended; estimate_memory.go, estimate_save.go
//	histogram.go    of one kind of calls, small
//	price.go        in money
//
// Which group has its turn.
//
//	shares.go       virtual times of the groups; sharetree.go, shareimage.go
//	levels.go       priorities
//	ahead.go        how much may go before; delay.go: how long quota takes for that
//	backlog.go      what waits, in that order; backlogflow.go, flow.go, backlogaudit.go
//
// And the arithmetic of all three.
//
//	gcra.go         one rate
//	apportion.go    a whole divided by weights, to the unit
//	period.go       when calendar periods begin; clock.go: what a clock that was ahead has begun
//	arith.go        products that do not fit
//
// # Its rules
//
// A charge goes to a chain of nodes in the pool and one of the provider: everywhere or nowhere. Of several limits
// that refuse, the answer names the one that lasts longest.
//
// A budget lends min(bound, share · elapsed − used − reserved − lent − headroom). What was borrowed or overdrawn is
// repaid in the next period, within repay_percent.
//
// Turns are hierarchical start-time fair queueing over tokens (output counts twice). An idle group saves nothing
// up; one that is ahead stays ahead; both within caps.
//
// # What it must never do
//
// No I/O, no clock, no chance, no floating point in what is counted: amounts are
// integers, times are given. A refusal changes nothing. Nothing depends on the order of
// a map.
package fairshare
