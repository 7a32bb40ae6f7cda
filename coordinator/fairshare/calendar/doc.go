// Package calendar answers: in which calendar period does an instant lie, from when to when?
//
// Every instant is in exactly one period, whatever the clocks of a place are set to, and one begins where the one
// before it ends. It must never read a clock or allocate to find a period: it is asked for each of thousands of
// budgets.
package calendar
