// Package sharing answers one question: how evenly do tenants share an LLM provider by this policy?
//
// It also answers how well it is guessed what a call will take.
//
// It has [fairqueue.Shares] and [fairqueue.Backlog], which say in production whose turn it
// is, order the calls of tenants on a virtual clock, and beside them what else one could do.
// Every policy gets the same calls, and a call takes as long under each.
//
// # The world
//
// A provider works on so many calls at a time. One takes a time for each of its input and
// output tokens, whatever else runs. It costs input + 2·output, as an output token is worth
// two in VTC (Sheng et al., "Fairness in serving large language models", OSDI 2024). A
// policy knows a call's input when it is dispatched, and its output when it has ended.
//
// # The policies
//
//	fcfs           first come, first served, of any tenant
//	round_robin    tenants take turns by calls
//
// and shares by weight, with this as a call's cost from its dispatch on until its end, when
// it is put right:
//
//	at_finish      1
//	reserve_max    its input and the most output that is allowed
//	reserve_input  its input
//	reserve_mean   its input and the mean output of the tenant's calls that have ended
//	taskbus        its input and what [estimates.Estimator] expects of the output, which
//	               looks at calls with inputs of about that length
//
// # What is measured
//
// With all calls of all tenants waiting from the beginning, until the first has no more:
//
//	gap     the largest difference of service by weight between two tenants at any
//	        moment, |W_i/w_i − W_j/w_j|, in cost; W is the cost of what was dispatched
//	bound   what the theorem allows: K·c/w of the two tenants of which that is most, with
//	        the most calls K that one had open and the dearest call c (or charge for one)
//	jain    Jain's index (Σx)²/(n·Σx²) of x = W/w; 1 is even
//	minute  the least Jain's index of any minute, with what was dispatched in it
//
// With calls that come when they were recorded:
//
//	wait    from a call's arrival to its dispatch
//
// # What it must never do
//
// Read a clock, roll dice or start a goroutine: the same scenario gives the same bytes. Nor
// re-implement a decision: whose turn it is by shares, and what is expected of a call, is
// what coordinator/fairshare says.
//
// # Its parts
//
//	play.go        all weights, policies and seeds of a scenario
//	policy.go      the policies
//	run.go         the virtual clock of one run: arrivals, turns, calls
//	evenness.go    gap, bound, Jain's index
//	estimators.go  ways to guess what a call will take
//	report.go      results over several seeds; output.go: as table, CSV, JSON
package sharing
